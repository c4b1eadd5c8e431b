"""The records of share groups in `__consumer_offsets`, written and taken over.

Rule: here and nowhere else the state of a group meets its record formats. A record creates the group that it is about,
and the group goes with its ShareGroupMetadata tombstone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka_broker.coordinators.effects import KeyValue
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.groups.stored import record
from pykafka_broker.coordinators.share.share_group import LEAVE_EPOCH, ShareGroup, ShareMember, Target, Topics
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


def member_metadata(group_id: str, member: ShareMember) -> KeyValue:
    value = ShareGroupMemberMetadataValue(
        member.rack_id, member.client_id, member.client_host, sorted(member.topic_names)
    )
    return record(ShareGroupMemberMetadataKey(group_id, member.member_id), value)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> KeyValue:
    return record(ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(epoch, metadata_hash))


def target(group_id: str, member_id: str, assignment: Target) -> KeyValue:
    topics = [TopicPartition(topic_id, sorted(partitions)) for topic_id, partitions in assignment.items()]
    key = ShareGroupTargetAssignmentMemberKey(group_id, member_id)
    return record(key, ShareGroupTargetAssignmentMemberValue(topics))


def target_metadata(group_id: str, epoch: int, timestamp: int) -> KeyValue:
    value = ShareGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return record(ShareGroupTargetAssignmentMetadataKey(group_id), value)


def current_assignment(group_id: str, member: ShareMember) -> KeyValue:
    topics = [TopicPartitions(topic_id, sorted(partitions)) for topic_id, partitions in member.assigned.items()]
    value = ShareGroupCurrentMemberAssignmentValue(member.epoch, member.previous_epoch, STABLE, topics)
    return record(ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def initialized(group_id: str, topics: Topics) -> KeyValue:
    """Which partitions have a state with the share coordinator."""
    infos = [TopicPartitionsInfo(topic_id, name, sorted(parts)) for topic_id, (name, parts) in topics.items()]
    value = ShareGroupStatePartitionMetadataValue([], infos, [])
    return record(ShareGroupStatePartitionMetadataKey(group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[KeyValue]:
    """A member with all that belongs to it."""
    return [
        record(ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        record(ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
        record(ShareGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group: ShareGroup) -> list[KeyValue]:
    """A group with all that belongs to it."""
    group_id = group.group_id
    tombstones = [one for member_id in group.members for one in member_tombstones(group_id, member_id)]
    tombstones.append(record(ShareGroupTargetAssignmentMetadataKey(group_id), None))
    if group.has_state_record:
        tombstones.append(record(ShareGroupStatePartitionMetadataKey(group_id), None))
    tombstones.append(record(ShareGroupMetadataKey(group_id), None))
    return tombstones


# Taking over


class ShareReplay:
    """Takes over records of the six types."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._rules: dict[type, Callable[[ShareGroup, Any, Any], None]] = {
            ShareGroupMetadataKey: self._group,
            ShareGroupMemberMetadataKey: self._member,
            ShareGroupTargetAssignmentMetadataKey: self._target_metadata,
            ShareGroupTargetAssignmentMemberKey: self._target,
            ShareGroupCurrentMemberAssignmentKey: self._current_assignment,
            ShareGroupStatePartitionMetadataKey: self._initialized,
        }

    def takes(self, key: Any) -> bool:
        return type(key) in self._rules

    def replay(self, key: Any, value: Any) -> None:
        """Take over one record; `takes` has said yes to its key."""
        group = self._table.groups.get(key.group_id)
        if not isinstance(group, ShareGroup):
            if value is None:
                return
            group = self._table.groups[key.group_id] = ShareGroup(key.group_id)
        self._rules[type(key)](group, key, value)

    def _group(self, group: ShareGroup, key: ShareGroupMetadataKey, value: Any) -> None:
        if value is None:
            self._table.remove(group.group_id)
            return
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash

    def _member(self, group: ShareGroup, key: ShareGroupMemberMetadataKey, value: Any) -> None:
        if value is None:
            group.members.pop(key.member_id, None)
            return
        member = group.members.setdefault(key.member_id, ShareMember(key.member_id))
        member.rack_id = value.rack_id
        member.client_id = value.client_id
        member.client_host = value.client_host
        member.topic_names = frozenset(value.subscribed_topic_names)

    def _target_metadata(self, group: ShareGroup, key: ShareGroupTargetAssignmentMetadataKey, value: Any) -> None:
        group.assignment_epoch = -1 if value is None else value.assignment_epoch
        group.assignment_timestamp = 0 if value is None else value.assignment_timestamp

    def _target(self, group: ShareGroup, key: ShareGroupTargetAssignmentMemberKey, value: Any) -> None:
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = {
                bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.topic_partitions
            }

    def _current_assignment(self, group: ShareGroup, key: ShareGroupCurrentMemberAssignmentKey, value: Any) -> None:
        if value is None:
            if (left := group.members.get(key.member_id)) is not None:
                left.epoch = left.previous_epoch = LEAVE_EPOCH
                left.assigned = {}
            return
        member = group.members.setdefault(key.member_id, ShareMember(key.member_id))
        member.epoch = value.member_epoch
        member.previous_epoch = value.previous_member_epoch
        member.assigned = {bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.assigned_partitions}

    def _initialized(self, group: ShareGroup, key: ShareGroupStatePartitionMetadataKey, value: Any) -> None:
        """What was being initialized or deleted when another broker stopped is initialized anew when it is read."""
        group.has_state_record = value is not None
        group.initialized = (
            {}
            if value is None
            else {
                bytes(topic.topic_id): (topic.topic_name, frozenset(topic.partitions))
                for topic in value.initialized_topics
            }
        )
