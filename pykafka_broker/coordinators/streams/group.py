"""The state of a streams group (KIP-1071): tasks, members, the group, and their records; the way to a target.

Rule: the state in records is hard state and changes by replay alone. Five things are soft and begin anew with the
broker: how the topology fits the topics (`configured`), the member that asked for a shutdown, the epoch of the endpoint
information, the offsets that members report of their tasks' state, and whether targets are being computed. A task is
one partition of one subtopology. Collections of tasks are never changed once they are made, so a member and its copy
share them; a subtopology without tasks is left out.

A member first gives back the tasks that are not in its target; only then does it follow the group to the new epoch. An
active task comes when no member has it active any more, and no task comes to a process that still has the task in
another role: a state directory can be open once only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pykafka_broker.coordinators.groups.epoch_group import (
    EpochReplay,
    GroupRecords,
    ReconciledGroup,
    ReconciledGroupMember,
    ReconciliationState,
    Since,
)
from pykafka_broker.coordinators.groups.group import GroupTable
from pykafka_broker.coordinators.groups.topics import ClusterTopics
from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.coordinators.streams.topology import ConfiguredTopology, required_topics, topics_read
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from pykafka_broker.protocol.messages.streams_group_describe_response import Endpoint as DescribedEndpoint
from pykafka_broker.protocol.stored import streams_group_current_member_assignment_value as current_value
from pykafka_broker.protocol.stored import streams_group_target_assignment_member_value as target_value
from pykafka_broker.protocol.stored import streams_group_topology_value as stored_value
from pykafka_broker.protocol.stored.streams_group_member_metadata_value import Endpoint
from pykafka_broker.protocol.stored.streams_group_member_metadata_value import KeyValue as Tag
from pykafka_broker.protocol.stored.streams_group_metadata_value import LastAssignmentConfig
from pykafka_broker.protocol.stored.streams_group_topology_key import StreamsGroupTopologyKey
from pykafka_broker.protocol.stored.streams_group_topology_value import StreamsGroupTopologyValue

Task = tuple[str, int]  # subtopology id, partition
Tasks = Mapping[str, frozenset[int]]
ActiveTasks = Mapping[str, Mapping[int, int]]  # subtopology id -> partition -> the epoch of the assignment (KIP-1251)

NO_TASKS: Tasks = {}


class TasksTuple(NamedTuple):
    """The tasks of a target, by role. (Kafka: TasksTuple)"""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS


class TasksTupleWithEpochs(NamedTuple):
    """The tasks of a member, or tasks to give back, by role. (Kafka: TasksTupleWithEpochs)"""

    active: ActiveTasks = {}
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def without_epochs(self) -> TasksTuple:
        active = {name: frozenset(partitions) for name, partitions in self.active.items()}
        return TasksTuple(active, self.standby, self.warmup)

    def overlaps(self, reported: TasksTuple) -> bool:
        """Return whether a member has reported a task of the collection, role by role."""
        return any(
            not has.keys().isdisjoint(said)
            and any(not said.get(name, frozenset()).isdisjoint(has[name]) for name in has)
            for has, said in (
                (self.active, reported.active),
                (self.standby, reported.standby),
                (self.warmup, reported.warmup),
            )
        )


NOTHING = TasksTuple()
NONE_OWNED = TasksTupleWithEpochs()


def collect(pairs: Iterable[Task]) -> Tasks:
    """Return tasks by subtopology, in the order of names."""
    found: dict[str, set[int]] = {}
    for subtopology, partition in pairs:
        found.setdefault(subtopology, set()).add(partition)
    return {name: frozenset(found[name]) for name in sorted(found)}


def read_tasks(task_ids: Iterable[Any] | None) -> Tasks:
    """Return the tasks of a request or of a record."""
    return {tasks.subtopology_id: frozenset(tasks.partitions) for tasks in task_ids or () if tasks.partitions}


def pairs(tasks: Mapping[str, Iterable[int]]) -> Iterable[Task]:
    """Yield each task as a pair."""
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition


# The group


NO_TOPOLOGY = -1
RECORDS = GroupRecords("StreamsGroup")


class StreamsMemberState(ReconciliationState):
    """The progress of a member of a streams group towards the target."""

    STABLE = 1
    UNREVOKED_TASKS = 2  # the member has to give tasks back first
    UNRELEASED_TASKS = 3  # other members have to give tasks back first
    UNKNOWN = 127


class StreamsGroupMember(ReconciledGroupMember):
    """A member of a streams group, which is a stream thread."""

    __slots__ = ("client_tags", "endpoint", "process_id", "topology_epoch")
    NOTHING = NONE_OWNED
    STABLE = StreamsMemberState.STABLE
    UNREVOKED = StreamsMemberState.UNREVOKED_TASKS
    state: StreamsMemberState
    assigned: TasksTupleWithEpochs
    revoking: TasksTupleWithEpochs

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

    def assigned_by(self) -> tuple[object, ...]:
        """Return what an assignment may depend on."""
        return self.rack_id, self.topology_epoch, self.process_id, self.client_tags

    def take_metadata(self, value: Any) -> None:
        super().take_metadata(value)
        self.topology_epoch = value.topology_epoch
        self.process_id = value.process_id
        self.endpoint = value.user_endpoint
        self.client_tags = {tag.key: tag.value for tag in value.client_tags}

    def take_assignment(self, value: Any) -> None:
        super().take_assignment(value)
        self.assigned = TasksTupleWithEpochs(
            _read_active_tasks(value.active_tasks, self.epoch),
            read_tasks(value.standby_tasks),
            read_tasks(value.warmup_tasks),
        )
        self.revoking = TasksTupleWithEpochs(
            _read_active_tasks(value.active_tasks_pending_revocation, self.epoch),
            read_tasks(value.standby_tasks_pending_revocation),
            read_tasks(value.warmup_tasks_pending_revocation),
        )

    def stored_metadata(self) -> Iterable[object]:
        *fields, _ = self.metadata()
        return *fields, [Tag(key, value) for key, value in sorted(self.client_tags.items())]

    def stored_assignment(self) -> Iterable[object]:
        yield self.state
        for owned in (self.assigned, self.revoking):
            yield from (_stored_active_tasks(owned.active), _stored_tasks(owned.standby), _stored_tasks(owned.warmup))

    def tasks(self) -> frozenset[Task]:
        """Return the tasks of all roles, also those to give back."""
        return frozenset(task for owned in (self.assigned, self.revoking) for role in owned for task in pairs(role))

    def roles_of(self, task: Task) -> list[bool]:
        """Return for each role whether the member has the task, or has to give it back."""
        name, partition = task
        return [
            partition in assigned.get(name, ()) or partition in revoking.get(name, ())
            for assigned, revoking in zip(self.assigned, self.revoking, strict=True)
        ]

    def assigned_since(self, subtopology: str | None, partition: int) -> int | None:
        """Return the epoch since which an active task is the member's, also while revoked; None for others."""
        for owned in (self.assigned, self.revoking):
            since = owned.active.get(subtopology or "", {}).get(partition)
            if since is not None:
                return since
        return None


class StreamsGroup(ReconciledGroup[StreamsGroupMember, TasksTuple]):
    """A group of stream threads with the same topology."""

    type_name = "streams"
    protocol_type = "streams"
    member_type = StreamsGroupMember
    records = RECORDS
    NO_TARGET = NOTHING

    def __init__(self, group_id: str, topics: ClusterTopics) -> None:
        super().__init__(group_id)
        self._topics = topics
        self.validated_topology_epoch = NO_TOPOLOGY
        self.assignment_configs: dict[str, str] = {}  # the assignor's settings in the last epoch
        self.topology: StreamsGroupTopologyValue | None = None
        self._required: frozenset[str] | None = None  # a cache of the topology's topics
        self._read_by: dict[str, str] | None = None
        self.configured: ConfiguredTopology | None = None
        self.shown: ConfiguredTopology | None = None  # as of the last new epoch, except the group's first
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = 0
        self.task_offsets: dict[str, dict[Task, int]] = {}  # by member id, as reported last
        self.task_end_offsets: dict[str, dict[Task, int]] = {}
        self.is_assigning = False  # targets are being computed in steps
        self._holders: dict[Task, tuple[str, ...]] = {}  # the ids of the members that have a task

    # Questions of the table and of the offsets

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        return self.progress()

    def read_among(self, topics: frozenset[str]) -> frozenset[str]:
        return topics & self.read_by().keys() if self.members else frozenset()

    def assigned_since(self, member: StreamsGroupMember) -> Since:
        subtopology_of = self.read_by()

        def since(topic_id: bytes, partition: int) -> int | None:
            topic = self._topics.topics_by_id.get(topic_id)
            return member.assigned_since(None if topic is None else subtopology_of.get(topic.name), partition)

        return since

    def tombstones(self) -> list[CoordinatorRecord]:
        return [*RECORDS.tombstones(self), CoordinatorRecord(StreamsGroupTopologyKey(self.group_id), None)]

    # Members

    def with_change(
        self, member: StreamsGroupMember, replaced: StreamsGroupMember | None = None
    ) -> list[StreamsGroupMember]:
        """Return the members after a change of `member`, in the same order; a new member comes last."""
        if replaced is not None and replaced.member_id != member.member_id:
            return super().with_change(member, replaced)
        return list((self.members | {member.member_id: member}).values())

    def reads_any(self, topics: frozenset[str]) -> bool:
        """Return whether the topology needs a topic of `topics`, which need not exist."""
        return not topics.isdisjoint(self.required())

    def take_offsets(self, known: dict[str, dict[Task, int]], member_id: str, offsets: dict[Task, int] | None) -> None:
        """Put reported offsets into `known`, unless None. Offsets of refused joiners, which are no members, go."""
        if offsets is None:
            return
        if len(known) > len(self.members):
            for joiner in known.keys() - self.members.keys():
                del known[joiner]
        known[member_id] = offsets

    # The topology

    def required(self) -> frozenset[str]:
        """Return all topics needed by the topology."""
        if self._required is None:
            self._required = frozenset() if self.topology is None else required_topics(self.topology)
        return self._required

    def read_by(self) -> dict[str, str]:
        """Return the subtopology behind each topic of the topology's sources."""
        if self._read_by is None:
            self._read_by = {} if self.topology is None else topics_read(self.topology)
        return self._read_by

    def stored_target(self, target: TasksTuple) -> Iterable[object]:
        return ([target_value.TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)] for tasks in target)

    # By replay alone

    def take_epoch(self, value: Any) -> None:
        super().take_epoch(value)
        self.validated_topology_epoch = value.validated_topology_epoch
        self.assignment_configs = {config.key: config.value for config in value.last_assignment_configs or ()}

    def read_target(self, value: Any) -> TasksTuple:
        roles = (value.active_tasks, value.standby_tasks, value.warmup_tasks)
        return TasksTuple(*(read_tasks(role) for role in roles))

    def replay_topology(self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
        self.topology = value
        self.configured = None
        self.shown = None
        self._required = self._read_by = None

    def holders(self, task: Task) -> list[StreamsGroupMember]:
        """Return the members that have a task in any role, or have to give it back."""
        return [self.members[member_id] for member_id in self._holders.get(task, ())]

    def _follow_tasks(self, member_id: str, tasks: frozenset[Task]) -> None:
        """Note the tasks that a member has from now on."""
        known = self.members.get(member_id)
        before = frozenset[Task]() if known is None else known.tasks()
        for task in before - tasks:
            left = tuple(each for each in self._holders[task] if each != member_id)
            if left:
                self._holders[task] = left
            else:
                del self._holders[task]
        for task in tasks - before:
            self._holders[task] = (*self._holders.get(task, ()), member_id)

    def set_member(self, member: StreamsGroupMember) -> None:
        self._follow_tasks(member.member_id, member.tasks())
        super().set_member(member)

    def remove_member(self, member_id: str) -> None:
        self._follow_tasks(member_id, frozenset())
        super().remove_member(member_id)
        self.task_offsets.pop(member_id, None)
        self.task_end_offsets.pop(member_id, None)
        if not self.members:
            self.shutdown_member_id = None


# From a member's tasks to its target


Pairs = frozenset[Task]
_NO_EPOCH = -1  # of a task that the member has already
UNKNOWN_STATE = "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."


class _Difference:
    """The difference for a role: staying, going and coming tasks, and whether a task waits for other members."""

    def __init__(self, has: Pairs, wanted: Pairs, taken: Pairs) -> None:
        new = wanted - has
        self.stays, self.goes, self.comes = has & wanted, has - wanted, new - taken
        self.waits = not new.isdisjoint(taken)


class _Held(NamedTuple):
    """Tasks by role, as pairs of subtopology and partition."""

    active: Pairs
    standby: Pairs
    warmup: Pairs

    @classmethod
    def of(cls, tasks: TasksTuple | TasksTupleWithEpochs) -> _Held:
        return cls(*(frozenset(pairs(role)) for role in tasks))


class TaskReconciliation:
    """A step of a member, a copy, towards the target. (Kafka: CurrentAssignmentBuilder)

    reported: The tasks that the member reports as its own; None: no news.
    converts: Since Kafka 4.4 a member that has a task in one role gets it in another role without giving it back first,
    and standby tasks that become active stay until the active task is granted.
    """

    def __init__(
        self,
        group: StreamsGroup,
        member: StreamsGroupMember,
        target_epoch: int,
        target: TasksTuple,
        reported: TasksTuple | None,
        *,
        converts: bool,
    ) -> None:
        self._member = member
        self._target_epoch = target_epoch
        self._reported = reported
        self._group = group
        self._target = _Held.of(target)
        self._converts = converts

    def step(self) -> None:
        """Move the member as far as possible now. Raises FENCED_MEMBER_EPOCH for a member in an unknown state."""
        member, reported = self._member, self._reported
        state = member.state
        if state is StreamsMemberState.STABLE:
            if member.epoch != self._target_epoch:
                self._advance(member.epoch)
        elif state is StreamsMemberState.UNREVOKED_TASKS:
            if reported is not None and not member.revoking.overlaps(reported):
                # The member has given its tasks back. If the target takes more, it gives them back in the next epoch.
                self._advance(member.epoch + 1)
        elif state is StreamsMemberState.UNRELEASED_TASKS:
            self._advance(member.epoch)
        elif reported is None or any(reported):
            raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, UNKNOWN_STATE)
        else:
            self._advance(self._target_epoch)

    def _taken(self, has: _Held) -> _Held:
        """Return the tasks among the member's new ones that it can't get yet, by role: others have to give them back.

        Tasks that the member has already may be among the result too.
        """
        active: set[Task] = set()  # tasks that any member has active
        here: tuple[set[Task], set[Task], set[Task]] = (set(), set(), set())  # of the member's process, by role
        for task in frozenset().union(*(role - before for role, before in zip(self._target, has, strict=True))):
            for other in self._group.holders(task):
                roles = other.roles_of(task)
                if roles[0]:
                    active.add(task)
                if other.process_id == self._member.process_id:
                    for tasks, has_it in zip(here, roles, strict=True):
                        if has_it:
                            tasks.add(task)
        mine = _Held(*map(frozenset, here))
        if not self._converts:
            in_any_role = mine.active | mine.standby | mine.warmup
            return _Held(in_any_role | active, in_any_role, in_any_role)
        of_others = _Held(mine.active - has.active, mine.standby - has.standby, mine.warmup - has.warmup)
        return _Held(
            of_others.standby | of_others.warmup | active,
            of_others.active | mine.standby | of_others.warmup,
            mine.active | of_others.standby | mine.warmup,
        )

    def _advance(self, epoch: int) -> None:
        """Move the member to the target epoch, or to `epoch` while it has tasks to give back."""
        member, has = self._member, _Held.of(self._member.assigned)
        active, standby, warmup = map(_Difference, has, self._target, self._taken(has))
        if self._converts:
            _convert(has, self._target.active, standby, warmup)
        going = _owned(member.assigned.active, active.goes, standby.goes, warmup.goes)
        gives_back = not going.is_empty and (self._reported is None or going.overlaps(self._reported))
        if self._converts:
            granted = frozenset() if gives_back else active.comes
            for role, before in ((standby, has.standby), (warmup, has.warmup)):
                role.stays |= (before & self._target.active) - granted
        kept = _owned(member.assigned.active, active.stays, standby.stays, warmup.stays)
        if gives_back:
            member.move_to(epoch, StreamsMemberState.UNREVOKED_TASKS, kept, going)
            return
        owned = _owned(
            member.assigned.active,
            active.stays | active.comes,
            standby.stays | standby.comes,
            warmup.stays | warmup.comes,
            self._target_epoch,
        )
        waits = active.waits or standby.waits or warmup.waits
        state = StreamsMemberState.UNRELEASED_TASKS if waits else StreamsMemberState.STABLE
        member.move_to(self._target_epoch, state, owned, TasksTupleWithEpochs())


def _convert(has: _Held, target: Pairs, standby: _Difference, warmup: _Difference) -> None:
    """Let tasks that the member has in another role change the role at once. target: the tasks to become active."""
    demoted = has.active & standby.comes
    to_warmup, to_standby = has.standby & warmup.comes, has.warmup & standby.comes
    standby.comes -= demoted | to_standby
    warmup.comes -= to_warmup
    standby.stays |= demoted | to_standby
    warmup.stays |= to_warmup
    standby.goes -= to_warmup | target
    warmup.goes -= to_standby | target


def _owned(
    since: ActiveTasks, active: Pairs, standby: Pairs, warmup: Pairs, epoch: int = _NO_EPOCH
) -> TasksTupleWithEpochs:
    """Return the tasks; an active task has the epoch in which the member got the task, or `epoch` if it gets it now."""
    with_epochs = {
        name: {partition: since.get(name, {}).get(partition, epoch) for partition in sorted(partitions)}
        for name, partitions in collect(active).items()
    }
    return TasksTupleWithEpochs(with_epochs, collect(standby), collect(warmup))


# StreamsGroupDescribe


def describe(group: StreamsGroup) -> DescribedGroup:
    """Return the group with topology and members.

    As in Kafka, internal topics have their numbers of partitions once a heartbeat that began a new epoch of an existing
    group has found that the topology fits; until then the numbers are the application's. Tasks that a member has to
    give back are not shown as its own. Members stand in the order of the group's table.
    """
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_describe_topology(group),
        members=[_describe_member(group, member) for member in group.in_table_order(group.members.values())],
    )


def _describe_topology(group: StreamsGroup) -> Topology | None:
    if group.topology is None:
        return None
    partitions = group.shown.partitions if group.shown is not None and group.shown.is_ready else {}
    return Topology(
        group.topology.epoch,
        [
            Subtopology(
                subtopology.subtopology_id,
                subtopology.source_topics,
                subtopology.repartition_sink_topics,
                _describe_topics(subtopology.state_changelog_topics, partitions),
                _describe_topics(subtopology.repartition_source_topics, partitions),
            )
            for subtopology in group.topology.subtopologies
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


def _describe_member(group: StreamsGroup, member: StreamsGroupMember) -> Member:
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
        task_offsets=_describe_offsets(group.task_offsets.get(member.member_id, {})),
        task_end_offsets=_describe_offsets(group.task_end_offsets.get(member.member_id, {})),
        assignment=_describe_assignment(*member.assigned),
        target_assignment=_describe_assignment(*group.target_of(member)),
    )


def _describe_offsets(offsets: Mapping[Task, int]) -> list[TaskOffset]:
    return [TaskOffset(name, partition, offset) for (name, partition), offset in sorted(offsets.items())]


def _describe_assignment(*roles: Mapping[str, Iterable[int]]) -> Assignment:
    return Assignment(*([TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)] for tasks in roles))


# Records, as Kafka 4.4 writes them


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id), value)


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: dict[str, str]
) -> CoordinatorRecord:
    last = [LastAssignmentConfig(key, value) for key, value in sorted(configs.items())]
    return RECORDS.epoch(group_id, epoch, metadata_hash, validated_topology_epoch, last)


def _stored_active_tasks(tasks: ActiveTasks) -> list[current_value.TaskIds]:
    found = []
    for name in sorted(tasks):
        since = sorted(tasks[name].items())
        found.append(current_value.TaskIds(name, [index for index, _ in since], [epoch for _, epoch in since]))
    return found


def _stored_tasks(tasks: Tasks) -> list[current_value.TaskIds]:
    return [current_value.TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]


def _read_active_tasks(tasks: Iterable[current_value.TaskIds], epoch: int) -> ActiveTasks:
    """Return the active tasks of a record with assignment epochs.

    Records from before 4.3 don't say since when a member has a task: the member's epoch stands for that.
    """
    found = {}
    for entry in tasks:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = [epoch] * len(entry.partitions)
        if entry.partitions:
            found[entry.subtopology_id] = dict(zip(entry.partitions, epochs, strict=True))
    return found


def streams_replay(table: GroupTable) -> EpochReplay[StreamsGroup]:
    """Return the replay of streams groups: the types of `EpochReplay`, and the topology."""
    more: dict[type, Any] = {StreamsGroupTopologyKey: StreamsGroup.replay_topology}
    return EpochReplay(table, StreamsGroup, lambda group_id: StreamsGroup(group_id, table.topics), more)
