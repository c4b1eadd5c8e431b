"""The records of streams groups, as Kafka 4.3 writes them.

Rule: here and nowhere else the state of a group meets its record formats; writing, reading and replay
stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykafka_broker.coordinators.groups.epoch_group import EpochReplay, KeyTypes, Kind
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.coordinators.streams.group import MemberState, StreamsGroup, StreamsMember
from pykafka_broker.coordinators.streams.tasks import ActiveTasks, Owned, Target, Tasks, told
from pykafka_broker.protocol.stored import (
    streams_group_current_member_assignment_value as current_value,
)
from pykafka_broker.protocol.stored import (
    streams_group_target_assignment_member_value as target_value,
)
from pykafka_broker.protocol.stored.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from pykafka_broker.protocol.stored.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from pykafka_broker.protocol.stored.streams_group_member_metadata_value import (
    KeyValue as Tag,
)
from pykafka_broker.protocol.stored.streams_group_member_metadata_value import (
    StreamsGroupMemberMetadataValue,
)
from pykafka_broker.protocol.stored.streams_group_metadata_key import StreamsGroupMetadataKey
from pykafka_broker.protocol.stored.streams_group_metadata_value import (
    LastAssignmentConfig,
    StreamsGroupMetadataValue,
)
from pykafka_broker.protocol.stored.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from pykafka_broker.protocol.stored.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from pykafka_broker.protocol.stored.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from pykafka_broker.protocol.stored.streams_group_topology_key import StreamsGroupTopologyKey
from pykafka_broker.protocol.stored.streams_group_topology_value import StreamsGroupTopologyValue

KNOWN_STATES = frozenset(MemberState)

# Writing


def member_metadata(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    value = StreamsGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.topology_epoch,
        member.process_id,
        member.endpoint,
        [Tag(key, value) for key, value in sorted(member.client_tags.items())],
    )
    return CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id, member.member_id), value)


def topology(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id), value)


def group_epoch(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: dict[str, str]
) -> CoordinatorRecord:
    last = [LastAssignmentConfig(key, value) for key, value in sorted(configs.items())]
    value = StreamsGroupMetadataValue(epoch, metadata_hash, validated_topology_epoch, last)
    return CoordinatorRecord(StreamsGroupMetadataKey(group_id), value)


def target(group_id: str, member_id: str, assignment: Target) -> CoordinatorRecord:
    value = target_value.StreamsGroupTargetAssignmentMemberValue(*(_target_tasks(tasks) for tasks in assignment))
    return CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), value)


def _target_tasks(tasks: Tasks) -> list[target_value.TaskIds]:
    return [target_value.TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]


def target_metadata(group_id: str, epoch: int, timestamp: int) -> CoordinatorRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id), value)


def current_assignment(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    owned, revoking = member.assigned, member.revoking
    value = current_value.StreamsGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        _active_tasks(owned.active),
        _tasks(owned.standby),
        _tasks(owned.warmup),
        _active_tasks(revoking.active),
        _tasks(revoking.standby),
        _tasks(revoking.warmup),
    )
    return CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def _active_tasks(tasks: ActiveTasks) -> list[current_value.TaskIds]:
    found = []
    for name in sorted(tasks):
        since = sorted(tasks[name].items())
        found.append(current_value.TaskIds(name, [index for index, _ in since], [epoch for _, epoch in since]))
    return found


def _tasks(tasks: Tasks) -> list[current_value.TaskIds]:
    return [current_value.TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """A member with all that belongs to it."""
    return [
        CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None),
        CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group: StreamsGroup) -> list[CoordinatorRecord]:
    """A group with all that belongs to it, offsets apart."""
    group_id = group.group_id
    return [
        *(
            CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None)
            for member_id in group.members
        ),
        *(
            CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None)
            for member_id in group.members
        ),
        CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id), None),
        *(CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id, member_id), None) for member_id in group.members),
        CoordinatorRecord(StreamsGroupMetadataKey(group_id), None),
        CoordinatorRecord(StreamsGroupTopologyKey(group_id), None),
    ]


# Reading


def take_epoch(group: StreamsGroup, value: StreamsGroupMetadataValue) -> None:
    group.validated_topology_epoch = value.validated_topology_epoch
    group.assignment_configs = {one.key: one.value for one in value.last_assignment_configs or ()}


def take_member_metadata(member: StreamsMember, value: StreamsGroupMemberMetadataValue) -> None:
    member.instance_id = value.instance_id
    member.rack_id = value.rack_id
    member.client_id = value.client_id
    member.client_host = value.client_host
    member.rebalance_timeout_ms = value.rebalance_timeout_ms
    member.topology_epoch = value.topology_epoch
    member.process_id = value.process_id
    member.endpoint = value.user_endpoint
    member.client_tags = {tag.key: tag.value for tag in value.client_tags}


def take_current_assignment(
    member: StreamsMember, value: current_value.StreamsGroupCurrentMemberAssignmentValue
) -> None:
    member.epoch = value.member_epoch
    member.previous_epoch = value.previous_member_epoch
    member.state = MemberState(value.state) if value.state in KNOWN_STATES else MemberState.UNKNOWN
    member.assigned = Owned(
        _since(value.active_tasks, member.epoch), told(value.standby_tasks), told(value.warmup_tasks)
    )
    member.revoking = Owned(
        _since(value.active_tasks_pending_revocation, member.epoch),
        told(value.standby_tasks_pending_revocation),
        told(value.warmup_tasks_pending_revocation),
    )


def _since(tasks: Iterable[current_value.TaskIds], epoch: int) -> ActiveTasks:
    """Records from before 4.3 don't say since when a member has a task: its epoch is as good as any."""
    found = {}
    for one in tasks:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            epochs = [epoch] * len(one.partitions)
        if one.partitions:
            found[one.subtopology_id] = dict(zip(one.partitions, epochs, strict=True))
    return found


def read_target(value: target_value.StreamsGroupTargetAssignmentMemberValue) -> Target:
    return Target(told(value.active_tasks), told(value.standby_tasks), told(value.warmup_tasks))


# Replay


def streams_replay(table: GroupTable) -> EpochReplay[StreamsGroup]:
    """Return the replay of streams groups: the types that `EpochReplay` knows, and the topology."""
    kind = Kind(
        StreamsGroup,
        lambda group_id: StreamsGroup(group_id, table.topics),
        StreamsMember,
        take_epoch,
        take_member_metadata,
        take_current_assignment,
        read_target,
    )
    keys = KeyTypes(
        StreamsGroupMetadataKey,
        StreamsGroupMemberMetadataKey,
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupCurrentMemberAssignmentKey,
    )
    return EpochReplay(table, kind, keys, {StreamsGroupTopologyKey: _topology})


def _topology(group: StreamsGroup, key: StreamsGroupTopologyKey, value: Any) -> None:
    group.set_topology(value)
