"""Groups in the versions of Kafka 0.8 to 0.10. Ours only."""

from collections.abc import Iterator
from typing import Any

import pytest

from interop.raw import RawClient
from interop.waiting import eventually
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic

pytestmark = [pytest.mark.ours_only, pytest.mark.one_broker("every group has its coordinator there")]
LOADING = {14, 15, 16}  # the coordinator of a group that nobody has asked for before


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as raw:
        eventually(lambda: raw.call(FindCoordinatorRequest("old"), 0).error_code in LOADING, False)
        yield raw


def commit(client: RawClient, version: int, group: str, topic: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(0, offset, committed_metadata="note")
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=[partition])])
    [answer] = client.call(request, version).topics[0].partitions
    return int(answer.error_code)


def fetch(client: RawClient, version: int, group: str, topic: str) -> Any:
    request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, partition_indexes=[0])])
    return client.call(request, version).topics[0].partitions[0]


@pytest.mark.parametrize("fetched", [0, 1, 2])
@pytest.mark.parametrize("committed", [0, 1, 2])
def test_offsets_of_a_group_without_members(client: RawClient, topic: str, committed: int, fetched: int) -> None:
    group = f"old-{committed}-{fetched}"
    eventually(
        lambda: fetch(client, fetched, group, topic).error_code in LOADING, False
    )  # each has a partition of its own
    assert fetch(client, fetched, group, topic).committed_offset == -1
    assert commit(client, committed, group, topic, 42) == 0
    found = fetch(client, fetched, group, topic)
    assert (found.committed_offset, found.metadata, found.error_code) == (42, "note", 0)
