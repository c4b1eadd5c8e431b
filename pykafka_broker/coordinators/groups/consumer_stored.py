"""The records of consumer groups, as Kafka 4.3 writes them.

Rule: here and nowhere else the state of a group meets its record formats; writing, reading and replay
stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pykafka_broker.coordinators.groups.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Owned,
    ResolvedRegex,
    Target,
    frozen_target,
)
from pykafka_broker.coordinators.groups.epoch_group import EpochReplay, KeyTypes, Kind, no_more
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.protocol.stored.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from pykafka_broker.protocol.stored.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from pykafka_broker.protocol.stored.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from pykafka_broker.protocol.stored.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from pykafka_broker.protocol.stored.consumer_group_metadata_key import ConsumerGroupMetadataKey
from pykafka_broker.protocol.stored.consumer_group_metadata_value import ConsumerGroupMetadataValue
from pykafka_broker.protocol.stored.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from pykafka_broker.protocol.stored.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from pykafka_broker.protocol.stored.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from pykafka_broker.protocol.stored.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from pykafka_broker.protocol.stored.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from pykafka_broker.protocol.stored.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from pykafka_broker.protocol.stored.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

KNOWN_STATES = frozenset(MemberState)

# Writing


def member_metadata(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    value = ConsumerGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        sorted(member.topic_names),
        member.topic_regex,
        member.rebalance_timeout_ms,
        member.server_assignor,
        member.classic,
    )
    key = ConsumerGroupMemberMetadataKey(group_id, member.member_id)
    return CoordinatorRecord(key, value)


def current_assignment(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member.epoch, member.previous_epoch, member.state, _partitions(member.assigned), _partitions(member.revoking)
    )
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def _partitions(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id, list(partitions), list(partitions.values())) for topic_id, partitions in owned.items()
    ]


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash))


def target(group_id: str, member_id: str, assignment: Target) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        [TopicPartition(topic_id, sorted(partitions)) for topic_id, partitions in assignment.items()]
    )
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value)


def target_metadata(group_id: str, epoch: int, timestamp: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), value)


def regex(group_id: str, pattern: str, resolved: ResolvedRegex | None) -> CoordinatorRecord:
    """What a pattern stands for, or its tombstone."""
    key = ConsumerGroupRegularExpressionKey(group_id, pattern)
    if resolved is None:
        return CoordinatorRecord(key, None)
    value = ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.resolved_at)
    return CoordinatorRecord(key, value)


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Removes what releases before 4.1 wrote."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """A member with all that belongs to it."""
    return [
        CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """A group with all that belongs to it, offsets apart."""
    group_id = group.group_id
    return [
        *(
            CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None)
            for member_id in group.members
        ),
        *(
            CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None)
            for member_id in group.members
        ),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
        *(CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None) for member_id in group.members),
        *(regex(group_id, pattern, None) for pattern in group.regexes),
        partition_metadata_tombstone(group_id),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id), None),
    ]


def group_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """A whole group, for one that has been converted."""
    group_id = group.group_id
    return [
        *(member_metadata(group_id, member) for member in group.members.values()),
        group_epoch(group_id, group.epoch, group.metadata_hash),
        *(target(group_id, member_id, group.targets.get(member_id, {})) for member_id in group.members),
        target_metadata(group_id, group.assignment_epoch, group.assignment_timestamp),
        *(current_assignment(group_id, member) for member in group.members.values()),
    ]


# Reading


def take_member_metadata(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> None:
    member.instance_id = value.instance_id
    member.rack_id = value.rack_id
    member.client_id = value.client_id
    member.client_host = value.client_host
    member.topic_names = frozenset(value.subscribed_topic_names)
    member.topic_regex = value.subscribed_topic_regex
    member.rebalance_timeout_ms = value.rebalance_timeout_ms
    member.server_assignor = value.server_assignor
    # Left out, as by the first releases, it reads as an empty one.
    classic = value.classic_member_metadata
    member.classic = classic if classic is not None and classic.supported_protocols else None


def take_current_assignment(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> None:
    member.epoch = value.member_epoch
    member.previous_epoch = value.previous_member_epoch
    member.state = MemberState(value.state) if value.state in KNOWN_STATES else MemberState.UNKNOWN
    member.assigned = _owned(value.assigned_partitions, value.member_epoch)
    member.revoking = _owned(value.partitions_pending_revocation, value.member_epoch)


def _owned(topics: Iterable[TopicPartitions], epoch: int) -> Owned:
    """Records from before 4.3 don't say since when a member has a partition: its epoch is as good as any."""
    owned: Owned = {}
    for topic in topics:
        epochs = topic.assignment_epochs or [epoch] * len(topic.partitions)
        owned[bytes(topic.topic_id)] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> Target:
    partitions: Mapping[bytes, list[int]] = {
        bytes(topic.topic_id): topic.partitions for topic in value.topic_partitions
    }
    return frozen_target(partitions)


# Replay

KIND = Kind(
    ConsumerGroup,
    ConsumerGroup,
    ConsumerMember,
    no_more,
    take_member_metadata,
    take_current_assignment,
    read_target,
)
KEYS = KeyTypes(
    ConsumerGroupMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
)


def consumer_replay(table: GroupTable) -> EpochReplay[ConsumerGroup]:
    """Return the replay of consumer groups: the types that `EpochReplay` knows, and patterns."""
    return EpochReplay(
        table,
        KIND,
        KEYS,
        {ConsumerGroupPartitionMetadataKey: _partition_metadata, ConsumerGroupRegularExpressionKey: _regex},
    )


def _partition_metadata(group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: Any) -> None:
    group.has_partition_metadata = value is not None


def _regex(group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: Any) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
