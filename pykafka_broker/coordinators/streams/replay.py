"""From the records of streams groups to their state.

Rule: a record creates the group that it is about, and a group goes with its StreamsGroupMetadata tombstone. A tombstone
for what is not there is nothing special: compaction may have taken the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.streams import stored
from pykafka_broker.coordinators.streams.group import LEAVE_EPOCH, StreamsGroup, StreamsMember
from pykafka_broker.coordinators.streams.tasks import NONE_OWNED
from pykafka_broker.protocol.stored.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from pykafka_broker.protocol.stored.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from pykafka_broker.protocol.stored.streams_group_metadata_key import StreamsGroupMetadataKey
from pykafka_broker.protocol.stored.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from pykafka_broker.protocol.stored.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from pykafka_broker.protocol.stored.streams_group_topology_key import StreamsGroupTopologyKey


class StreamsReplay:
    """Takes over records of the six types."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._rules: dict[type, Callable[[StreamsGroup, Any, Any], None]] = {
            StreamsGroupMetadataKey: self._group,
            StreamsGroupTopologyKey: self._topology,
            StreamsGroupMemberMetadataKey: self._member,
            StreamsGroupTargetAssignmentMetadataKey: self._target_metadata,
            StreamsGroupTargetAssignmentMemberKey: self._target,
            StreamsGroupCurrentMemberAssignmentKey: self._current_assignment,
        }

    def takes(self, key: Any) -> bool:
        return type(key) in self._rules

    def replay(self, key: Any, value: Any) -> None:
        """Take over one record; `takes` has said yes to its key."""
        group = self._table.groups.get(key.group_id)
        if not isinstance(group, StreamsGroup):
            if value is None:
                return
            # A classic group of this name has made way, or was only there because of its offsets.
            group = self._table.groups[key.group_id] = StreamsGroup(key.group_id, self._table.topics)
        self._rules[type(key)](group, key, value)

    def _group(self, group: StreamsGroup, key: StreamsGroupMetadataKey, value: Any) -> None:
        if value is None:
            self._table.remove(group.group_id)
            return
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
        group.validated_topology_epoch = value.validated_topology_epoch
        group.assignment_configs = {one.key: one.value for one in value.last_assignment_configs or ()}

    def _topology(self, group: StreamsGroup, key: StreamsGroupTopologyKey, value: Any) -> None:
        group.topology = value
        group.configured = None

    def _member(self, group: StreamsGroup, key: StreamsGroupMemberMetadataKey, value: Any) -> None:
        if value is None:
            group.remove_member(key.member_id)
            return
        member = self._copy(group, key.member_id)
        stored.take_member_metadata(member, value)
        group.set_member(member)

    def _target_metadata(self, group: StreamsGroup, key: StreamsGroupTargetAssignmentMetadataKey, value: Any) -> None:
        group.assignment_epoch = -1 if value is None else value.assignment_epoch
        group.assignment_timestamp = 0 if value is None else value.assignment_timestamp

    def _target(self, group: StreamsGroup, key: StreamsGroupTargetAssignmentMemberKey, value: Any) -> None:
        if value is None:
            group.targets.pop(key.member_id, None)
        else:
            group.targets[key.member_id] = stored.read_target(value)

    def _current_assignment(self, group: StreamsGroup, key: StreamsGroupCurrentMemberAssignmentKey, value: Any) -> None:
        if value is None:
            if key.member_id in group.members:
                cleared = group.members[key.member_id].copy()
                cleared.epoch = cleared.previous_epoch = LEAVE_EPOCH
                cleared.owned = cleared.revoking = NONE_OWNED
                group.set_member(cleared)
            return
        member = self._copy(group, key.member_id)
        stored.take_current_assignment(member, value)
        group.set_member(member)

    def _copy(self, group: StreamsGroup, member_id: str) -> StreamsMember:
        member = group.members.get(member_id)
        return StreamsMember(member_id) if member is None else member.copy()
