"""The consumer protocol (KIP-848): ConsumerGroupHeartbeat, and what becomes of members that leave or fall silent.

Rule: a heartbeat that brings nothing new and asks for nothing costs a few comparisons; every other one works on a copy
of its member and leaves what is to change as records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.groups import consumer_stored
from pykafka_broker.coordinators.groups.consumer_change import MemberChange, rights_are_old
from pykafka_broker.coordinators.groups.consumer_group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Owned,
    topics_read,
)
from pykafka_broker.coordinators.groups.epoch_group import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, MemberClocks
from pykafka_broker.coordinators.groups.group import Caller, GroupTable, TimerKey
from pykafka_broker.coordinators.groups.reconciliation import OwnedTopics
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN = "consumer-join"  # a classic member that was told to join again
SYNC = "consumer-sync"  # a classic member that has joined and not asked for its share

# Turns a consumer group into a classic one if nothing but classic members is left without those named; True if it did.
Downgrade = Callable[[ConsumerGroup, list[ConsumerMember], Effects[Any], int], bool]


class Claim(NamedTuple):
    """Who a request says it is from."""

    member_id: str
    instance_id: str | None = None
    epoch: int = JOIN_EPOCH
    says_it_owns: OwnedTopics = None
    is_classic: bool = False  # speaks the classic protocol, in which the place of a static member is free to take

    @property
    def joins(self) -> bool:
        return self.epoch == JOIN_EPOCH


class ConsumerProtocol:
    """All requests and deadlines of consumer groups, but for members that speak the classic protocol."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._timers = table.timers
        self._clocks = MemberClocks(table.timers, ConsumerGroup.type_name)
        self.downgrade: Downgrade = lambda group, leaving, effects, now: False  # migration puts its own here

    # Heartbeat

    def check(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> None:
        """Raises what is wrong with the request as such."""
        check_heartbeat(request, caller.version, self._table.config.group_consumer_assignors)

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        effects: Effects[Any],
        now: int,
    ) -> None:
        """Join, go on, or learn of changes. Raises what the member is told instead."""
        if self._is_idle(group, request, caller) and not self._has_old_rights(group, caller, now):
            self.keep_alive(group, request.member_id, now)
            effects.reply = self._reply(group, request.member_id, request.member_epoch)
            return
        member_id = request.member_id or self._table.new_id()
        self.check_room(group, member_id)
        claim = Claim(member_id, request.instance_id, request.member_epoch, request.topic_partitions)
        before = self.find_member(group, claim, effects)
        change = MemberChange(self._table, group, before, effects, now, caller.may_see)
        _take_over(change.member, request, caller)
        change.subscribe()
        change.reconcile(change.retarget(), request.topic_partitions)
        member = change.member
        self._clocks.follow_state(group, before, member, now)
        self.keep_alive(group, member_id, now)
        reply = effects.reply = self._reply(group, member_id, member.epoch)
        if claim.joins or _is_full(request) or member.assigned != before.assigned:
            reply.assignment = _as_reply(member.assigned)

    def _is_idle(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> bool:
        """Whether the member says nothing new and there is nothing new for it: most heartbeats are of this kind."""
        member = group.members.get(request.member_id)
        return (
            member is not None
            and request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
            and member.state is MemberState.STABLE
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.topic_partitions is None
            and request.rebalance_timeout_ms == -1
            and request.server_assignor is None
            and request.rack_id is None
            and (request.instance_id is None or request.instance_id == member.instance_id)
            and not group.metadata_stale
            and member.classic is None
            and member.client_id == caller.client_id
            and member.client_host == caller.client_host
        )

    def _has_old_rights(self, group: ConsumerGroup, caller: Caller, now: int) -> bool:
        if caller.may_see is None or not group.regexes:
            return False
        return any(rights_are_old(self._table, resolved, now) for resolved in group.regexes.values())

    def _reply(self, group: ConsumerGroup, member_id: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
        interval = self._table.group_settings(group.group_id).consumer_heartbeat_interval_ms
        return ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raises GROUP_MAX_SIZE_REACHED for a new member of a full group."""
        if member_id not in group.members:
            group.check_room(self._table.config.group_consumer_max_size)

    # Who it is

    def find_member(self, group: ConsumerGroup, claim: Claim, effects: Effects[Any]) -> ConsumerMember:
        """The member that speaks, or a new one. Raises if it is not who it says it is, or has been left behind."""
        if claim.joins:
            return self._find_joining(group, claim, effects)
        if claim.instance_id is None:
            member = group.member(claim.member_id)
        else:
            member = known_static(group, claim.instance_id, claim.member_id, group.static_member(claim.instance_id))
        group.check_epoch(member, claim.epoch, lambda: _is_subset(claim.says_it_owns, member.assigned))
        return member

    def _find_joining(self, group: ConsumerGroup, claim: Claim, effects: Effects[Any]) -> ConsumerMember:
        member_id, instance_id = claim.member_id, claim.instance_id
        existing = None if instance_id is None else group.static_member(instance_id)
        if existing is None:
            member = group.members.get(member_id)
            return ConsumerMember(member_id) if member is None else member
        if not claim.is_classic and existing.classic is None and existing.epoch != LEAVE_STATIC_EPOCH:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {existing.member_id} member.",
            )
        if existing.member_id == member_id:
            return existing
        return self._replace(group, existing, member_id, effects)

    def _replace(
        self, group: ConsumerGroup, existing: ConsumerMember, member_id: str, effects: Effects[Any]
    ) -> ConsumerMember:
        """A static member is back under another id: it takes over subscription, target and assignment."""
        member = existing.copy()
        member.member_id = member_id
        member.epoch = member.previous_epoch = 0
        group_id = group.group_id
        effects.records += consumer_stored.member_tombstones(group_id, existing.member_id)
        effects.records += [
            consumer_stored.member_metadata(group_id, member),
            consumer_stored.target(group_id, member_id, group.targets.get(existing.member_id, {})),
            consumer_stored.current_assignment(group_id, member),
        ]
        return member

    # Leaving

    def leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, effects: Effects[Any], now: int
    ) -> None:
        """Epoch -1 leaves for good, epoch -2 keeps the place of a static member for a session."""
        epoch = request.member_epoch
        effects.reply = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=epoch)
        if request.instance_id is None:
            self.fence(group, [group.member(request.member_id)], effects, now)
            return
        existing = group.static_member(request.instance_id)
        member = known_static(group, request.instance_id, request.member_id, existing)
        if epoch != LEAVE_STATIC_EPOCH:
            self.fence(group, [member], effects, now)
            return
        away = member.copy()
        away.epoch = LEAVE_STATIC_EPOCH
        away.assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
        away.revoking = {}
        effects.records.append(consumer_stored.current_assignment(group.group_id, away))
        self._clocks.stop_rebalance(group, member.member_id)

    def fence(self, group: ConsumerGroup, leaving: list[ConsumerMember], effects: Effects[Any], now: int) -> None:
        """Take members out of the group; the others share what they had from the next epoch on."""
        if not leaving or self.downgrade(group, leaving, effects, now):
            return
        group_id = group.group_id
        gone = {member.member_id for member in leaving}
        for member in leaving:
            effects.records += consumer_stored.member_tombstones(group_id, member.member_id)
        left = [member for member in group.members.values() if member.member_id not in gone]
        wanted = {member.topic_regex for member in left}
        for pattern in group.regexes:
            if pattern not in wanted:
                effects.records.append(consumer_stored.regex(group_id, pattern, None))
        new_hash = self._table.hashes.of_group(topics_read(self._table.topics, left, group.regexes))
        effects.records.append(consumer_stored.group_epoch(group_id, group.epoch + 1, new_hash))

    # Time

    def session_ms(self, group: ConsumerGroup, member: ConsumerMember | None) -> int:
        """A classic member has said how long its session is; for the others the group's configs say it."""
        if member is not None and member.classic is not None:
            return member.classic.session_timeout_ms
        return self._table.group_settings(group.group_id).consumer_session_timeout_ms

    def keep_alive(self, group: ConsumerGroup, member_id: str, now: int, session_ms: int | None = None) -> None:
        """Start the member's session anew."""
        if session_ms is None:
            session_ms = self._table.group_settings(group.group_id).consumer_session_timeout_ms
        self._clocks.keep_alive(group, member_id, now + session_ms)

    def on_timer(self, key: TimerKey, group: ConsumerGroup, effects: Effects[Any], now: int) -> None:
        """A deadline of a member has passed: it is out."""
        member = group.members.get(key.member_id)
        if member is not None and self._clocks.is_out(key, member):
            self.fence(group, [member], effects, now)

    def on_loaded(self, group: ConsumerGroup, now: int) -> None:
        """The log has been read: members have a full session to come back in."""
        for member in group.members.values():
            self.keep_alive(group, member.member_id, now, self.session_ms(group, member))
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                self._clocks.await_revocation(group, member, now)


def known_static(
    group: ConsumerGroup, instance_id: str, member_id: str, existing: ConsumerMember | None
) -> ConsumerMember:
    """Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another member has the instance id."""
    if existing is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if existing.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {existing.member_id}.",
        )
    return existing


def _is_subset(says_it_owns: OwnedTopics, assigned: Owned) -> bool:
    return says_it_owns is not None and all(
        topic.topic_id in assigned and assigned[topic.topic_id].keys() >= set(topic.partitions)
        for topic in says_it_owns
    )


def _take_over(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> None:
    """What the request says; what it leaves out stays as it was."""
    if request.instance_id is not None:
        member.instance_id = request.instance_id
    if request.rack_id is not None:
        member.rack_id = request.rack_id
    if request.rebalance_timeout_ms != -1:
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        member.server_assignor = request.server_assignor
    if request.subscribed_topic_names is not None:
        member.topic_names = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        member.topic_regex = request.subscribed_topic_regex
    member.client_id = caller.client_id
    member.client_host = caller.client_host
    member.classic = None


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the client has sent everything, as it does after an error: then it wants to know its assignment."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _as_reply(assigned: Owned) -> Assignment:
    return Assignment([TopicPartitions(topic_id, sorted(owned)) for topic_id, owned in assigned.items()])


# What a heartbeat must look like before any group is asked

MEMBER_CHOOSES_ID_FROM = 1


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: list[str]) -> None:
    """Check the request alone, in Kafka's order and with Kafka's words, which clients show to people. Raises
    INVALID_REQUEST or UNSUPPORTED_ASSIGNOR.
    """
    epoch = request.member_epoch
    if not request.member_id and (version >= MEMBER_CHOOSES_ID_FROM or epoch != JOIN_EPOCH):
        raise _invalid("MemberId can't be empty.")
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value == "":
            raise _invalid(f"{name} can't be empty.")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
