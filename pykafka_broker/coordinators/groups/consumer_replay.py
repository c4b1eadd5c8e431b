"""From the records of consumer groups to their state.

Rule: a record creates the group that it is about, and a group goes with its ConsumerGroupMetadata tombstone. A
tombstone for what is not there is nothing special: compaction may have taken the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka_broker.coordinators.groups import consumer_stored
from pykafka_broker.coordinators.groups.consumer_group import (
    LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    Owned,
    ResolvedRegex,
)
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.protocol.stored.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from pykafka_broker.protocol.stored.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from pykafka_broker.protocol.stored.consumer_group_metadata_key import ConsumerGroupMetadataKey
from pykafka_broker.protocol.stored.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from pykafka_broker.protocol.stored.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from pykafka_broker.protocol.stored.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from pykafka_broker.protocol.stored.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)

NOTHING: Owned = {}


class ConsumerReplay:
    """Takes over records of the seven types."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._rules: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
            ConsumerGroupMetadataKey: self._group,
            ConsumerGroupPartitionMetadataKey: self._partition_metadata,
            ConsumerGroupMemberMetadataKey: self._member,
            ConsumerGroupTargetAssignmentMetadataKey: self._target_metadata,
            ConsumerGroupTargetAssignmentMemberKey: self._target,
            ConsumerGroupCurrentMemberAssignmentKey: self._current_assignment,
            ConsumerGroupRegularExpressionKey: self._regex,
        }

    def takes(self, key: Any) -> bool:
        return type(key) in self._rules

    def replay(self, key: Any, value: Any) -> None:
        """Take over one record; `takes` has said yes to its key."""
        group = self._table.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            # A classic group of this name has made way, or was only there because of its offsets.
            group = self._table.groups[key.group_id] = ConsumerGroup(key.group_id)
        self._rules[type(key)](group, key, value)

    def _group(self, group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: Any) -> None:
        if value is None:
            self._table.remove(group.group_id)
            return
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash

    def _partition_metadata(self, group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: Any) -> None:
        group.has_partition_metadata = value is not None

    def _member(self, group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: Any) -> None:
        if value is None:
            group.remove_member(key.member_id)
            return
        member = self._copy(group, key.member_id)
        consumer_stored.take_member_metadata(member, value)
        group.set_member(member)

    def _target_metadata(self, group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMetadataKey, value: Any) -> None:
        group.assignment_epoch = -1 if value is None else value.assignment_epoch
        group.assignment_timestamp = 0 if value is None else value.assignment_timestamp

    def _target(self, group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMemberKey, value: Any) -> None:
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = consumer_stored.read_target(value)

    def _current_assignment(
        self, group: ConsumerGroup, key: ConsumerGroupCurrentMemberAssignmentKey, value: Any
    ) -> None:
        if value is None:
            if key.member_id in group.members:
                cleared = group.members[key.member_id].copy()
                cleared.epoch = cleared.previous_epoch = LEAVE_EPOCH
                cleared.assigned = cleared.revoking = NOTHING
                group.set_member(cleared)
            return
        member = self._copy(group, key.member_id)
        consumer_stored.take_current_assignment(member, value)
        group.set_member(member)

    def _regex(self, group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: Any) -> None:
        if value is None:
            group.regexes.pop(key.regular_expression, None)
        else:
            group.regexes[key.regular_expression] = ResolvedRegex(
                frozenset(value.topics), value.version, value.timestamp
            )

    def _copy(self, group: ConsumerGroup, member_id: str) -> ConsumerMember:
        member = group.members.get(member_id)
        return ConsumerMember(member_id) if member is None else member.copy()
