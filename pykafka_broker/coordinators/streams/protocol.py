"""The streams protocol (KIP-1071): StreamsGroupHeartbeat, and what becomes of members that leave or fall silent.

Rule: a heartbeat works on a copy of its member and leaves what is to change as records; most leave none. Internal
topics that are missing are the caller's to create: they stand in `missing_topics` of the effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.groups.classic_group import ClassicGroup, group_tombstone
from pykafka_broker.coordinators.groups.epoch_group import JOIN_EPOCH, MemberClocks
from pykafka_broker.coordinators.groups.group import Caller, Group, GroupTable, TimerKey
from pykafka_broker.coordinators.streams import stored
from pykafka_broker.coordinators.streams.change import MemberChange, assignment_configs, next_targets
from pykafka_broker.coordinators.streams.checks import check_heartbeat
from pykafka_broker.coordinators.streams.configured import (
    SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY,
)
from pykafka_broker.coordinators.streams.endpoints import partitions_by_endpoint
from pykafka_broker.coordinators.streams.group import MemberState, StreamsGroup, StreamsMember
from pykafka_broker.coordinators.streams.tasks import Owned, Tasks, told
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import CreatableTopic
from pykafka_broker.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from pykafka_broker.protocol.messages.streams_group_heartbeat_response import (
    Status,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from pykafka_broker.protocol.stored.streams_group_member_metadata_value import Endpoint

INITIAL_DELAY = "streams-initial-delay"  # of the group: its first members wait for more to come


class StreamsEffects(Effects[StreamsGroupHeartbeatResponse]):
    """What a heartbeat leads to, and the internal topics that its topology still lacks."""

    __slots__ = ("missing_topics",)

    def __init__(self, key: str) -> None:
        super().__init__(key=key)
        self.missing_topics: list[CreatableTopic] = []


class StreamsProtocol:
    """All requests and deadlines of streams groups."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._timers = table.timers
        self._clocks = MemberClocks(table.timers, StreamsGroup.type_name)

    # Heartbeat

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller, now: int) -> StreamsEffects:
        """Join with epoch 0, go on, or leave with epoch -1."""
        effects = StreamsEffects(request.group_id)
        try:
            check_heartbeat(request)
            group = self._table.groups.get(request.group_id)
            if request.member_epoch < JOIN_EPOCH:
                self._leave(self.existing(request.group_id), request, effects)
            elif isinstance(group, StreamsGroup):
                self._heartbeat(group, request, caller, effects, now)
            else:
                self._heartbeat(self._new_group(group, request, effects), request, caller, effects, now)
        except ApiError as error:
            effects = StreamsEffects(request.group_id)
            effects.reply = StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
        return effects

    def existing(self, group_id: str) -> StreamsGroup:
        """Raises GROUP_ID_NOT_FOUND also for a group of another kind."""
        group = self._table.existing(group_id)
        if not isinstance(group, StreamsGroup):
            raise _other_kind(group_id)
        return group

    def _new_group(
        self, group: Group | None, request: StreamsGroupHeartbeatRequest, effects: StreamsEffects
    ) -> StreamsGroup:
        """What the group will be once its first member has joined; an empty classic group makes way."""
        group_id = request.group_id
        if group is None and request.member_epoch != JOIN_EPOCH:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        if group is not None:
            if request.member_epoch != JOIN_EPOCH or not (isinstance(group, ClassicGroup) and group.is_empty):
                raise _other_kind(group_id)
            effects.records.append(group_tombstone(group_id))
        return StreamsGroup(group_id, self._table.topics)

    def _heartbeat(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        caller: Caller,
        effects: StreamsEffects,
        now: int,
    ) -> None:
        joins = request.member_epoch == JOIN_EPOCH
        if joins:
            group.check_room(self._table.config.group_streams_max_size)  # also for one that comes back to a full group
            before = group.members.get(request.member_id) or StreamsMember(request.member_id)
        else:
            before = group.member(request.member_id)
            group.check_epoch(before, request.member_epoch, lambda: _has_only(request, before.assigned))
        change = MemberChange(self._table, group, before, effects, now)
        member = change.member
        _take_over(member, request, caller)
        change.take_over(request)
        _note_stale(change)
        configs = assignment_configs(self._table, group.group_id)
        change.bump(configs)
        epoch, target = change.retarget(configs, self._is_delayed(group, now))
        change.reconcile(epoch, target, request)
        self._clocks.follow_state(group, before, member, now)
        self.keep_alive(group, member.member_id, now)
        if request.shutdown_application:
            _ask_for_shutdown(group, member.member_id)
        effects.missing_topics = change.configured.missing
        reply = effects.reply = self._reply(group, change)
        self._tell_tasks(group, change, joins, reply)
        self._tell_endpoints(group, change, request, reply)

    def _reply(self, group: StreamsGroup, change: MemberChange) -> StreamsGroupHeartbeatResponse:
        interval = self._table.group_settings(group.group_id).streams_heartbeat_interval_ms
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
            heartbeat_interval_ms=interval,
            status=statuses,
        )

    def _tell_tasks(
        self, group: StreamsGroup, change: MemberChange, joins: bool, reply: StreamsGroupHeartbeatResponse
    ) -> None:
        """The member's tasks, if it joins or if they have changed; either is news for those who ask by endpoint."""
        owned = change.member.assigned
        if joins or owned != change.before.assigned:
            reply.active_tasks = _task_ids(owned.active)
            reply.standby_tasks = _task_ids(owned.standby)
            reply.warmup_tasks = _task_ids(owned.warmup)
            if change.member.endpoint is not None:
                group.endpoint_epoch += 1

    def _tell_endpoints(
        self,
        group: StreamsGroup,
        change: MemberChange,
        request: StreamsGroupHeartbeatRequest,
        reply: StreamsGroupHeartbeatResponse,
    ) -> None:
        if request.endpoint_information_epoch != group.endpoint_epoch:
            reply.partitions_by_user_endpoint = partitions_by_endpoint(group, change, self._table.topics)
        if group.group_id in self._table.groups:  # the epochs of a group begin once it is there
            reply.endpoint_information_epoch = group.endpoint_epoch

    # Leaving

    def _leave(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, effects: Effects[Any]) -> None:
        """A member goes for good."""
        if request.shutdown_application:
            _ask_for_shutdown(group, request.member_id)
        effects.reply = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, status=[]
        )
        self._fence(group, group.member(request.member_id), effects)

    def _fence(self, group: StreamsGroup, member: StreamsMember, effects: Effects[Any]) -> None:
        """Take a member out of the group; the others share what it had from the next epoch on."""
        group_id = group.group_id
        effects.records += stored.member_tombstones(group_id, member.member_id)
        effects.records.append(
            stored.group_epoch(
                group_id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_configs,
            )
        )

    # Time

    def _is_delayed(self, group: StreamsGroup, now: int) -> bool:
        """Whether the first members still wait for others to come; the wait begins with the first of them."""
        key = TimerKey(INITIAL_DELAY, group.group_id)
        if group.is_empty and key not in self._timers:
            delay_ms = self._table.group_settings(group.group_id).streams_initial_rebalance_delay_ms
            if delay_ms > 0:
                self._timers.set(key, now + delay_ms)
        return key in self._timers

    def keep_alive(self, group: StreamsGroup, member_id: str, now: int) -> None:
        """Start the member's session anew."""
        session_ms = self._table.group_settings(group.group_id).streams_session_timeout_ms
        self._clocks.keep_alive(group, member_id, now + session_ms)

    def on_timer(self, key: TimerKey, group: StreamsGroup, effects: Effects[Any], now: int) -> None:
        """A deadline has passed: a member is out, or the first members get their tasks."""
        if key.kind == INITIAL_DELAY:
            self._end_delay(group, effects, now)
            return
        member = group.members.get(key.member_id)
        if member is not None and self._clocks.is_out(key, member):
            self._fence(group, member, effects)

    def _end_delay(self, group: StreamsGroup, effects: Effects[Any], now: int) -> None:
        if group.is_empty or group.epoch <= group.assignment_epoch or group.configured is None:
            return
        members = list(group.members.values())
        next_targets(group, members, group.configured, group.assignment_configs, group.epoch, now, effects.records)

    def on_loaded(self, group: StreamsGroup, now: int) -> None:
        """The log has been read: members have a full session to come back in."""
        for member in group.members.values():
            self.keep_alive(group, member.member_id, now)
            if member.state is MemberState.UNREVOKED_TASKS:
                self._clocks.await_revocation(group, member, now)


def _other_kind(group_id: str) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")


def _has_only(request: StreamsGroupHeartbeatRequest, owned: Owned) -> bool:
    """Whether the member tells its tasks, and only tasks that are its own."""
    if request.active_tasks is None:
        return False
    active = {name: frozenset(since) for name, since in owned.active.items()}
    return (
        _is_subset(told(request.active_tasks), active)
        and _is_subset(told(request.standby_tasks), owned.standby)
        and _is_subset(told(request.warmup_tasks), owned.warmup)
    )


def _is_subset(some: Tasks, tasks: Tasks) -> bool:
    return all(partitions <= tasks.get(name, frozenset()) for name, partitions in some.items())


def _take_over(member: StreamsMember, request: StreamsGroupHeartbeatRequest, caller: Caller) -> None:
    """What the request says; what it leaves out stays as it was."""
    if request.rack_id is not None:
        member.rack_id = request.rack_id
    if request.rebalance_timeout_ms != -1:
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
    if request.topology is not None:
        member.topology_epoch = request.topology.epoch
    if request.process_id is not None:
        member.process_id = request.process_id
    if request.client_tags is not None:
        member.client_tags = {tag.key: tag.value for tag in request.client_tags}
    if request.user_endpoint is not None:
        member.endpoint = Endpoint(request.user_endpoint.host, request.user_endpoint.port)
    member.client_id = caller.client_id
    member.client_host = caller.client_host


def _note_stale(change: MemberChange) -> None:
    theirs, ours = change.member.topology_epoch, change.topology.epoch
    if theirs < ours:
        detail = f"The member's topology epoch {theirs} is behind the group's topology epoch {ours}."
        change.statuses.append(Status(STALE_TOPOLOGY, detail))


def _ask_for_shutdown(group: StreamsGroup, member_id: str) -> None:
    """The first one to ask is the one that everybody is told of."""
    if group.shutdown_member_id is None:
        group.shutdown_member_id = member_id


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(name, sorted(tasks[name])) for name in sorted(tasks)]
