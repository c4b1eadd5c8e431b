"""Groups: members, committed offsets, lag.

Rule: the state of a group is read from the coordinator without a request, so that a wait can look after every turn.
Every change is a request of a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.control.answers import CommittedPartition, GroupDetails, GroupSummary, Member
from pykafka_broker.control.api.topics import listed_offsets, raise_if, topic_image
from pykafka_broker.control.control import Control, in_pauses
from pykafka_broker.control.problems import Problem, did_you_mean, problem_of
from pykafka_broker.control.reading import check_led_here, has_records
from pykafka_broker.control.schema import Index, Offset
from pykafka_broker.coordinators.groups.classic_group import ClassicGroup
from pykafka_broker.coordinators.groups.consumer_protocol import read_assignment
from pykafka_broker.coordinators.groups.group import AnyGroup
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import EARLIEST, LATEST
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka_broker.protocol.runtime import DecodeError

_OFFSETS_IN_A_TURN = 100
_OFFSETS_BY_NAME = 9  # the last version of OffsetCommit that names topics
_WITH_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION})


@dataclass
class Lag:
    """The number of records a group has still to read: in all, and of each partition."""

    lag: int
    partitions: list[CommittedPartition]


# -- the state of groups


def all_groups(services: Services) -> list[AnyGroup]:
    """Return every group, by name. Raises COORDINATOR_LOAD_IN_PROGRESS."""
    if CONSUMER_OFFSETS not in services.image.topics:
        return []  # no group was ever used: the coordinator does not exist
    return sorted(services.groups.listed().groups.values(), key=lambda group: group.group_id)


def find_group(services: Services, group_id: str) -> AnyGroup | None:
    """Return a group, or None, also while groups are loading."""
    if CONSUMER_OFFSETS not in services.image.topics or services.groups.shards.loading:
        return None
    return services.groups.coordinator.groups.get(group_id)


def are_loading(services: Services) -> bool:
    """Return whether groups are being read from their log: a part of their offsets is there, perhaps older ones."""
    return CONSUMER_OFFSETS in services.image.topics and services.groups.shards.loading


def summary(group: AnyGroup) -> GroupSummary:
    """Return a group with the number of members."""
    return GroupSummary(
        group_id=group.group_id,
        type=group.type_name,
        state=group.state_name,
        protocol_type=group.protocol_type,
        members=len(getattr(group, "members", ())),
    )


def with_members(services: Services, group: AnyGroup) -> GroupDetails:
    """Return a group with members, and without the offsets, which take longer."""
    return GroupDetails(
        group_id=group.group_id,
        type=group.type_name,
        state=group.state_name,
        protocol_type=group.protocol_type,
        members=_members(services, group),
        offsets=[],
    )


def _members(services: Services, group: AnyGroup) -> list[Member]:
    coordinator = services.groups.coordinator
    describe: Callable[[str], Any] = {
        "consumer": coordinator.describe_consumer,
        "share": coordinator.describe_share,
        "streams": coordinator.describe_streams,
    }.get(group.type_name, coordinator.describe_classic)
    return [
        Member(
            member_id=each.member_id,
            instance_id=getattr(each, "group_instance_id", getattr(each, "instance_id", None)),
            client_id=each.client_id,
            client_host=each.client_host,
            partitions=_partitions(group, each),
        )
        for each in describe(group.group_id).members
    ]


def _partitions(group: AnyGroup, member: Any) -> dict[str, list[int]]:
    """Return the assignment of a member; of classic groups only consumers have a known format."""
    if not isinstance(group, ClassicGroup):
        assigned = member.assignment.topic_partitions if group.type_name != "streams" else ()
        return {each.topic_name: list(each.partitions) for each in assigned}
    if group.protocol_type != "consumer" or not member.member_assignment:
        return {}
    try:
        read = read_assignment(bytes(member.member_assignment))
    except DecodeError:
        return {}
    return {each.topic: list(each.partitions) for each in read.assigned_partitions}


async def committed(control: Control, group_id: str) -> list[CommittedPartition]:
    """Return the group's commits for every partition of all topics with commits.

    Other requests are served while those of many partitions are read. Raises COORDINATOR_LOAD_IN_PROGRESS.
    """
    if are_loading(control.services):
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return [each async for each in in_pauses(each_committed(control.services, group_id), _OFFSETS_IN_A_TURN)]


def each_committed(services: Services, group_id: str) -> Iterator[CommittedPartition]:
    """Yield what `committed` returns; each step may open the log of a partition."""
    if CONSUMER_OFFSETS not in services.image.topics:
        return
    for topic, offsets in sorted(services.groups.coordinator.offsets.committed(group_id).items()):
        image = services.image.topics.get(topic)
        for index in sorted(image.partitions) if image is not None else ():
            stored = offsets.get(index)
            offset = None if stored is None else stored.offset
            partition = _partition_led_here(services, topic, index)
            yield CommittedPartition(
                topic=topic,
                partition=index,
                committed=offset,
                end=None if partition is None else partition.high_watermark,
                lag=None if partition is None else _left(partition, offset),
                metadata=None if stored is None else stored.metadata,
            )


def _partition_led_here(services: Services, topic: str, index: int) -> Partition | None:
    """Return a partition; None if the broker does not lead the partition."""
    try:
        return services.replicas.leader(topic, index)
    except ApiError:
        return None


def _left(partition: Partition, committed: int | None) -> int:
    """Return how many offsets a group has left; none where only ends of transactions are left, which nobody commits."""
    start, end = partition.log.log_start_offset, partition.high_watermark
    position = start if committed is None else committed
    return 0 if position >= end or not has_records(partition, position) else end - position


def total_lag(partitions: Iterable[CommittedPartition]) -> int:
    """Return the lag of all partitions that the broker leads."""
    return sum(each["lag"] or 0 for each in partitions)


# -- operations


def groups(control: Control) -> list[GroupSummary]:
    """Return all groups, of every kind."""
    return [summary(each) for each in all_groups(control.services)]


async def group(control: Control, group: str) -> GroupDetails:
    """Return a group, with members and offsets."""
    found = with_members(control.services, _existing(control, group))
    found["offsets"] = await committed(control, group)
    return found


async def lag(control: Control, group: str) -> Lag:
    """Return how much a group has still to read of all topics with committed offsets."""
    partitions = await committed(control, group)
    if not partitions:
        _existing(control, group)
    check_lag_known(control, partitions)
    for each in partitions:
        if each["lag"] is None:
            led = f"{each['topic']}-{each['partition']} has no leader: nobody knows what is left in it"
            raise problem_of(ApiError(ErrorCode.LEADER_NOT_AVAILABLE, led))
    return Lag(total_lag(partitions), partitions)


def check_lag_known(control: Control, partitions: list[CommittedPartition]) -> None:
    """Raise `Problem` for a partition that another broker leads: only that broker knows the end."""
    for each in partitions:
        check_led_here(control, each["topic"], each["partition"])


async def delete_group(control: Control, group: str) -> None:
    """Delete a group with the committed offsets. A group with members can't be deleted."""
    _existing(control, group)
    answer = await control.inside.ask_coordinator(DeleteGroupsRequest([group]), None, group)
    if answer.results[0].error_code == ErrorCode.NON_EMPTY_GROUP:
        raise _has_members(control, group)
    raise_if(answer.results[0].error_code)


async def commit(
    control: Control, group: str, topic: str, offset: Offset, partition: Index = 0, metadata: str = ""
) -> None:
    """Commit an offset for a group, which is created if missing. While a group has members, only members commit."""
    topic_image(control, topic, partition)
    await commit_offsets(control, group, topic, {partition: offset}, metadata)


async def reset_offsets(
    control: Control,
    group: str,
    topic: str | None = None,
    to: Literal["earliest", "latest"] | Offset = "earliest",
    to_time: Offset | None = None,
    partition: Index | None = None,
) -> list[CommittedPartition]:
    """Commit new offsets for a group: the beginning or the end of a topic, an offset, or the first offset of a time
    (`to_time`, epoch milliseconds). All topics with committed offsets of the group where none is named. Returns the
    committed offsets. While a group has members only they commit.
    """
    names = sorted({each["topic"] for each in await committed(control, group)}) if topic is None else [topic]
    if not names:
        _existing(control, group)
        raise Problem(404, f"group {group} has committed nothing: name the topic")
    for name in names:
        image = topic_image(control, name)
        indexes = sorted(image.partitions) if partition is None else [partition]
        await commit_offsets(control, group, name, await _offsets_at(control, name, indexes, to, to_time))
    return [each for each in await committed(control, group) if each["topic"] in names]


async def _offsets_at(
    control: Control, topic: str, indexes: list[int], to: str | int, to_time: int | None
) -> dict[int, int]:
    """Return the offset of each partition. Raises `Problem` 400 for an offset outside of a partition."""
    starts = await listed_offsets(control, topic, indexes, EARLIEST)
    ends = await listed_offsets(control, topic, indexes, LATEST)
    if to_time is not None:
        found = await listed_offsets(control, topic, indexes, to_time)
        return {index: ends[index] if at < 0 else at for index, at in found.items()}
    if isinstance(to, str):
        return starts if to == "earliest" else ends
    for index in indexes:
        if not starts[index] <= to <= ends[index]:
            raise Problem(400, f"{topic}-{index} has offsets {starts[index]} to {ends[index]}, not {to}")
    return dict.fromkeys(indexes, to)


async def commit_offsets(control: Control, group: str, topic: str, offsets: dict[int, int], metadata: str = "") -> None:
    """Commit offsets of a topic as a client outside of the group."""
    partitions = [
        OffsetCommitRequestPartition(index, offset, committed_metadata=metadata) for index, offset in offsets.items()
    ]
    request = OffsetCommitRequest(group, -1, "", topics=[OffsetCommitRequestTopic(topic, partitions=partitions)])
    answer = await control.inside.ask_coordinator(request, _OFFSETS_BY_NAME, group)
    for each in answer.topics[0].partitions:
        if each.error_code in _WITH_MEMBERS:
            raise _has_members(control, group)
        raise_if(each.error_code, f"{topic}-{each.partition_index}")


def _has_members(control: Control, group: str) -> Problem:
    members = [each["client_id"] for each in _members(control.services, _existing(control, group))]
    told = f"group {group} has members ({', '.join(members)}): end them first, or wait_for_group(state=Empty)"
    return Problem(409, told, code=ErrorCode.NON_EMPTY_GROUP.name)


def _existing(control: Control, group: str) -> AnyGroup:
    """Return a group. Raises `Problem` 404 for an unknown group, with similar names."""
    found = find_group(control.services, group)
    if found is None:
        raise Problem(404, unknown_group(control, group), code=ErrorCode.GROUP_ID_NOT_FOUND.name)
    return found


def unknown_group(control: Control, group: str) -> str:
    """Return in words that there is no such group, with similar names."""
    return f"there is no group {group}{did_you_mean(group, [each.group_id for each in all_groups(control.services)])}"
