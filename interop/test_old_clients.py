"""Clients older than Kafka 4 serves: message formats 0 and 1, and the versions that came with them. Ours only."""

from typing import Any

import pytest

from interop.answers.requests import produce
from interop.batches import Rec, batch, records
from interop.conftest import MakeTopic
from interop.raw import RawClient, leader_of
from interop.waiting import eventually
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

pytestmark = pytest.mark.ours_only

# kafka-python has no lz4 of format 0 without one more library; librdkafka's stands in test_confluent.py.
READ_IN = [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (11, 2)]  # Fetch version, format
CASES = [
    (wrote, codec, version, magic)
    for wrote in (0, 1, 2)
    for codec in ("none", "gzip", "snappy", "lz4")
    for version, magic in READ_IN
    if codec != "lz4" or (wrote > 0 and magic > 0)
]
PRODUCE_OF = {0: 1, 1: 2, 2: 3}  # magic -> a Produce version that carries it


@pytest.fixture
def client(bootstrap: str, topic: str) -> Any:
    with RawClient(leader_of(bootstrap, topic)) as raw:
        yield raw


def write(client: RawClient, topic: str, data: bytes, version: int) -> Any:
    [answer] = client.call(produce(topic, data), version).responses[0].partition_responses
    assert answer.error_code == 0
    return answer


def read(client: RawClient, topic: str, version: int, offset: int = 0, max_bytes: int = 1_000_000) -> bytes:
    asked = FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic, partitions=[asked])])
    [answer] = client.call(request, version).responses[0].partitions
    assert answer.error_code == 0
    return bytes(answer.records or b"")


@pytest.mark.parametrize(("wrote", "codec", "fetch_version", "magic"), CASES)
def test_each_format_is_read_in_each_format(
    client: RawClient, topic: str, wrote: int, codec: str, fetch_version: int, magic: int
) -> None:
    first = [Rec(b"v%d" % i, b"k", 1_600_000_000_000 + i) for i in range(5)]
    write(client, topic, batch(*first, magic=wrote, codec=codec), PRODUCE_OF[wrote])
    write(client, topic, batch(Rec(b"last", None, 1_600_000_000_009), magic=wrote), PRODUCE_OF[wrote])
    data = read(client, topic, fetch_version)
    assert data[16] <= magic
    found = records(data)
    assert [(r.offset, r.key, r.value) for r in found] == [
        *((i, b"k", b"v%d" % i) for i in range(5)),
        (5, None, b"last"),
    ]
    if wrote > 0 and magic > 0:
        assert [r.timestamp for r in found[:5]] == [r.timestamp for r in first]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_offsets_of_the_old_produce(client: RawClient, topic: str, version: int) -> None:
    magic = 1 if version == 2 else 0
    assert write(client, topic, batch(b"a", b"b", magic=magic), version).base_offset == 0
    assert write(client, topic, batch(b"c", magic=magic), version).base_offset == 2


def test_several_message_sets_in_one_request(client: RawClient, topic: str) -> None:
    """A request may carry several message sets before format 2, compressed and plain ones mixed."""
    mixed = batch(b"a", b"b", magic=1, codec="gzip") + batch(b"c", magic=1) + batch(b"d", b"e", magic=1, codec="gzip")
    write(client, topic, mixed, 2)
    assert [r.value for r in records(read(client, topic, 4))] == [b"a", b"b", b"c", b"d", b"e"]


def test_acks_zero_has_no_answer(client: RawClient, topic: str) -> None:
    client.send(produce(topic, batch(b"a", magic=0), acks=0), 0)
    client._waiting.clear()
    assert client.call(ApiVersionsRequest(), 0).error_code == 0
    eventually(lambda: [r.value for r in records(read(client, topic, 4))], [b"a"])  # when all replicas have it


def test_an_old_consumer_in_the_middle(client: RawClient, topic: str) -> None:
    write(client, topic, batch(*[b"%d" % i for i in range(10)], codec="gzip"), 3)
    found = records(read(client, topic, 2, offset=7))
    assert [r.value for r in found if r.offset is not None and r.offset >= 7] == [b"7", b"8", b"9"]


def test_an_old_consumer_with_a_small_buffer_gets_a_whole_message(client: RawClient, topic: str) -> None:
    write(client, topic, batch(b"x" * 1000, b"y"), 3)
    assert records(read(client, topic, 3, max_bytes=10))[0].value == b"x" * 1000


def test_log_append_time_for_format_1(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    with RawClient(leader_of(bootstrap, topic)) as client:
        stamp = write(client, topic, batch(Rec(b"x", None, 1000), magic=1), 2).log_append_time_ms
        assert stamp > 1_600_000_000_000
        for version in (2, 4):
            assert [r.timestamp for r in records(read(client, topic, version))] == [stamp]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_metadata(client: RawClient, topic: str, version: int) -> None:
    def names(topics: list[MetadataRequestTopic] | None) -> set[str]:
        return {t.name for t in client.call(MetadataRequest(topics), version).topics}

    assert names([MetadataRequestTopic(name=topic)]) == {topic}
    if version == 0:
        assert topic in names([])  # null did not exist, an empty list asked for all
    else:
        assert names([]) == set()
        assert topic in names(None)


def test_list_offsets_with_segments_instead_of_times(client: RawClient, topic: str) -> None:
    write(client, topic, batch(b"a", b"b", magic=1), 2)

    def ask(timestamp: int, most: int) -> list[int]:
        asked = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=timestamp, max_num_offsets=most)])]
        [answer] = client.call(ListOffsetsRequest(-1, topics=asked), 0).topics[0].partitions
        assert answer.error_code == 0
        return list(answer.old_style_offsets)

    assert ask(-1, 1) == [2]
    assert ask(-1, 10) == [2, 0]
    assert ask(-2, 10) == [0]
    assert ask(1000, 10) == []


def test_topics_of_the_first_admin_versions(client: RawClient) -> None:
    for version in (0, 1):
        answer = client.call(CreateTopicsRequest([CreatableTopic(f"old-{version}", 2, 1)], 10_000), version)
        assert answer.topics[0].error_code == 0
    answer = client.call(DeleteTopicsRequest(topic_names=["old-0", "old-1"], timeout_ms=10_000), 0)
    assert [r.error_code for r in answer.responses] == [0, 0]


def test_every_old_version_is_offered(client: RawClient) -> None:
    offered = {v.api_key: v.min_version for v in client.call(ApiVersionsRequest(), 0).api_keys}
    assert [offered[key] for key in (0, 1, 2, 3, 8, 9, 19, 20)] == [0] * 8
