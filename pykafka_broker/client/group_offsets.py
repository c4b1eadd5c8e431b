"""Offsets that groups have committed, and groups that are deleted.

Rule: requests name topics by name, as brokers before 4.1 need it. What is refused for all of a group is raised; of
one partition it is a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import Refused, check
from pykafka_broker.client.leaders import Place
from pykafka_broker.client.offsets import by_topic
from pykafka_broker.protocol.enums import CoordinatorType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pykafka_broker.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup

_SEVERAL_GROUPS = (8, 9)  # versions of OffsetFetch; from 10 on they name topics by id
_ONE_GROUP = (2, 7)  # from 2 on all topics can be asked for


class Committed(NamedTuple):
    """`leader_epoch` is -1 where it is not known."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


async def committed_offsets(client: Client, group_id: str) -> dict[Place, Committed]:
    """All of the group, by topic and partition. Raises Refused."""
    several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=None)])
    try:
        answer = await _fetch(client, group_id, several, _SEVERAL_GROUPS)
        told = answer.groups[0]
    except Refused as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        told = await _fetch(client, group_id, OffsetFetchRequest(group_id, topics=None), _ONE_GROUP)
    found = {}
    for topic in told.topics:
        for each in topic.partitions:
            check(each.error_code)
            if each.committed_offset >= 0:
                committed = Committed(each.committed_offset, each.committed_leader_epoch, each.metadata or "")
                found[topic.name, each.partition_index] = committed
    return dict(sorted(found.items()))


async def _fetch(client: Client, group_id: str, request: OffsetFetchRequest, versions: tuple[int, int]) -> Any:
    def code_of(answer: Any) -> int:
        return int(answer.groups[0].error_code if answer.groups else answer.error_code)

    call = "listConsumerGroupOffsets"
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group_id, request, code_of, versions=versions, call=call
    )
    check(code_of(answer))
    return answer


async def commit_offsets(client: Client, group_id: str, offsets: Mapping[Place, Committed]) -> None:
    """For a group that has no members. Raises Refused with the first error."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            partitions=[_to_commit(index, offsets[topic, index]) for index in indexes],
        )
        for topic, indexes in by_topic(offsets)
    ]
    request = OffsetCommitRequest(group_id, topics=topics)
    call = "alterConsumerGroupOffsets"
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group_id, request, _first_error, versions=(1, 9), call=call
    )
    check(_first_error(answer))


def _to_commit(index: int, committed: Committed) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        index,
        committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


def _first_error(answer: Any) -> int:
    codes = (each.error_code for topic in answer.topics for each in topic.partitions)
    return next((code for code in codes if code != ErrorCode.NONE), ErrorCode.NONE)


async def delete_offsets(client: Client, group_id: str, places: Iterable[Place]) -> dict[Place, Refused | None]:
    """None where it is done. Raises Refused if nothing was done for any."""
    topics = [
        OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
        for topic, indexes in by_topic(places)
    ]
    request = OffsetDeleteRequest(group_id, topics)
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group_id, request, lambda answer: int(answer.error_code), call="offsetDelete"
    )
    check(answer.error_code)
    return {
        (topic.name, each.partition_index): None if each.error_code == ErrorCode.NONE else Refused(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


async def delete_group(client: Client, group_id: str, *, call: str = "deleteConsumerGroups") -> None:
    """A group of any kind that has no members. Raises Refused."""
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP,
        group_id,
        DeleteGroupsRequest([group_id]),
        lambda answer: int(answer.results[0].error_code),
        call=call,
    )
    check(answer.results[0].error_code)
