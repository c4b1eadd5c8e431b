"""The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup on groups of type classic.

Rule: whatever a member may not do is answered with Kafka's error and changes nothing. A missing group is an unknown
member to all of these but a JoinGroup without member id, which makes the group.
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
)
from pykafka_broker.coordinators.groups.classic_join import ClassicJoin, Join, refusal
from pykafka_broker.coordinators.groups.classic_rebalance import ClassicRebalance
from pykafka_broker.coordinators.groups.group import UNKNOWN_MEMBER, GroupTable, TimerKey, WallAt, unchanged
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse
from pykafka_broker.protocol.stored.group_metadata_value import GroupMetadataValue


class ClassicProtocol:
    """All requests and deadlines of classic groups."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self.rebalance = ClassicRebalance(table)
        self._join = ClassicJoin(table, self.rebalance)

    # JoinGroup

    def join(self, group: ClassicGroup | None, join: Join) -> None:
        """`group` None: there is none yet."""
        request = join.request
        created, written = group is None, len(join.effects.records)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER:
                join.effects.reply = refusal(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
                return
            group = ClassicGroup(request.group_id, join.now, wall_at=self._table.wall_at)
            self._table.groups[request.group_id] = group
        self._join.join(group, join)
        if created and len(join.effects.records) == written:
            join.effects.records.append(stored.empty_group_metadata(group))

    def keep_alive(self, group: ClassicGroup, member_id: str, now: int) -> None:
        """Start the member's session anew, if it is one."""
        member = group.members.get(member_id)
        if member is not None:
            self.rebalance.keep_alive(member, now)

    # SyncGroup

    def sync(
        self, group: ClassicGroup, request: SyncGroupRequest, token: Token, effects: Effects[Any], now: int
    ) -> None:
        """The leader's request carries everybody's share; the others' wait for it."""
        error = self._sync_error(group, request)
        if error is not ErrorCode.NONE:
            effects.reply = SyncGroupResponse(error_code=error)
            return
        member = group.members[request.member_id]
        self.rebalance.synced(group, member.member_id)
        if group.state is STABLE:
            effects.reply = SyncGroupResponse(
                protocol_type=group.protocol_type_or_none,
                protocol_name=group.protocol_name,
                assignment=member.assignment,
            )
            return
        member.sync_token = token
        if member.member_id == group.leader:
            shares = {one.member_id: bytes(one.assignment) for one in request.assignments}
            assignments = {member_id: shares.get(member_id, b"") for member_id in group.members}
            effects.records.append(stored.group_metadata(group, assignments))
            self.rebalance.share_out(
                group, assignments, effects, now
            )  # the group is stable once the record is replayed

    def _sync_error(self, group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
        if group.state is EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        try:
            group.check_member(request.member_id, request.group_instance_id)
        except ApiError as error:
            return error.code
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if _differs(request.protocol_type, group.protocol_type_or_none) or _differs(
            request.protocol_name, group.protocol_name
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # Heartbeat

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest, now: int) -> ErrorCode:
        """Keep the member alive; during the join phase this is how it learns that it has to join again."""
        member = group.members.get(request.member_id)
        if member is None or request.group_instance_id is not None:
            try:
                group.check_member(request.member_id, request.group_instance_id)
            except ApiError as error:
                return error.code
            member = group.members[request.member_id]
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is EMPTY or group.state is DEAD:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.rebalance.keep_alive(member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else ErrorCode.NONE

    # LeaveGroup

    def leave(self, group: ClassicGroup, request: LeaveGroupRequest, effects: Effects[Any], now: int) -> None:
        """Remove members one by one, then rebalance once. An administrator names instance ids with no member id."""
        if group.state is DEAD:
            effects.reply = LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        members = [
            MemberResponse(one.member_id, one.group_instance_id, self._leave_one(group, one, effects))
            for one in request.members
        ]
        if any(member.error_code == ErrorCode.NONE for member in members):
            if group.state in (STABLE, COMPLETING_REBALANCE):
                self.rebalance.prepare_or_complete(group, effects, now)
            elif group.state is PREPARING_REBALANCE:
                self.rebalance.complete_join_if_all_are_here(group, effects, now)
        effects.reply = LeaveGroupResponse(members=members)

    def _leave_one(self, group: ClassicGroup, identity: MemberIdentity, effects: Effects[Any]) -> ErrorCode:
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
        self._table.timers.cancel(TimerKey("classic-session", group.group_id, member_id))
        member = group.members.get(member_id)
        token = None if member is None else group.wait_for_join(member, None)
        if token is not None:
            effects.complete(token, refusal(ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER))
        group.remove(member_id)
        return ErrorCode.NONE

    # Records and load

    def replay(self, group_id: str, value: GroupMetadataValue | None, now: int) -> None:
        """Make the group what the record says. A live group hears its own record: of that only the shares are news."""
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

    def send_away(self, group: ClassicGroup, effects: Effects[Any]) -> None:
        """Tell whoever waits that the coordinator is elsewhere."""
        for member in group.members.values():
            if member.join_token is not None:
                effects.complete(member.join_token, refusal(ErrorCode.NOT_COORDINATOR, member.member_id))
            if member.sync_token is not None:
                effects.complete(member.sync_token, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))

    def on_loaded(self, group: ClassicGroup, effects: Effects[Any], now: int) -> None:
        """The log has been read: members have a full session to come back in."""
        group.live = True
        for member in group.members.values():
            self.rebalance.keep_alive(member, now)
        if len(group.members) > self._table.config.group_max_size:
            self.rebalance.prepare(group, effects, now)


def restored(group_id: str, value: GroupMetadataValue, now: int, wall_at: WallAt = unchanged) -> ClassicGroup:
    """The group that a GroupMetadata record describes: stable with members, else empty."""
    group = ClassicGroup(group_id, now, STABLE if value.members else EMPTY, wall_at=wall_at)
    group.live = False
    group.state_since = None if value.current_state_timestamp == -1 else value.current_state_timestamp
    group.generation = value.generation
    group.protocol_type_or_none = value.protocol_type or None
    group.protocol_name = value.protocol
    for stored_member in value.members:
        member = ClassicMember(
            group_id,
            stored_member.member_id,
            stored_member.group_instance_id,
            stored_member.client_id,
            stored_member.client_host,
            # Version 0 had one timeout for both.
            stored_member.session_timeout if stored_member.rebalance_timeout == -1 else stored_member.rebalance_timeout,
            stored_member.session_timeout,
            value.protocol_type,
            [(value.protocol or "", stored_member.subscription)],
        )
        member.assignment = stored_member.assignment
        group.restore(member)
    group.leader = value.leader
    group.subscribed = group.compute_subscribed()
    return group


def _differs(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known
