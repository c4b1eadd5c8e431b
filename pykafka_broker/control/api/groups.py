"""Groups and their positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pykafka_broker.control.api.topics import raise_if
from pykafka_broker.control.control import Control
from pykafka_broker.control.groups_view import (
    CommittedPartitionAnswer,
    GroupDetails,
    GroupSummaryAnswer,
    all_groups,
    committed,
    details,
    find_group,
    summary,
    total_lag,
)
from pykafka_broker.control.problems import Problem, did_you_mean
from pykafka_broker.control.schema import ValueLimits
from pykafka_broker.control.topic_watch import check_led_here, no_topic
from pykafka_broker.protocol.enums import EARLIEST, LATEST
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

Partition = Annotated[int, ValueLimits(minimum=0, maximum=2**31 - 1)]
Offset = Annotated[int, ValueLimits(minimum=0, maximum=2**63 - 1)]
_OFFSETS_BY_NAME = 9  # the last version of OffsetCommit that names topics
_WITH_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION})


@dataclass
class Lag:
    """The number of records a group has still to read: in all, and of each partition."""

    lag: int
    partitions: list[CommittedPartitionAnswer]


def groups(control: Control) -> list[GroupSummaryAnswer]:
    """Return all groups, of every kind."""
    return [summary(each) for each in all_groups(control.services)]


def group(control: Control, group: str) -> GroupDetails:
    """Return a group, with members and offsets."""
    _check_there(control, group)
    return details(control.services, group)


def lag(control: Control, group: str) -> Lag:
    """Return how much a group has still to read of all topics with committed offsets."""
    partitions = committed(control.services, group)
    if not partitions:
        _check_there(control, group)
    check_lag_known(control, partitions)
    return Lag(total_lag(partitions), partitions)


def check_lag_known(control: Control, partitions: list[CommittedPartitionAnswer]) -> None:
    """Raise `Problem` where another broker of a cluster has records a group has still to read."""
    for each in partitions:
        check_led_here(control, each.topic, each.partition)


async def delete_group(control: Control, group: str) -> None:
    """Delete a group with the committed offsets. A group with members can't be deleted."""
    _check_there(control, group)
    answer = await control.inside.ask_coordinator(DeleteGroupsRequest([group]), None, group)
    if answer.results[0].error_code == ErrorCode.NON_EMPTY_GROUP:
        raise _has_members(control, group)
    raise_if(answer.results[0].error_code)


async def commit(
    control: Control, group: str, topic: str, offset: Offset, partition: Partition = 0, metadata: str = ""
) -> None:
    """Commit an offset for a group, which is created if missing. While a group has members, only members commit."""
    image = control.services.image.topics.get(topic)
    if image is None:
        raise no_topic(control, topic)
    if partition not in image.partitions:
        raise Problem(404, f"topic {topic} has partitions 0 to {len(image.partitions) - 1}, not {partition}")
    await commit_offsets(control, group, topic, {partition: offset}, metadata)


async def reset_offsets(
    control: Control,
    group: str,
    topic: str | None = None,
    to: Literal["earliest", "latest"] | Offset = "earliest",
    to_time: Offset | None = None,
    partition: Partition | None = None,
) -> list[CommittedPartitionAnswer]:
    """Commit new offsets for a group: where a topic begins, where it ends, an offset, or the first offset of a time
    (`to_time`, epoch milliseconds). All topics with committed offsets of the group where none is named. Returns the
    committed offsets. While a group has members only they commit.
    """
    names = sorted({each.topic for each in committed(control.services, group)}) if topic is None else [topic]
    if not names:
        _check_there(control, group)
        raise Problem(404, f"group {group} has committed nothing: name the topic")
    for name in names:
        image = control.services.image.topics.get(name)
        if image is None:
            raise no_topic(control, name)
        numbers = sorted(image.partitions) if partition is None else [partition]
        await commit_offsets(control, group, name, await _offsets_at(control, name, numbers, to, to_time))
    return [each for each in committed(control.services, group) if each.topic in names]


async def _offsets_at(
    control: Control, topic: str, numbers: list[int], to: str | int, to_time: int | None
) -> dict[int, int]:
    """Return the offset of each partition. Raises `Problem` 400 for an offset outside of a partition."""
    starts = await _listed(control, topic, numbers, EARLIEST)
    ends = await _listed(control, topic, numbers, LATEST)
    if to_time is not None:
        found = await _listed(control, topic, numbers, to_time)
        return {number: ends[number] if at < 0 else at for number, at in found.items()}
    if isinstance(to, str):
        return starts if to == "earliest" else ends
    for number in numbers:
        if not starts[number] <= to <= ends[number]:
            raise Problem(400, f"{topic}-{number} has offsets {starts[number]} to {ends[number]}, not {to}")
    return dict.fromkeys(numbers, to)


async def _listed(control: Control, topic: str, numbers: list[int], timestamp: int) -> dict[int, int]:
    asked = [ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in numbers]
    answer = await control.inside.ask(ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, asked)]))
    found = answer.topics[0].partitions
    for each in found:
        raise_if(each.error_code, f"{topic}-{each.partition_index}")
    return {each.partition_index: each.offset for each in found}


async def commit_offsets(control: Control, group: str, topic: str, offsets: dict[int, int], metadata: str = "") -> None:
    """Commit offsets of a topic as a client outside of the group."""
    partitions = [
        OffsetCommitRequestPartition(number, offset, committed_metadata=metadata) for number, offset in offsets.items()
    ]
    request = OffsetCommitRequest(group, -1, "", topics=[OffsetCommitRequestTopic(topic, partitions=partitions)])
    answer = await control.inside.ask_coordinator(request, _OFFSETS_BY_NAME, group)
    for each in answer.topics[0].partitions:
        if each.error_code in _WITH_MEMBERS:
            raise _has_members(control, group)
        raise_if(each.error_code, f"{topic}-{each.partition_index}")


def _has_members(control: Control, group: str) -> Problem:
    members = [each.client_id for each in details(control.services, group).members]
    told = f"group {group} has members ({', '.join(members)}): end them first, or wait_for_group(state=Empty)"
    return Problem(409, told, code=ErrorCode.NON_EMPTY_GROUP.name)


def _check_there(control: Control, group: str) -> None:
    """Raise `Problem` 404 for an unknown group, with similar names."""
    if find_group(control.services, group) is None:
        known = did_you_mean(group, [each.group_id for each in all_groups(control.services)])
        raise Problem(404, f"there is no group {group}{known}", code=ErrorCode.GROUP_ID_NOT_FOUND.name)
