"""The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup on groups of type classic.

Rule: a member's request that the rules forbid is answered with Kafka's error and changes nothing. A missing group is an
unknown member to all of these requests but a JoinGroup without member id, which makes the group. A request is answered
at once where it can't change the group; a JoinGroup that can waits in its member until the join phase closes. From
version 4 a dynamic member first gets an id and comes back with it (KIP-394); from 5 there are static members (KIP-345);
from 9 a static leader that returns is told to leave the assignment as it is (KIP-814).
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.groups.classic_group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
    ClassicGroupMember,
    Protocols,
    empty_group_record,
    group_metadata_record,
    restored,
)
from pykafka_broker.coordinators.groups.group import UNKNOWN_MEMBER, Caller, GroupTable, TimerKey
from pykafka_broker.coordinators.record import CoordinatorResult, Token
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse
from pykafka_broker.protocol.runtime import Write
from pykafka_broker.protocol.stored.group_metadata_value import GroupMetadataValue

# The rebalance: from the first join to the members' shares


# A new member has no id for heartbeats; a first join that waits longer than this belongs to a member that has gone.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


class ClassicRebalance:
    """The phases of a rebalance, for all classic groups of a table.

    `prepare` opens the join phase and `complete_join` closes it; both leave answers to waiting requests in the
    `CoordinatorResult` that they are given. Deadlines run on the table's timers and come back through `on_timer`.
    """

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._timers = table.timers

    # Sessions

    def keep_alive(self, member: ClassicGroupMember, now: int, timeout_ms: int | None = None) -> None:
        """Start the member's session anew."""
        self._timers.set(member.session_key, now + (member.session_timeout_ms if timeout_ms is None else timeout_ms))

    def _remove(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member, known or pending, and end the session."""
        group.remove(member_id)
        self._timers.cancel(TimerKey("classic-session", group.group_id, member_id))

    # Join phase

    def prepare_or_complete(self, group: ClassicGroup, result: CoordinatorResult[Any], now: int) -> None:
        """Rebalance after a change of the members, or close the open join phase if nobody is missing."""
        if group.can_rebalance:
            self.prepare(group, result, now)
        else:
            self.complete_join_if_all_are_here(group, result, now)

    def prepare(self, group: ClassicGroup, result: CoordinatorResult[Any], now: int) -> None:
        """Open the join phase."""
        if group.state is COMPLETING_REBALANCE:
            # Members that wait for a share of the old generation have to join again.
            for member in group.members.values():
                member.assignment = b""
            self.answer_syncs(group, {}, result, now, ErrorCode.REBALANCE_IN_PROGRESS)
        self._timers.cancel(group.sync_key)
        initial = group.state is EMPTY
        group.move_to(PREPARING_REBALANCE, now)
        delay = self._table.config.group_initial_rebalance_delay_ms
        if initial and delay:
            group.initial_delay = (delay, max(group.rebalance_timeout_ms - delay, 0))
            self._timers.set(group.join_key, now + delay)
        elif initial or group.all_joined:
            self.complete_join(group, result, now)
        else:
            self._timers.set(group.join_key, now + group.rebalance_timeout_ms)

    def _continue_initial_delay(
        self, group: ClassicGroup, delay: int, remaining: int, result: CoordinatorResult[Any], now: int
    ) -> None:
        if not group.new_member_added or remaining == 0:
            self.complete_join(group, result, now)
            return
        group.new_member_added = False
        next_delay = min(self._table.config.group_initial_rebalance_delay_ms, remaining)
        group.initial_delay = (next_delay, max(remaining - delay, 0))
        self._timers.set(group.join_key, now + next_delay)

    def complete_join_if_all_are_here(self, group: ClassicGroup, result: CoordinatorResult[Any], now: int) -> None:
        """Close the join phase if all members have joined; the initial delay alone ends the first phase."""
        if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY and group.all_joined:
            self.complete_join(group, result, now)

    def complete_join(self, group: ClassicGroup, result: CoordinatorResult[Any], now: int) -> None:
        """Close the join phase: remove dynamic members that have not joined, and give the others the new generation."""
        self._timers.cancel(group.join_key)
        group.initial_delay = None
        group.new_member_added = False
        for member in [m for m in group.members.values() if m.join_token is None and m.instance_id is None]:
            self._remove(group, member.member_id)
        if not group.elect_joined_leader() and group.members:
            # Only static members are left and none has come: wait until a member comes or the sessions end.
            self._timers.set(group.join_key, now + group.rebalance_timeout_ms)
            return
        group.next_generation(now)
        if group.state is EMPTY:
            result.records.append(group_metadata_record(group, {}))
            return
        members = described_members(group)
        for member in group.members.values():
            token = group.end_join(member)
            if token is not None:  # a static member may have no join waiting
                shown = members if member.member_id == group.leader else []
                result.complete(token, generation_reply(group, member, shown))
            self.keep_alive(member, now)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self._timers.set(group.sync_key, now + group.rebalance_timeout_ms)

    # Sync phase

    def answer_syncs(
        self,
        group: ClassicGroup,
        shares: dict[str, bytes],
        result: CoordinatorResult[Any],
        now: int,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Answer all waiting SyncGroup requests with the member's share, or with an error."""
        failed = error is not ErrorCode.NONE
        for member in group.members.values():
            if member.sync_token is None:
                continue
            reply = SyncGroupResponse(
                error_code=error,
                protocol_type=None if failed else group.protocol_type_or_none,
                protocol_name=None if failed else group.protocol_name,
                assignment=shares.get(member.member_id, b""),
            )
            result.complete(member.sync_token, reply)
            member.sync_token = None
            self.keep_alive(member, now)

    # Deadlines

    def on_timer(self, key: TimerKey, group: ClassicGroup, result: CoordinatorResult[Any], now: int) -> None:
        """Run the rule of the deadline `key`."""
        if key.kind == "classic-session":
            self._session_ended(group, key.member_id, result, now)
        elif key.kind == "classic-join" and group.state is PREPARING_REBALANCE:
            if group.initial_delay is not None:
                self._continue_initial_delay(group, *group.initial_delay, result, now)
            else:
                self.complete_join(group, result, now)
        elif key.kind == "classic-sync" and group.state in (COMPLETING_REBALANCE, STABLE) and group.pending_syncs:
            # The members without a SyncGroup in the generation go.
            for member_id in list(group.pending_syncs):
                self._remove(group, member_id)
            self.prepare(group, result, now)

    def _session_ended(self, group: ClassicGroup, member_id: str, result: CoordinatorResult[Any], now: int) -> None:
        member = group.members.get(member_id)
        if member is None:
            if member_id not in group.pending_joins:
                return
        elif not member.is_new and (member.join_token is not None or member.sync_token is not None):
            return  # the member's session starts anew with the answer
        elif member.join_token is not None:  # the first join of a member that may still be there: it can join anew
            token = group.end_join(member)
            result.complete(token, join_refusal(ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER))
        group.remove(member_id)
        if member is not None and group.state in (STABLE, COMPLETING_REBALANCE):
            self.prepare_or_complete(group, result, now)
        elif group.state is PREPARING_REBALANCE and group.all_joined:
            self.complete_join(group, result, now)


def described_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """Return the description of all members for the leader."""
    return [
        JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata(group.protocol_name))
        for member in group.members.values()
    ]


def generation_reply(
    group: ClassicGroup, member: ClassicGroupMember, members: list[JoinGroupResponseMember], leader: str | None = None
) -> JoinGroupResponse:
    """Return the current generation as an answer to JoinGroup."""
    return JoinReply(
        generation_id=group.generation,
        protocol_type=group.protocol_type_or_none,
        protocol_name=group.protocol_name,
        leader=leader if leader is not None else group.leader or "",
        member_id=member.member_id,
        members=members,
    )


# A JoinGroup and its refusal, versions 0 to 9


MEMBER_ID_REQUIRED_FROM = 4
NO_PROTOCOL_FROM = 7
SKIP_ASSIGNMENT_FROM = 9


class Join:
    """A JoinGroup request on the way: the caller, the request, and where to put the answer."""

    __slots__ = ("caller", "now", "protocols", "rebalance_timeout_ms", "request", "result", "token")

    def __init__(
        self, caller: Caller, request: JoinGroupRequest, token: Token, now: int, result: CoordinatorResult[Any]
    ) -> None:
        self.caller = caller
        self.request = request
        self.token = token
        self.now = now
        self.result = result
        # Copied out of the connection's buffer.
        self.protocols: Protocols = [(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]
        # Version 0 has one timeout for session and rebalance.
        self.rebalance_timeout_ms = request.session_timeout_ms if caller.version == 0 else request.rebalance_timeout_ms

    def refuse(self, error: ErrorCode, member_id: str) -> None:
        self.result.reply = join_refusal(error, member_id)


class JoinReply(JoinGroupResponse):
    """An answer to JoinGroup. An empty name of a protocol, as in a refusal, is null in versions that have null."""

    __slots__ = ()

    def write(self, version: int, w: Write) -> None:
        if not self.protocol_name:
            self.protocol_name = None if version >= NO_PROTOCOL_FROM else ""
        super().write(version, w)


def join_refusal(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Return a JoinGroup answer with nothing but an error."""
    return JoinReply(error_code=error, member_id=member_id)


def refuse_waiting(
    group: ClassicGroup, member: ClassicGroupMember, result: CoordinatorResult[Any], error: ErrorCode
) -> None:
    """Answer the waiting requests of a member with an error."""
    token = group.end_join(member)
    if token is not None:
        result.complete(token, join_refusal(error, member.member_id))
    if member.sync_token is not None:
        result.complete(member.sync_token, SyncGroupResponse(error_code=error))
        member.sync_token = None


# The protocol


class ClassicProtocol(ClassicRebalance):
    """All requests and deadlines of classic groups."""

    # JoinGroup

    def join(self, group: ClassicGroup | None, join: Join) -> None:
        """Decide a JoinGroup and leave the outcome in `join.result`. group: None if the group does not exist yet."""
        request = join.request
        created, written = group is None, len(join.result.records)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER:
                join.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
                return
            group = ClassicGroup(request.group_id, join.now, wall_at=self._table.wall_at)
            self._table.groups[request.group_id] = group
        group.live = True
        self._decide_join(group, join)
        if created and len(join.result.records) == written:
            join.result.records.append(empty_group_record(group))

    def _decide_join(self, group: ClassicGroup, join: Join) -> None:
        """Leave the answer, or the changes, in `join.result`."""
        member_id = join.request.member_id
        if not self._has_room(group, member_id):
            self._remove(group, member_id)
            join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER)
        elif member_id == UNKNOWN_MEMBER:
            self._join_new(group, join)
        else:
            self._join_existing(group, join)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._table.config.group_max_size
        if group.state is EMPTY:
            return True
        if group.state is PREPARING_REBALANCE:
            # All members have to join again: the first members to come get the places.
            member = group.members.get(member_id)
            return (member is not None and member.join_token is not None) or group.awaiting_join < limit
        return member_id in group.members or len(group.members) < limit

    # JoinGroup without a member id

    def _join_new(self, group: ClassicGroup, join: Join) -> None:
        request = join.request
        if not group.supports(request.protocol_type, [name for name, _ in join.protocols]):
            join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER)
            return
        instance_id = request.group_instance_id
        member_id = f"{join.caller.client_id if instance_id is None else instance_id}-{self._table.new_id()}"
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is None:
                self._add(group, join, member_id)
            else:
                self._replace_static(group, join, old_id, member_id)
        elif join.caller.version >= MEMBER_ID_REQUIRED_FROM:
            group.pending_joins.add(member_id)
            self._timers.set_session(group, member_id, join.now + request.session_timeout_ms)
            join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(group, join, member_id)

    def _add(self, group: ClassicGroup, join: Join, member_id: str) -> None:
        request = join.request
        member = ClassicGroupMember(
            group.group_id,
            member_id,
            request.group_instance_id,
            join.caller.client_id,
            join.caller.client_host,
            join.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            join.protocols,
        )
        member.is_new = True
        if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
            group.new_member_added = True
        group.add(member, join.token)
        self.keep_alive(member, join.now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.prepare_or_complete(group, join.result, join.now)

    def _replace_static(self, group: ClassicGroup, join: Join, old_id: str, member_id: str) -> None:
        """Take back a static member after a restart.

        If nothing but its member id has changed, the group stays as it is.
        """
        leader_before = group.leader
        old, member = group.replace_static(old_id, member_id)
        refuse_waiting(group, old, join.result, ErrorCode.FENCED_INSTANCE_ID)
        self._timers.cancel(old.session_key)
        self.keep_alive(member, join.now)
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.request.session_timeout_ms, join.token)
        if group.state is STABLE and group.select_protocol() == group.protocol_name:
            join.result.records.append(group_metadata_record(group, group.assignments()))
            join.result.complete(group.end_join(member), self._unchanged(group, member, join, leader_before))
        elif group.state is PREPARING_REBALANCE:
            self.complete_join_if_all_are_here(group, join.result, join.now)
        else:
            # The leader computes shares for the old member id: the new member id gets a share only in a new round.
            self.prepare(group, join.result, join.now)

    def _unchanged(
        self, group: ClassicGroup, member: ClassicGroupMember, join: Join, leader_before: str | None
    ) -> JoinGroupResponse:
        if join.caller.version < SKIP_ASSIGNMENT_FROM:
            # Under the old leader's id, so a returning leader does not compute an assignment in vain.
            return generation_reply(group, member, [], leader_before)
        leads = member.member_id == group.leader
        reply = generation_reply(group, member, described_members(group) if leads else [])
        reply.skip_assignment = leads
        return reply

    # JoinGroup with a member id

    def _join_existing(self, group: ClassicGroup, join: Join) -> None:
        request = join.request
        member_id = request.member_id
        if not group.supports(request.protocol_type, [name for name, _ in join.protocols]):
            join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif member_id in group.pending_joins:
            self._add(group, join, member_id)
        else:
            try:
                group.check_member(member_id, request.group_instance_id)
            except ApiError as error:
                join.refuse(error.code, member_id)
                return
            self._rejoin(group, join, group.members[member_id])

    def _rejoin(self, group: ClassicGroup, join: Join, member: ClassicGroupMember) -> None:
        leads = member.member_id == group.leader
        changed = join.protocols != member.protocols
        if group.state is PREPARING_REBALANCE or (
            (changed and group.state is COMPLETING_REBALANCE)
            # A leader that joins again asks for a new assignment: the topics may have changed.
            or (group.state is STABLE and (changed or leads))
        ):
            group.update(member, join.protocols, join.rebalance_timeout_ms, join.request.session_timeout_ms, join.token)
            self.prepare_or_complete(group, join.result, join.now)
        elif group.state in (COMPLETING_REBALANCE, STABLE):  # the member has missed the answer to its join
            join.result.reply = generation_reply(group, member, described_members(group) if leads else [])
        else:
            join.refuse(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id)

    def note_commit(self, group: ClassicGroup, member_id: str, now: int) -> None:
        """Start the session of a member anew, if the group has the member."""
        member = group.members.get(member_id)
        if member is not None:
            self.keep_alive(member, now)

    # SyncGroup

    def sync(
        self, group: ClassicGroup, request: SyncGroupRequest, token: Token, result: CoordinatorResult[Any], now: int
    ) -> None:
        """Take in the leader's shares for all members, or let the request wait for the shares. Raises ApiError."""
        self._check_sync(group, request)
        member = group.members[request.member_id]
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            self._timers.cancel(group.sync_key)
        if group.state is STABLE:
            result.reply = SyncGroupResponse(
                protocol_type=group.protocol_type_or_none,
                protocol_name=group.protocol_name,
                assignment=member.assignment,
            )
            return
        member.sync_token = token
        if member.member_id == group.leader:
            shares = {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments}
            assignments = {member_id: shares.get(member_id, b"") for member_id in group.members}
            result.records.append(group_metadata_record(group, assignments))
            # The group is stable once the record is replayed.
            self.answer_syncs(group, assignments, result, now)

    def _check_sync(self, group: ClassicGroup, request: SyncGroupRequest) -> None:
        if group.state is EMPTY:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if _differs(request.protocol_type, group.protocol_type_or_none) or _differs(
            request.protocol_name, group.protocol_name
        ):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is PREPARING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    # Heartbeat

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest, now: int) -> ErrorCode:
        """Keep the member alive; REBALANCE_IN_PROGRESS in the join phase makes the member join again.

        Raises ApiError: The refusal of the request.
        """
        member = group.members.get(request.member_id)
        if member is None or request.group_instance_id is not None:
            group.check_member(request.member_id, request.group_instance_id)
            member = group.members[request.member_id]
        if request.generation_id != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        if group.state is EMPTY:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        self.keep_alive(member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else ErrorCode.NONE

    # LeaveGroup

    def leave(self, group: ClassicGroup, request: LeaveGroupRequest, result: CoordinatorResult[Any], now: int) -> None:
        """Remove members separately, then rebalance once. An administrator names instance ids with no member id."""
        members = [
            MemberResponse(
                identity.member_id, identity.group_instance_id, self._remove_leaving(group, identity, result)
            )
            for identity in request.members
        ]
        if any(member.error_code == ErrorCode.NONE for member in members):
            if group.state in (STABLE, COMPLETING_REBALANCE):
                self.prepare_or_complete(group, result, now)
            elif group.state is PREPARING_REBALANCE:
                self.complete_join_if_all_are_here(group, result, now)
        result.reply = LeaveGroupResponse(members=members)

    def _remove_leaving(
        self, group: ClassicGroup, identity: MemberIdentity, result: CoordinatorResult[Any]
    ) -> ErrorCode:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if member_id == UNKNOWN_MEMBER:
            current = None if instance_id is None else group.static_members.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = current
        elif member_id not in group.pending_joins:
            try:
                group.check_member(member_id, instance_id)
            except ApiError as error:
                return error.code
        member = group.members.get(member_id)
        token = None if member is None else group.end_join(member)
        if token is not None:
            result.complete(token, join_refusal(ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER))
        self._remove(group, member_id)
        return ErrorCode.NONE

    # Records and load

    def replay(self, group_id: str, value: GroupMetadataValue | None, now: int) -> None:
        """Make the group match the record. Of a live group's own record only the shares are news."""
        group = self._table.groups.get(group_id)
        if value is None:
            if isinstance(group, ClassicGroup):
                self._table.remove(group_id)
        elif isinstance(group, ClassicGroup) and group.live:
            if group.state is COMPLETING_REBALANCE and group.generation == value.generation:
                for stored_member in value.members:
                    group.members[stored_member.member_id].assignment = stored_member.assignment
                group.move_to(STABLE, now)
        else:
            self._table.groups[group_id] = restored(group_id, value, now, self._table.wall_at)

    def reject_waiting(self, group: ClassicGroup, result: CoordinatorResult[Any]) -> None:
        """Answer all waiting requests with NOT_COORDINATOR."""
        for member in group.members.values():
            refuse_waiting(group, member, result, ErrorCode.NOT_COORDINATOR)

    def on_loaded(self, group: ClassicGroup, result: CoordinatorResult[Any], now: int) -> None:
        """Begin the sessions after a load: members have a full session to come back."""
        group.live = True
        for member in group.members.values():
            self.keep_alive(member, now)
        if len(group.members) > self._table.config.group_max_size:
            self.prepare(group, result, now)


def _differs(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known
