"""JoinGroup, versions 0 to 9, for classic groups.

Rule: a request is answered at once where it can't change the group; otherwise it waits in its member until the join
phase closes. From version 4 a dynamic member first gets an id and comes back with it (KIP-394); from 5 there are
static members (KIP-345); from 9 a static leader that returns is told to leave the assignment as it is (KIP-814).
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.effects import Effects, Token
from pykafka_broker.coordinators.groups import stored
from pykafka_broker.coordinators.groups.classic_group import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
    ClassicMember,
    Protocols,
    protocols_of,
)
from pykafka_broker.coordinators.groups.classic_rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    ClassicRebalance,
    described_members,
    generation_reply,
)
from pykafka_broker.coordinators.groups.group import UNKNOWN_MEMBER, Caller, GroupTable, TimerKey
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse
from pykafka_broker.protocol.runtime import Write

MEMBER_ID_REQUIRED_FROM = 4
NO_PROTOCOL_FROM = 7
SKIP_ASSIGNMENT_FROM = 9


class Join:
    """One JoinGroup request on its way: who asks, what for, and where the answer goes."""

    __slots__ = ("caller", "effects", "now", "protocols", "rebalance_timeout_ms", "request", "token")

    def __init__(
        self, caller: Caller, request: JoinGroupRequest, token: Token, now: int, effects: Effects[Any]
    ) -> None:
        self.caller = caller
        self.request = request
        self.token = token
        self.now = now
        self.effects = effects
        self.protocols: Protocols = protocols_of(request.protocols)
        # Version 0 knows one timeout for both.
        self.rebalance_timeout_ms = request.session_timeout_ms if caller.version == 0 else request.rebalance_timeout_ms

    def refuse(self, error: ErrorCode, member_id: str) -> None:
        self.effects.reply = refusal(error, member_id)


class Refusal(JoinGroupResponse):
    """It has no protocol, which only newer versions can say."""

    __slots__ = ()

    def write(self, version: int, w: Write) -> None:
        self.protocol_name = None if version >= NO_PROTOCOL_FROM else ""
        super().write(version, w)


def refusal(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A JoinGroup answer that carries nothing but an error."""
    return Refusal(error_code=error, member_id=member_id)


class ClassicJoin:
    """The rules for JoinGroup."""

    def __init__(self, table: GroupTable, rebalance: ClassicRebalance) -> None:
        self._table = table
        self._rebalance = rebalance

    def join(self, group: ClassicGroup, join: Join) -> None:
        """Leave the answer, or the changes, in `join.effects`."""
        member_id = join.request.member_id
        if not self._has_room(group, member_id):
            group.remove(member_id)
            join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER)
        elif member_id == UNKNOWN_MEMBER:
            self._join_new(group, join)
        else:
            self._join_existing(group, join)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self._table.config.group_max_size
        if group.state in (EMPTY, DEAD):
            return True
        if group.state is PREPARING_REBALANCE:
            # Everybody has to join again: the first ones to come have the places.
            member = group.members.get(member_id)
            return (member is not None and member.join_token is not None) or group.awaiting_join < limit
        return member_id in group.members or len(group.members) < limit

    # Members without an id

    def _join_new(self, group: ClassicGroup, join: Join) -> None:
        request = join.request
        if group.state is DEAD:
            join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER)
            return
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
            key = TimerKey("classic-session", group.group_id, member_id)
            self._table.timers.set(key, join.now + request.session_timeout_ms)
            join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(group, join, member_id)

    def _add(self, group: ClassicGroup, join: Join, member_id: str) -> None:
        request = join.request
        member = ClassicMember(
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
        self._rebalance.keep_alive(member, join.now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance.prepare_or_complete(group, join.effects, join.now)

    def _replace_static(self, group: ClassicGroup, join: Join, old_id: str, member_id: str) -> None:
        """A static member is back after a restart. If nothing but its member id has changed, the group stays as it
        is.
        """
        leader_before = group.leader
        old, member = group.replace_static(old_id, member_id)
        self._fence(group, old, join.effects)
        self._rebalance.end_session(old)
        self._rebalance.keep_alive(member, join.now)
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.request.session_timeout_ms, join.token)
        if group.state is STABLE and group.select_protocol() == group.protocol_name:
            join.effects.records.append(stored.group_metadata(group, group.assignments()))
            join.effects.complete(
                group.wait_for_join(member, None), self._unchanged(group, member, join, leader_before)
            )
        elif group.state is PREPARING_REBALANCE:
            self._rebalance.complete_join_if_all_are_here(group, join.effects, join.now)
        else:
            # While the leader computes shares for the old member id, only a new round can give this one its own.
            self._rebalance.prepare(group, join.effects, join.now)

    def _fence(self, group: ClassicGroup, old: ClassicMember, effects: Effects[Any]) -> None:
        """Whoever still waits under the old member id is told that it has been replaced."""
        if old.join_token is not None:
            group.awaiting_join -= 1
            effects.complete(old.join_token, refusal(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
            old.join_token = None
        if old.sync_token is not None:
            effects.complete(old.sync_token, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
            old.sync_token = None

    def _unchanged(
        self, group: ClassicGroup, member: ClassicMember, join: Join, leader_before: str | None
    ) -> JoinGroupResponse:
        if join.caller.version < SKIP_ASSIGNMENT_FROM:
            # Under the old leader's id, so that a returning leader does not compute an assignment that nobody asked
            # for.
            return generation_reply(group, member, [], leader_before)
        leads = member.member_id == group.leader
        reply = generation_reply(group, member, described_members(group) if leads else [])
        reply.skip_assignment = leads
        return reply

    # Members with an id

    def _join_existing(self, group: ClassicGroup, join: Join) -> None:
        request = join.request
        member_id = request.member_id
        if group.state is DEAD:
            join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
        elif not group.supports(request.protocol_type, [name for name, _ in join.protocols]):
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

    def _rejoin(self, group: ClassicGroup, join: Join, member: ClassicMember) -> None:
        leads = member.member_id == group.leader
        unchanged = join.protocols == member.protocols
        if group.state is PREPARING_REBALANCE:
            self._update(group, join, member)
        elif group.state is COMPLETING_REBALANCE:
            if unchanged:  # it has missed the answer to its join
                join.effects.reply = generation_reply(group, member, described_members(group) if leads else [])
            else:
                self._update(group, join, member)
        elif group.state is STABLE:
            if leads or not unchanged:
                # A leader that joins again asks for a new assignment: the topics may have changed.
                self._update(group, join, member)
            else:
                join.effects.reply = generation_reply(group, member, [])
        else:
            join.refuse(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id)

    def _update(self, group: ClassicGroup, join: Join, member: ClassicMember) -> None:
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.request.session_timeout_ms, join.token)
        self._rebalance.prepare_or_complete(group, join.effects, join.now)
