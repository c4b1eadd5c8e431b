"""The state of a streams group (KIP-1071): tasks, members, the group, and their records.

Rule: the state in records is hard state and changes by replay alone. Three things are soft and begin anew with the
broker: how the topology fits the topics (`configured`), the member that asked for a shutdown, and the epoch of the
endpoint information. A task is one partition of one subtopology. Collections of tasks are never changed once they are
made, so a member and its copy share them; a subtopology without tasks is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from enum import IntEnum
from typing import Any, NamedTuple

from pykafka_broker.coordinators.groups.epoch_group import (
    EpochReplay,
    KeyTypes,
    Kind,
    ReconciledGroup,
    ReconciledMember,
    Since,
)
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.groups.topics import Topics
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.coordinators.streams.topology import ConfiguredTopology, required_topics, topics_read
from pykafka_broker.protocol.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from pykafka_broker.protocol.messages.streams_group_describe_response import Endpoint as DescribedEndpoint
from pykafka_broker.protocol.stored import streams_group_current_member_assignment_value as current_value
from pykafka_broker.protocol.stored import streams_group_target_assignment_member_value as target_value
from pykafka_broker.protocol.stored import streams_group_topology_value as stored_value
from pykafka_broker.protocol.stored.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from pykafka_broker.protocol.stored.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from pykafka_broker.protocol.stored.streams_group_member_metadata_value import Endpoint, StreamsGroupMemberMetadataValue
from pykafka_broker.protocol.stored.streams_group_member_metadata_value import KeyValue as Tag
from pykafka_broker.protocol.stored.streams_group_metadata_key import StreamsGroupMetadataKey
from pykafka_broker.protocol.stored.streams_group_metadata_value import LastAssignmentConfig, StreamsGroupMetadataValue
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

Task = tuple[str, int]  # subtopology id, partition
Tasks = Mapping[str, frozenset[int]]
ActiveTasks = Mapping[str, Mapping[int, int]]  # the epoch since which the member has each of them (KIP-1251)

NO_TASKS: Tasks = {}


class Target(NamedTuple):
    """What a member should have."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS


class Owned(NamedTuple):
    """What a member has, or has to give back."""

    active: ActiveTasks = {}
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def overlaps(self, reported: Target) -> bool:
        """Whether one of these tasks is among those that a member has reported, each role for itself."""
        return any(
            not has.keys().isdisjoint(said)
            and any(not said.get(name, frozenset()).isdisjoint(has[name]) for name in has)
            for has, said in (
                (self.active, reported.active),
                (self.standby, reported.standby),
                (self.warmup, reported.warmup),
            )
        )


NOTHING = Target()
NONE_OWNED = Owned()


def collect(pairs: Iterable[Task]) -> Tasks:
    """Tasks by subtopology, in the order of their names."""
    found: dict[str, set[int]] = {}
    for subtopology, partition in pairs:
        found.setdefault(subtopology, set()).add(partition)
    return {name: frozenset(found[name]) for name in sorted(found)}


def read_tasks(task_ids: Iterable[Any] | None) -> Tasks:
    """The tasks of a request or of a record."""
    return {one.subtopology_id: frozenset(one.partitions) for one in task_ids or () if one.partitions}


def pairs(tasks: Mapping[str, Iterable[int]]) -> Iterable[Task]:
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition


# The group


STREAMS_PROTOCOL_TYPE = "streams"
FIRST_ASSIGNMENT_EPOCH = 1
NO_TOPOLOGY = -1


class MemberState(IntEnum):
    """How far a member is with its target."""

    STABLE = 1
    UNREVOKED_TASKS = 2  # it has to give tasks back first
    UNRELEASED_TASKS = 3  # others have to
    UNKNOWN = 127  # written by a release that knows more states


class StreamsMember(ReconciledMember):
    """One stream thread."""

    __slots__ = ("client_tags", "endpoint", "process_id", "topology_epoch")
    NOTHING = NONE_OWNED
    STABLE = MemberState.STABLE
    UNREVOKED = MemberState.UNREVOKED_TASKS
    state: MemberState
    assigned: Owned
    revoking: Owned

    def __init__(self, member_id: str) -> None:
        super().__init__(member_id)
        self.previous_epoch = 0
        self.topology_epoch = NO_TOPOLOGY
        self.process_id = ""
        self.endpoint: Endpoint | None = None
        self.client_tags: dict[str, str] = {}

    def metadata(self) -> tuple[object, ...]:
        return (
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.topology_epoch,
            self.process_id,
            self.endpoint,
            self.client_tags,
        )

    def assigned_since(self, subtopology: str | None, partition: int) -> int | None:
        """Since which epoch an active task is the member's, also while it is to be given back; None if it is not."""
        for owned in (self.assigned, self.revoking):
            since = owned.active.get(subtopology or "", {}).get(partition)
            if since is not None:
                return since
        return None


class StreamsGroup(ReconciledGroup[StreamsMember, Target]):
    """A group of stream threads that run one topology."""

    type_name = "streams"
    protocol_type = STREAMS_PROTOCOL_TYPE

    def __init__(self, group_id: str, topics: Topics) -> None:
        super().__init__(group_id, FIRST_ASSIGNMENT_EPOCH)
        self._topics = topics
        self.validated_topology_epoch = NO_TOPOLOGY
        self.assignment_configs: dict[str, str] = {}  # those that the last epoch was made with
        self.topology: StreamsGroupTopologyValue | None = None
        self._required: Set[str] | None = None  # by the topology, if that has been asked
        self._read_by: dict[str, str] | None = None
        self.configured: ConfiguredTopology | None = None
        self.shown: ConfiguredTopology | None = None  # as of the last new epoch, but for the one that made the group
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = 0

    # What the table and the offsets ask

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        return self.progress()

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and topic in self.read_by()

    def assigned_since(self, member: StreamsMember) -> Since:
        subtopology_of = self.read_by()

        def since(topic_id: bytes, partition: int) -> int | None:
            topic = self._topics.topics_by_id.get(topic_id)
            return member.assigned_since(None if topic is None else subtopology_of.get(topic.name), partition)

        return since

    def tombstones(self) -> list[CoordinatorRecord]:
        group_id = self.group_id
        return [
            *(
                CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None)
                for member_id in self.members
            ),
            *(
                CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None)
                for member_id in self.members
            ),
            CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id), None),
            *(
                CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id, member_id), None)
                for member_id in self.members
            ),
            CoordinatorRecord(StreamsGroupMetadataKey(group_id), None),
            CoordinatorRecord(StreamsGroupTopologyKey(group_id), None),
        ]

    # Members

    def target_of(self, member_id: str) -> Target:
        return self.targets.get(member_id, NOTHING)

    def with_change(self, member: StreamsMember) -> list[StreamsMember]:
        """The members as they will be with this one."""
        return list((self.members | {member.member_id: member}).values())

    def reads_any(self, topics: frozenset[str]) -> bool:
        """Whether the topology needs one of these topics, be there such a topic or not."""
        return not topics.isdisjoint(self.required())

    # The topology

    def required(self) -> Set[str]:
        """Every topic that the topology needs."""
        if self._required is None:
            self._required = frozenset() if self.topology is None else required_topics(self.topology)
        return self._required

    def read_by(self) -> dict[str, str]:
        """Topic to the subtopology that reads it."""
        if self._read_by is None:
            self._read_by = {} if self.topology is None else topics_read(self.topology)
        return self._read_by

    # By replay alone

    def set_topology(self, topology: StreamsGroupTopologyValue | None) -> None:
        self.topology = topology
        self.configured = None
        self.shown = None
        self._required = self._read_by = None

    def remove_member(self, member_id: str) -> None:
        super().remove_member(member_id)
        if not self.members:
            self.shutdown_member_id = None


# StreamsGroupDescribe


def describe(group: StreamsGroup) -> DescribedGroup:
    """Return the group with its topology and its members.

    As in Kafka, internal topics have their numbers of partitions once a heartbeat that began a new epoch of an existing
    group has found that the topology fits; until then the numbers are the application's. Tasks that a member has to
    give back are not shown as its own.
    """
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_describe_topology(group),
        members=[_describe_member(group, member) for member in group.members.values()],
    )


def _describe_topology(group: StreamsGroup) -> Topology | None:
    if group.topology is None:
        return None
    partitions = group.shown.partitions if group.shown is not None and group.shown.is_ready else {}
    return Topology(
        group.topology.epoch,
        [
            Subtopology(
                one.subtopology_id,
                one.source_topics,
                one.repartition_sink_topics,
                _describe_topics(one.state_changelog_topics, partitions),
                _describe_topics(one.repartition_source_topics, partitions),
            )
            for one in group.topology.subtopologies
        ],
    )


def _describe_topics(topics: Iterable[stored_value.TopicInfo], partitions: Mapping[str, int]) -> list[TopicInfo]:
    return [
        TopicInfo(
            topic.name,
            partitions.get(topic.name, topic.partitions),
            topic.replication_factor,
            [KeyValue(config.key, config.value) for config in topic.topic_configs],
        )
        for topic in topics
    ]


def _describe_member(group: StreamsGroup, member: StreamsMember) -> Member:
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None
        if member.endpoint is None
        else DescribedEndpoint(member.endpoint.host, member.endpoint.port),
        client_tags=[KeyValue(key, value) for key, value in member.client_tags.items()],
        assignment=_describe_assignment(*member.assigned),
        target_assignment=_describe_assignment(*group.targets.get(member.member_id, Target())),
    )


def _describe_assignment(*roles: Mapping[str, Iterable[int]]) -> Assignment:
    return Assignment(*(_described_tasks(tasks) for tasks in roles))


def _described_tasks(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]


# Records, as Kafka 4.3 writes them


KNOWN_STATES = frozenset(MemberState)

# Writing


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
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


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id), value)


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: dict[str, str]
) -> CoordinatorRecord:
    last = [LastAssignmentConfig(key, value) for key, value in sorted(configs.items())]
    value = StreamsGroupMetadataValue(epoch, metadata_hash, validated_topology_epoch, last)
    return CoordinatorRecord(StreamsGroupMetadataKey(group_id), value)


def target_record(group_id: str, member_id: str, assignment: Target) -> CoordinatorRecord:
    value = target_value.StreamsGroupTargetAssignmentMemberValue(*(_stored_target_tasks(tasks) for tasks in assignment))
    return CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), value)


def _stored_target_tasks(tasks: Tasks) -> list[target_value.TaskIds]:
    return [target_value.TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]


def target_epoch_record(group_id: str, epoch: int, timestamp: int) -> CoordinatorRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id), value)


def assignment_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    owned, revoking = member.assigned, member.revoking
    value = current_value.StreamsGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state,
        _stored_active_tasks(owned.active),
        _stored_tasks(owned.standby),
        _stored_tasks(owned.warmup),
        _stored_active_tasks(revoking.active),
        _stored_tasks(revoking.standby),
        _stored_tasks(revoking.warmup),
    )
    return CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def _stored_active_tasks(tasks: ActiveTasks) -> list[current_value.TaskIds]:
    found = []
    for name in sorted(tasks):
        since = sorted(tasks[name].items())
        found.append(current_value.TaskIds(name, [index for index, _ in since], [epoch for _, epoch in since]))
    return found


def _stored_tasks(tasks: Tasks) -> list[current_value.TaskIds]:
    return [current_value.TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """A member with all that belongs to it."""
    return [
        CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None),
        CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id, member_id), None),
    ]


# Reading


def _take_epoch(group: StreamsGroup, value: StreamsGroupMetadataValue) -> None:
    group.validated_topology_epoch = value.validated_topology_epoch
    group.assignment_configs = {one.key: one.value for one in value.last_assignment_configs or ()}


def _take_member_metadata(member: StreamsMember, value: StreamsGroupMemberMetadataValue) -> None:
    member.instance_id = value.instance_id
    member.rack_id = value.rack_id
    member.client_id = value.client_id
    member.client_host = value.client_host
    member.rebalance_timeout_ms = value.rebalance_timeout_ms
    member.topology_epoch = value.topology_epoch
    member.process_id = value.process_id
    member.endpoint = value.user_endpoint
    member.client_tags = {tag.key: tag.value for tag in value.client_tags}


def _take_current_assignment(
    member: StreamsMember, value: current_value.StreamsGroupCurrentMemberAssignmentValue
) -> None:
    member.epoch = value.member_epoch
    member.previous_epoch = value.previous_member_epoch
    member.state = MemberState(value.state) if value.state in KNOWN_STATES else MemberState.UNKNOWN
    member.assigned = Owned(
        _read_active_tasks(value.active_tasks, member.epoch),
        read_tasks(value.standby_tasks),
        read_tasks(value.warmup_tasks),
    )
    member.revoking = Owned(
        _read_active_tasks(value.active_tasks_pending_revocation, member.epoch),
        read_tasks(value.standby_tasks_pending_revocation),
        read_tasks(value.warmup_tasks_pending_revocation),
    )


def _read_active_tasks(tasks: Iterable[current_value.TaskIds], epoch: int) -> ActiveTasks:
    """Records from before 4.3 don't say since when a member has a task: its epoch is as good as any."""
    found = {}
    for one in tasks:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            epochs = [epoch] * len(one.partitions)
        if one.partitions:
            found[one.subtopology_id] = dict(zip(one.partitions, epochs, strict=True))
    return found


def _read_target(value: target_value.StreamsGroupTargetAssignmentMemberValue) -> Target:
    return Target(read_tasks(value.active_tasks), read_tasks(value.standby_tasks), read_tasks(value.warmup_tasks))


# Replay


def streams_replay(table: GroupTable) -> EpochReplay[StreamsGroup]:
    """Return the replay of streams groups: the types that `EpochReplay` knows, and the topology."""
    kind = Kind(
        StreamsGroup,
        lambda group_id: StreamsGroup(group_id, table.topics),
        StreamsMember,
        _take_epoch,
        _take_member_metadata,
        _take_current_assignment,
        _read_target,
    )
    keys = KeyTypes(
        StreamsGroupMetadataKey,
        StreamsGroupMemberMetadataKey,
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupCurrentMemberAssignmentKey,
    )
    return EpochReplay(table, kind, keys, {StreamsGroupTopologyKey: _replay_topology})


def _replay_topology(group: StreamsGroup, key: StreamsGroupTopologyKey, value: Any) -> None:
    group.set_topology(value)
