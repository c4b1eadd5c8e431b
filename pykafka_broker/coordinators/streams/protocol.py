"""The streams protocol (KIP-1071): StreamsGroupHeartbeat, and the end of members that leave or fall silent.

Rule: a heartbeat works on a copy of its member, and its changes become records; most heartbeats make none. The caller
creates missing internal topics: `missing_topics` of the result names them. The order of the checks and the words of
errors are Kafka's, and what Kafka does not support yet is refused in the same way: patterns as source topics, and
before 4.4 static members, task offsets and warm-up tasks. Targets of many tasks are computed in steps after the answer,
as if in another thread. A member first gives back the tasks that are not in its target; only then does it follow the
group to the new epoch. An active task comes when no member has it active any more, and no task comes to a process that
still has the task in another role: a state directory can be open once only. The group coordinator alone reads this
file, which is the streams protocol as a whole.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any

from pykafka_broker.coordinators.groups.classic_group import ClassicGroup, group_tombstone
from pykafka_broker.coordinators.groups.epoch_group import JOIN_EPOCH, LEAVE_STATIC_EPOCH, EpochChange, EpochProtocol
from pykafka_broker.coordinators.groups.group import (
    BEHIND_BLANKS,
    AnyGroup,
    Caller,
    GroupTable,
    TimerKey,
    invalid_request,
    is_blank,
)
from pykafka_broker.coordinators.groups.java_order import in_hash_order
from pykafka_broker.coordinators.groups.topics import ClusterTopics
from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult
from pykafka_broker.coordinators.streams.group import (
    NO_TOPOLOGY,
    NOTHING,
    StreamsGroup,
    StreamsGroupMember,
    Task,
    TaskReconciliation,
    Tasks,
    TasksTuple,
    TasksTupleWithEpochs,
    epoch_record,
    read_tasks,
    topology_record,
)
from pykafka_broker.coordinators.streams.sticky_assignor import TaskMemberSpec, assign_tasks
from pykafka_broker.coordinators.streams.topology import (
    ASSIGNMENT_DELAYED,
    MISSING_CLIENT_TAGS,
    MISSING_INTERNAL_TOPICS,
    SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY,
    ConfiguredTopology,
    as_stored,
    configure,
    is_other,
    required_topics,
    source_topics,
)
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TaskOffset,
    Topology,
)
from pykafka_broker.protocol.messages.streams_group_heartbeat_response import Endpoint as ReplyEndpoint
from pykafka_broker.protocol.messages.streams_group_heartbeat_response import (
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatResponse,
)
from pykafka_broker.protocol.messages.streams_group_heartbeat_response import TaskIds as AssignedTasks
from pykafka_broker.protocol.messages.streams_group_heartbeat_response import TopicPartition as TopicRead
from pykafka_broker.protocol.stored.streams_group_member_metadata_value import Endpoint
from pykafka_broker.protocol.stored.streams_group_topology_value import StreamsGroupTopologyValue

INITIAL_DELAY = "streams-initial-delay"  # deadline of the group: the first members wait for more members


class StreamsResult(CoordinatorResult[StreamsGroupHeartbeatResponse]):
    """The outcome of a heartbeat, with the internal topics to create."""

    __slots__ = ("missing_topics",)

    def __init__(self, key: str) -> None:
        super().__init__(key=key)
        self.missing_topics: list[CreatableTopic] = []


class StreamsProtocol(EpochProtocol[StreamsGroup]):
    """All requests and deadlines of streams groups."""

    # Heartbeat

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller, now: int) -> StreamsResult:
        """Decide a StreamsGroupHeartbeat: with epoch 0 a member joins, with epoch -1 it leaves, else it stays."""
        result = StreamsResult(request.group_id)
        try:
            check_heartbeat(request, self._table.config.is_of_4_4)
            group = self._table.groups.get(request.group_id)
            if request.member_epoch < JOIN_EPOCH:
                group = self._table.of_kind(request.group_id, StreamsGroup)
                if request.shutdown_application:
                    _ask_for_shutdown(group, request.member_id)
                member_id, epoch = request.member_id, request.member_epoch
                result.reply = StreamsGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch, status=[])
                self._leave(group, group.claimed_member(member_id, request.instance_id), epoch, result, now)
            elif isinstance(group, StreamsGroup):
                self._heartbeat(group, request, caller, result, now)
            else:
                self._heartbeat(self._new_group(group, request, result), request, caller, result, now)
        except ApiError as error:
            result = StreamsResult(request.group_id)
            result.reply = StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        return result

    def _new_group(
        self, group: AnyGroup | None, request: StreamsGroupHeartbeatRequest, result: StreamsResult
    ) -> StreamsGroup:
        """Return a new group for a first member; an empty classic group makes way."""
        group_id = request.group_id
        if request.member_epoch != JOIN_EPOCH or not (
            group is None or (isinstance(group, ClassicGroup) and group.is_empty)
        ):
            return self._table.of_kind(group_id, StreamsGroup, "Streams group")
        if group is not None:
            result.records.append(group_tombstone(group_id))
        return StreamsGroup(group_id, self._table.topics)

    def _heartbeat(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        caller: Caller,
        result: StreamsResult,
        now: int,
    ) -> None:
        joins = request.member_epoch == JOIN_EPOCH
        if joins:
            self._check_room(group, request)
            before = self._joining(group, request.member_id, request.instance_id, result)
        else:
            before = group.claimed_member(request.member_id, request.instance_id)
            group.check_epoch(before, request.member_epoch, lambda: _has_only(request, before.assigned))
        change = StreamsMemberChange(self._table, group, before, result, now)
        member = change.member
        _apply_request(member, request, caller)
        if joins and self._table.config.is_of_4_4 and request.user_endpoint is None:
            member.endpoint = None
        change.take_over(request)
        reported = request.task_offsets, request.task_end_offsets
        offsets, end_offsets = (None if each is None else _by_task(each) for each in reported)
        group.take_offsets(group.task_offsets, member.member_id, offsets)
        group.take_offsets(group.task_end_offsets, member.member_id, end_offsets)
        theirs, ours = member.topology_epoch, change.topology.epoch
        if theirs < ours:
            detail = f"The member's topology epoch {theirs} is behind the group's topology epoch {ours}."
            change.statuses.append(Status(STALE_TOPOLOGY, detail))
        settings = self._table.group_settings(group.group_id)
        # The assignor's configs, in the form of the record of the group epoch.
        configs = {STANDBYS: str(settings.streams_num_standby_replicas)}
        if self._table.config.is_of_4_4 and settings.streams_rack_aware_assignment_tags:
            configs[RACK_TAGS] = ",".join(settings.streams_rack_aware_assignment_tags)
        change.bump(configs)
        is_delayed = self._is_delayed(group, settings.streams_initial_rebalance_delay_ms, now)
        epoch, target = change.retarget(configs, is_delayed, settings.streams_assignment_interval_ms)
        change.reconcile(epoch, target, request)
        if before.epoch == LEAVE_STATIC_EPOCH:  # Kafka replaces the member by itself, and what was reported is lost
            group.task_offsets.pop(member.member_id, None)
            group.task_end_offsets.pop(member.member_id, None)
        if request.shutdown_application:
            _ask_for_shutdown(group, member.member_id)
        result.missing_topics = change.configured.missing
        reply = result.reply = self._reply(group, change, settings.streams_heartbeat_interval_ms)
        if self._table.config.is_of_4_4:
            reply.task_offset_interval_ms = settings.streams_task_offset_interval_ms
            if caller.version >= _RECOVERY_LAG_FROM:
                reply.acceptable_recovery_lag = settings.streams_acceptable_recovery_lag
                change.statuses += _missing_tags(member, settings.streams_rack_aware_assignment_tags)
        owned = member.assigned
        if joins or owned != before.assigned:
            reply.active_tasks, reply.standby_tasks, reply.warmup_tasks = map(_task_ids, owned)
        told = member.endpoint != before.endpoint if self._table.config.is_of_4_4 else joins and bool(member.endpoint)
        if told or (member.endpoint is not None and owned != before.assigned):
            group.endpoint_epoch += 1  # the members learn anew where the tasks are
        if request.endpoint_information_epoch != group.endpoint_epoch:
            reply.partitions_by_user_endpoint = partitions_by_endpoint(group, change, self._table.topics)
        if group.group_id in self._table.groups:  # the epochs of a group begin with its first record
            reply.endpoint_information_epoch = group.endpoint_epoch
        self.follow_state(group, before, member, now)
        self._timers.set_session(group, member.member_id, now + settings.streams_session_timeout_ms)

    def _reply(
        self, group: StreamsGroup, change: StreamsMemberChange, interval_ms: int
    ) -> StreamsGroupHeartbeatResponse:
        statuses = change.statuses
        if change.configured.problem is not None:
            statuses.append(Status(change.configured.problem.status, change.configured.problem.detail))
        if group.shutdown_member_id is not None:
            statuses.append(
                Status(
                    SHUTDOWN_APPLICATION,
                    f"Streams group member {group.shutdown_member_id} encountered a fatal error and requested a "
                    "shutdown for the entire application.",
                )
            )
        return StreamsGroupHeartbeatResponse(
            member_id=change.member.member_id,
            member_epoch=change.member.epoch,
            heartbeat_interval_ms=interval_ms,
            status=statuses,
        )

    def _check_room(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> None:
        """Raise GROUP_MAX_SIZE_REACHED for a member that joins a full group.

        Before 4.4 a member that comes back needs room too.
        """
        comes_back = request.member_id in group.members or group.static_member(request.instance_id) is not None
        if not (comes_back and self._table.config.is_of_4_4):
            group.check_room(self._table.config.group_streams_max_size)

    # Static members

    def _joining(
        self, group: StreamsGroup, member_id: str, instance_id: str | None, result: CoordinatorResult[Any]
    ) -> StreamsGroupMember:
        """Return the member that joins: a new one, or one that comes back, under a new id if it is static.

        Raises UNRELEASED_INSTANCE_ID: the static member has not left.
        """
        existing = group.static_member(instance_id)
        if existing is None:
            return group.members.get(member_id) or StreamsGroupMember(member_id)
        if existing.epoch != LEAVE_STATIC_EPOCH:
            raise group.unreleased(member_id, existing)
        return group.in_place_of(existing, member_id, result)

    # Leaving

    def _leave(
        self, group: StreamsGroup, member: StreamsGroupMember, epoch: int, result: CoordinatorResult[Any], now: int
    ) -> None:
        """Remove a member with epoch -1; with epoch -2 keep the place of a static member for a session."""
        if epoch != LEAVE_STATIC_EPOCH:
            self.fence(group, [member], result, now)
            return
        active = {name: dict.fromkeys(partitions, 0) for name, partitions in member.assigned.active.items()}
        self.put_away(group, member, member.assigned._replace(active=active), result)

    def next_epoch(self, group: StreamsGroup, leaving: list[StreamsGroupMember]) -> list[CoordinatorRecord]:
        topics = group.metadata_hash, group.validated_topology_epoch
        return [epoch_record(group.group_id, group.epoch + 1, *topics, group.assignment_configs)]

    # Time

    def _is_delayed(self, group: StreamsGroup, delay_ms: int, now: int) -> bool:
        """Return whether the first members still wait for more members; the wait begins with the first member."""
        key = TimerKey(INITIAL_DELAY, group.group_id)
        if group.is_empty and delay_ms > 0 and key not in self._timers:
            self._timers.set(key, now + delay_ms)
        return key in self._timers

    def session_ms(self, group: StreamsGroup, member: StreamsGroupMember) -> int:
        return self._table.group_settings(group.group_id).streams_session_timeout_ms

    def on_timer(self, key: TimerKey, group: StreamsGroup, result: CoordinatorResult[Any], now: int) -> None:
        """Remove a member after a deadline, or give the first members tasks."""
        if key.kind == INITIAL_DELAY:
            self._end_delay(group, result, now)
        else:
            super().on_timer(key, group, result, now)

    def _end_delay(self, group: StreamsGroup, result: CoordinatorResult[Any], now: int) -> None:
        if group.is_empty or group.is_assigning or group.epoch <= group.assignment_epoch or group.configured is None:
            return
        members = list(group.members.values())
        next_targets(self._table, group, members, group.configured, group.assignment_configs, group.epoch, result, now)


def _has_only(request: StreamsGroupHeartbeatRequest, owned: TasksTupleWithEpochs) -> bool:
    """Return whether the member reports tasks, and only tasks of its own."""
    if request.active_tasks is None:
        return False
    active = {name: frozenset(since) for name, since in owned.active.items()}
    return (
        _is_subset(request.active_tasks, active)
        and _is_subset(request.standby_tasks, owned.standby)
        and _is_subset(request.warmup_tasks, owned.warmup)
    )


def _is_subset(reported: list[TaskIds] | None, tasks: Tasks) -> bool:
    """Return whether the reported tasks are among others; a subtopology without a task there is not, even if empty."""
    return all(
        each.subtopology_id in tasks and tasks[each.subtopology_id] >= set(each.partitions) for each in reported or ()
    )


def _apply_request(member: StreamsGroupMember, request: StreamsGroupHeartbeatRequest, caller: Caller) -> None:
    member.take_request(request, caller)
    if request.topology is not None:
        member.topology_epoch = request.topology.epoch
    if request.process_id is not None:
        member.process_id = request.process_id
    if request.client_tags is not None:
        member.client_tags = {tag.key: tag.value for tag in request.client_tags}
        if len(member.client_tags) < len(request.client_tags):  # UNKNOWN_SERVER_ERROR with Kafka
            raise invalid_request("ClientTags must not name a key twice.")
    if request.user_endpoint is not None:
        member.endpoint = Endpoint(request.user_endpoint.host, request.user_endpoint.port)


def _ask_for_shutdown(group: StreamsGroup, member_id: str) -> None:
    """Note the first member to ask for a shutdown, for the status of all members."""
    if group.shutdown_member_id is None:
        group.shutdown_member_id = member_id


def _missing_tags(member: StreamsGroupMember, wanted: list[str]) -> list[Status]:
    """Return a status if the member lacks tags by which the group's standby tasks should be spread."""
    missing = [tag for tag in wanted if tag not in member.client_tags]
    if not missing:
        return []
    detail = (
        f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. "
        "Configure them via 'client.tag.<tagKey>' in your Streams config."
    )
    return [Status(MISSING_CLIENT_TAGS, detail)]


def _by_task(offsets: list[TaskOffset]) -> dict[Task, int]:
    """Return the offsets of tasks. Raises INVALID_REQUEST for a task that comes twice."""
    found: dict[Task, int] = {}
    for each in offsets:
        if (each.subtopology_id, each.partition) in found:
            raise invalid_request(
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and partition "
                f"{each.partition}."
            )
        found[each.subtopology_id, each.partition] = each.offset
    return found


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[AssignedTasks]:
    return [AssignedTasks(name, sorted(tasks[name])) for name in in_hash_order(tasks)]


# Checks of a heartbeat alone


def check_heartbeat(request: StreamsGroupHeartbeatRequest, is_of_4_4: bool) -> None:
    """Check the request alone. Raises INVALID_REQUEST, or STREAMS_INVALID_TOPOLOGY."""
    if not is_of_4_4:
        _check_supported_by_4_3(request)
    if request.topology is not None and any(
        subtopology.source_topic_regex for subtopology in request.topology.subtopologies
    ):
        raise invalid_request("Regular expressions for source topics are not supported yet.")
    names = ("MemberId", "GroupId", "InstanceId", "RackId")
    values = (request.member_id, request.group_id, request.instance_id, request.rack_id)
    for name, value in zip(names, values, strict=True):
        if value is not None and value < BEHIND_BLANKS and is_blank(value):
            raise invalid_request(f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == LEAVE_STATIC_EPOCH:
        if request.instance_id is None:
            raise invalid_request("InstanceId can't be null.")
    elif request.member_epoch < LEAVE_STATIC_EPOCH:
        raise invalid_request(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(role is None for role in tasks) and any(role is not None for role in tasks):
        raise invalid_request("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise invalid_request("Topology can only be provided when (re-)joining.")


def _check_supported_by_4_3(request: StreamsGroupHeartbeatRequest) -> None:
    if request.instance_id is not None:
        raise invalid_request("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise invalid_request("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise invalid_request("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise invalid_request("WarmupTasks are not supported yet.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid_request("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        if tasks is None or tasks:
            raise invalid_request(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise invalid_request("Topology must be non-null when (re-)joining.")
    _check_changelogs(request.topology)


def _check_changelogs(topology: Topology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise ApiError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}.",
                )


def check_tasks(task_counts: Mapping[str, int], *reported: list[TaskIds] | None) -> None:
    """Raise INVALID_REQUEST for tasks outside of the topology."""
    for tasks in reported:
        for role in tasks or ():
            count = task_counts.get(role.subtopology_id)
            if count is None:
                raise invalid_request(f"Subtopology {role.subtopology_id} does not exist in the topology.")
            for partition in role.partitions:
                if not 0 <= partition < count:
                    raise invalid_request(
                        f"Task {partition} for subtopology {role.subtopology_id} is invalid. Number of tasks for this "
                        f"subtopology: {count}"
                    )


# The change of a member by a heartbeat


STANDBYS = "num.standby.replicas"
RACK_TAGS = "rack.aware.assignment.tags"
STEPS_AT_ONCE = 50  # of an assignor: of groups with some thousand tasks
_RECOVERY_LAG_FROM = 1


def tasks_to_keep(
    table: GroupTable, group: StreamsGroup, members: Iterable[StreamsGroupMember]
) -> dict[str, TasksTuple]:
    """Return the tasks that the assignor leaves to each member: the member's own, before 4.4 its last target."""
    if table.config.is_of_4_4:
        return {member.member_id: member.assigned.without_epochs() for member in members}
    return {member.member_id: group.target_of(member) for member in members}


def next_targets(
    table: GroupTable,
    group: StreamsGroup,
    members: list[StreamsGroupMember],
    configured: ConfiguredTopology,
    configs: dict[str, str],
    epoch: int,
    result: CoordinatorResult[Any],
    now: int,
) -> dict[str, TasksTuple] | None:
    """Compute the members' targets for a group epoch, and add records for changed targets.

    While the topology does not fit, no member has a task.

    Returns:
        None for a group with many tasks: `result.later` goes on, and later heartbeats find the targets.
    """
    owned = tasks_to_keep(table, group, members)
    specs = {
        member.member_id: TaskMemberSpec(
            member.process_id, owned[member.member_id], group.task_offsets.get(member.member_id, {})
        )
        for member in group.in_table_order(members)
    }
    task_counts = configured.task_counts if configured.is_ready else {}
    steps = assign_tasks(specs, task_counts, configured.stateful, int(configs.get(STANDBYS, "0")))
    try:
        for _ in range(STEPS_AT_ONCE):
            next(steps)
    except StopIteration as end:
        targets: dict[str, TasksTuple] = end.value
        result.records += group.target_records(targets, epoch, now)
        return targets
    result.later = targets_later(table, group.group_id, epoch, steps, now)
    return None


def targets_later(
    table: GroupTable, group_id: str, epoch: int, steps: Generator[None, None, dict[str, TasksTuple]], now: int
) -> Iterator[CoordinatorResult[None] | None]:
    """Go on with the steps of an assignor, then record the targets, as Kafka does after work in another thread.

    Meanwhile the group may have gone, or members have come and gone, which begins another group epoch. A static member
    that has come back under another id begins none: the next heartbeat begins the assignment anew.
    """
    group = table.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        return
    group.is_assigning = True
    try:
        targets = yield from steps
    finally:
        group.is_assigning = False
    if table.groups.get(group_id) is not group or epoch <= group.assignment_epoch:
        return
    of_members = {member_id: target for member_id, target in targets.items() if member_id in group.members}
    if len(of_members) == len(targets) or epoch < group.epoch:
        yield CoordinatorResult(records=group.target_records(of_members, epoch, now), key=group_id)


class StreamsMemberChange(EpochChange[StreamsGroup, StreamsGroupMember]):
    """The change of a member by a heartbeat.

    The order of the records is Kafka's: member, topology, group epoch, targets, current assignment. How the topology
    fits the topics is kept in the group at once, since it can be computed again at any time.
    """

    def __init__(
        self,
        table: GroupTable,
        group: StreamsGroup,
        before: StreamsGroupMember,
        result: CoordinatorResult[Any],
        now: int,
    ) -> None:
        super().__init__(table, group, before, result, now)
        self._result = result
        self.statuses: list[Status] = []
        self._begins_epoch = False

    def take_over(self, request: StreamsGroupHeartbeatRequest) -> None:
        """Record the member, and the topology if the group has none yet."""
        is_new = self._group.static_member(self.member.instance_id) is None and (
            self.member.member_id not in self._group.members
        )
        if is_new or self.member.metadata() != self.before.metadata():
            self.records.append(self._group.member_record(self.member))
            self._begins_epoch = is_new or not self._is_static_and_alike()
        self.topology = self._take_topology(request)
        self.configured = self._configure()
        if self.configured.is_ready:
            check_tasks(self.configured.task_counts, request.active_tasks, request.standby_tasks, request.warmup_tasks)

    def _is_static_and_alike(self) -> bool:
        """Return whether a static member has all that its tasks depend on as before.

        Another client, timeout or endpoint then begins no epoch of the group; of a dynamic member each of them does.
        """
        return self.member.instance_id is not None and self.member.assigned_by() == self.before.assigned_by()

    def _take_topology(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupTopologyValue:
        known = self._group.topology
        new = None if request.topology is None else as_stored(request.topology)
        if known is None:
            if new is None:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            self.records.append(topology_record(self._group.group_id, new))
            return new
        if new is not None and is_other(known, new):
            raise invalid_request("Topology updates are not supported yet.")
        return known

    # The topics

    def _configure(self) -> ConfiguredTopology:
        """Return how the topology fits the present topics, computed again only if something has changed."""
        group = self._group
        self.metadata_hash = group.metadata_hash
        configured = group.configured
        if (
            configured is not None
            and not group.metadata_stale
            and configured.metadata_hash == group.metadata_hash  # unequal if the record of that epoch was never written
        ):
            return configured
        topics = self._table.topics
        required = group.required() if self.topology is group.topology else required_topics(self.topology)
        self.metadata_hash = self._table.read.hash(required)
        self._begins_epoch |= self.metadata_hash != group.metadata_hash
        if configured is None or configured.metadata_hash != self.metadata_hash:
            configured = group.configured = configure(self.topology, topics, self.metadata_hash)
        group.metadata_stale = False
        return configured

    def bump(self, configs: dict[str, str]) -> None:
        """Start a new group epoch if members, topics or settings have changed."""
        group = self._group
        validated = self.topology.epoch if self.configured.is_ready else NO_TOPOLOGY
        if self._begins_epoch or validated != group.validated_topology_epoch or configs != group.assignment_configs:
            self.group_epoch += 1
            group.shown = self.configured
            self.records.append(epoch_record(group.group_id, self.group_epoch, self.metadata_hash, validated, configs))

    # Target and assignment

    def retarget(self, configs: dict[str, str], is_delayed: bool, interval_ms: int) -> tuple[int, TasksTuple]:
        """Return epoch and target of the member; assign anew if the group epoch is ahead and no delay runs."""
        group = self._group
        if is_delayed:
            self._note_delay("initial rebalance delay")
            return group.assignment_epoch, NOTHING
        if self.group_epoch <= group.assignment_epoch or group.is_assigning:
            return group.assignment_epoch, group.target_of(self.member)
        if not group.may_retarget(interval_ms, self._now):
            self._note_delay("assignment interval")
            return group.assignment_epoch, group.target_of(self.member)
        members = self.members()
        targets = next_targets(
            self._table, group, members, self.configured, configs, self.group_epoch, self._result, self._now
        )
        if targets is None:
            return group.assignment_epoch, group.target_of(self.member)
        return self.group_epoch, targets[self.member.member_id]

    def _note_delay(self, what: str) -> None:
        self.statuses.append(Status(ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {what}."))

    def reconcile(self, epoch: int, target: TasksTuple, request: StreamsGroupHeartbeatRequest) -> None:
        """Move the member as far as possible, and record the new assignment."""
        member = self.member
        if member.is_reconciled_to(epoch):
            return
        has = None
        if request.active_tasks is not None:
            has = TasksTuple(
                read_tasks(request.active_tasks), read_tasks(request.standby_tasks), read_tasks(request.warmup_tasks)
            )
        before = member.current()
        TaskReconciliation(self._group, member, epoch, target, has, converts=self._table.config.is_of_4_4).step()
        self.record_step(before)


# Endpoints, by which interactive queries of Kafka Streams find a task


def partitions_by_endpoint(
    group: StreamsGroup, change: StreamsMemberChange, topics: ClusterTopics
) -> list[EndpointToPartitions]:
    """Return the endpoints of all members, each with the source topics of the member's tasks.

    The member that asks comes last. A member without an endpoint is not listed, nor are changelogs. Kafka fails on an
    endpoint while source topics are missing or topics have other numbers of partitions, and so do we.

    Raises:
        UNKNOWN_SERVER_ERROR: The topics do not fit the topology.
    """
    others = group.in_table_order(member for member in change.members() if member is not change.member)
    listed = [(member, member.endpoint) for member in (*others, change.member) if member.endpoint is not None]
    problem = change.configured.problem
    if listed and problem is not None and problem.status != MISSING_INTERNAL_TOPICS:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    sources = (
        {subtopology.subtopology_id: source_topics(subtopology) for subtopology in change.topology.subtopologies}
        if listed
        else {}
    )
    return [
        EndpointToPartitions(
            ReplyEndpoint(endpoint.host, endpoint.port),
            _partitions_read(
                sources, {name: frozenset(since) for name, since in member.assigned.active.items()}, topics
            ),
            _partitions_read(sources, member.assigned.standby, topics),
        )
        for member, endpoint in listed
    ]


def _partitions_read(sources: dict[str, list[str]], tasks: Tasks, topics: ClusterTopics) -> list[TopicRead]:
    found = []
    for subtopology_id in sorted(tasks):
        for name in sources.get(subtopology_id, ()):
            topic = topics.topics.get(name)
            read = sorted(index for index in tasks[subtopology_id] if topic is not None and index in topic.partitions)
            if read:
                found.append(TopicRead(name, read))
    return found
