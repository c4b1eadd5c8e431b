"""The records of share groups in `__consumer_offsets`, written and taken over.

Rule: here and nowhere else the state of a group meets its record formats. A record creates the group that it is about,
and the group goes with its ShareGroupMetadata tombstone.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.groups.epoch_group import EpochReplay, KeyTypes, Kind, no_more
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.coordinators.share.share_group import ShareGroup, ShareMember, Target, Topics
from pykafka_broker.protocol.stored.share_group_current_member_assignment_key import (
    ShareGroupCurrentMemberAssignmentKey,
)
from pykafka_broker.protocol.stored.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from pykafka_broker.protocol.stored.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from pykafka_broker.protocol.stored.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from pykafka_broker.protocol.stored.share_group_metadata_key import ShareGroupMetadataKey
from pykafka_broker.protocol.stored.share_group_metadata_value import ShareGroupMetadataValue
from pykafka_broker.protocol.stored.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from pykafka_broker.protocol.stored.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicPartitionsInfo,
)
from pykafka_broker.protocol.stored.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from pykafka_broker.protocol.stored.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from pykafka_broker.protocol.stored.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from pykafka_broker.protocol.stored.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)

STABLE = 0  # the only state of a member

# Writing


def member_metadata(group_id: str, member: ShareMember) -> CoordinatorRecord:
    value = ShareGroupMemberMetadataValue(
        member.rack_id, member.client_id, member.client_host, sorted(member.topic_names)
    )
    return CoordinatorRecord(ShareGroupMemberMetadataKey(group_id, member.member_id), value)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(epoch, metadata_hash))


def target(group_id: str, member_id: str, assignment: Target) -> CoordinatorRecord:
    topics = [TopicPartition(topic_id, sorted(partitions)) for topic_id, partitions in assignment.items()]
    key = ShareGroupTargetAssignmentMemberKey(group_id, member_id)
    return CoordinatorRecord(key, ShareGroupTargetAssignmentMemberValue(topics))


def target_metadata(group_id: str, epoch: int, timestamp: int) -> CoordinatorRecord:
    value = ShareGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return CoordinatorRecord(ShareGroupTargetAssignmentMetadataKey(group_id), value)


def current_assignment(group_id: str, member: ShareMember) -> CoordinatorRecord:
    topics = [TopicPartitions(topic_id, sorted(partitions)) for topic_id, partitions in member.assigned.items()]
    value = ShareGroupCurrentMemberAssignmentValue(member.epoch, member.previous_epoch, STABLE, topics)
    return CoordinatorRecord(ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def initialized(group_id: str, topics: Topics) -> CoordinatorRecord:
    """Which partitions have a state with the share coordinator."""
    infos = [TopicPartitionsInfo(topic_id, name, sorted(parts)) for topic_id, (name, parts) in topics.items()]
    value = ShareGroupStatePartitionMetadataValue([], infos, [])
    return CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """A member with all that belongs to it."""
    return [
        CoordinatorRecord(ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        CoordinatorRecord(ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
        CoordinatorRecord(ShareGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group: ShareGroup) -> list[CoordinatorRecord]:
    """A group with all that belongs to it."""
    group_id = group.group_id
    tombstones = [one for member_id in group.members for one in member_tombstones(group_id, member_id)]
    tombstones.append(CoordinatorRecord(ShareGroupTargetAssignmentMetadataKey(group_id), None))
    if group.has_state_record:
        tombstones.append(CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id), None))
    tombstones.append(CoordinatorRecord(ShareGroupMetadataKey(group_id), None))
    return tombstones


# Taking over


def share_replay(table: GroupTable) -> EpochReplay[ShareGroup]:
    kind = Kind(
        ShareGroup, ShareGroup, ShareMember, no_more, _take_member_metadata, _take_current_assignment, _read_target
    )
    keys = KeyTypes(
        ShareGroupMetadataKey,
        ShareGroupMemberMetadataKey,
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupTargetAssignmentMemberKey,
        ShareGroupCurrentMemberAssignmentKey,
    )
    return EpochReplay(table, kind, keys, {ShareGroupStatePartitionMetadataKey: _take_initialized})


def _take_member_metadata(member: ShareMember, value: ShareGroupMemberMetadataValue) -> None:
    member.rack_id = value.rack_id
    member.client_id = value.client_id
    member.client_host = value.client_host
    member.topic_names = frozenset(value.subscribed_topic_names)


def _take_current_assignment(member: ShareMember, value: ShareGroupCurrentMemberAssignmentValue) -> None:
    member.epoch = value.member_epoch
    member.previous_epoch = value.previous_member_epoch
    member.assigned = {bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.assigned_partitions}


def _read_target(value: ShareGroupTargetAssignmentMemberValue) -> Target:
    return {bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.topic_partitions}


def _take_initialized(group: ShareGroup, key: ShareGroupStatePartitionMetadataKey, value: Any) -> None:
    """What was being initialized or deleted when another broker stopped is initialized anew when it is read."""
    group.has_state_record = value is not None
    topics = () if value is None else value.initialized_topics
    group.initialized = {bytes(topic.topic_id): (topic.topic_name, frozenset(topic.partitions)) for topic in topics}
