"""Groups as the control API shows them.

Rule: groups are read from the coordinator as they are now, without a request, so that they can be looked at after every
turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.coordinators.groups.classic_group import ClassicGroup
from pykafka_broker.coordinators.groups.consumer_protocol import read_assignment
from pykafka_broker.coordinators.groups.group import AnyGroup
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import DecodeError


@dataclass
class MemberAnswer:
    """A member; `partitions` are the present ones, by topic."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: dict[str, list[int]]


@dataclass
class CommittedPartitionAnswer:
    """The position of a group in a partition: `lag` is the number of records left. Without a commit `committed` is
    null, and everything in the partition is left. `end` and `lag` are null if another broker leads the partition, since
    only the leader knows.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    metadata: str | None


@dataclass
class GroupSummaryAnswer:
    """A group. `type` is classic, consumer, share or streams; `state` is in Kafka's words (Stable, Empty, ...)."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    members: int


@dataclass
class GroupDetails:
    """A group with the members and the committed offsets."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    members: list[MemberAnswer]
    offsets: list[CommittedPartitionAnswer]


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


def summary(group: AnyGroup) -> GroupSummaryAnswer:
    return GroupSummaryAnswer(
        group.group_id, group.type_name, group.state_name, group.protocol_type, len(_members_of(group))
    )


def details(services: Services, group_id: str) -> GroupDetails:
    """Return a group with members and offsets. Raises GROUP_ID_NOT_FOUND."""
    group = find_group(services, group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return GroupDetails(
        group_id,
        group.type_name,
        group.state_name,
        group.protocol_type,
        _members(services, group),
        committed(services, group_id),
    )


def _members_of(group: AnyGroup) -> Any:
    members: Any = getattr(group, "members", {})
    return members


def _members(services: Services, group: AnyGroup) -> list[MemberAnswer]:
    coordinator, group_id = services.groups.coordinator, group.group_id
    if isinstance(group, ClassicGroup):
        described = coordinator.describe_classic(group_id).members
        return [
            MemberAnswer(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                _classic_partitions(group, bytes(each.member_assignment)),
            )
            for each in described
        ]
    if group.type_name == "consumer":
        return [
            MemberAnswer(
                each.member_id, each.instance_id, each.client_id, each.client_host, _partitions(each.assignment)
            )
            for each in coordinator.describe_consumer(group_id).members
        ]
    if group.type_name == "share":
        return [
            MemberAnswer(each.member_id, None, each.client_id, each.client_host, _partitions(each.assignment))
            for each in coordinator.describe_share(group_id).members
        ]
    return [
        MemberAnswer(each.member_id, each.instance_id, each.client_id, each.client_host, {})
        for each in coordinator.describe_streams(group_id).members
    ]


def _partitions(assignment: Any) -> dict[str, list[int]]:
    return {each.topic_name: list(each.partitions) for each in assignment.topic_partitions}


def _classic_partitions(group: ClassicGroup, assignment: bytes) -> dict[str, list[int]]:
    """Return the assignment of a classic consumer; other kinds of groups have other formats."""
    if group.protocol_type != "consumer" or not assignment:
        return {}
    try:
        read = read_assignment(assignment)
    except DecodeError:
        return {}
    return {each.topic: list(each.partitions) for each in read.assigned_partitions}


def committed(services: Services, group_id: str) -> list[CommittedPartitionAnswer]:
    """Return the group's commits for every partition of all topics with commits."""
    if CONSUMER_OFFSETS not in services.image.topics:
        return []
    found = []
    for topic, offsets in sorted(services.groups.coordinator.offsets.committed(group_id).items()):
        image = services.image.topics.get(topic)
        for number in sorted(image.partitions) if image is not None else ():
            there = offsets.get(number)
            start, end = _bounds(services, topic, number) or (0, None)
            position = start if there is None else there.offset
            found.append(
                CommittedPartitionAnswer(
                    topic,
                    number,
                    None if there is None else there.offset,
                    end,
                    None if end is None else max(0, end - position),
                    None if there is None else there.metadata,
                )
            )
    return found


def _bounds(services: Services, topic: str, number: int) -> tuple[int, int] | None:
    """Return log start and high watermark; None if the broker does not lead the partition."""
    try:
        partition = services.replicas.leader(topic, number)
    except ApiError:
        return None
    return partition.log.log_start_offset, partition.high_watermark


def total_lag(partitions: Iterable[CommittedPartitionAnswer]) -> int:
    """Return the number of records left in the partitions the broker leads."""
    return sum(each.lag or 0 for each in partitions)
