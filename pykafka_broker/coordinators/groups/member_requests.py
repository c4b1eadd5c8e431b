"""The requests of members of classic and consumer groups, by the kind of group that they meet.

Rule: an empty group of another kind makes way for a new one. Classic requests go to classic groups, and to consumer
groups that classic members may join (KIP-848). A ConsumerGroupHeartbeat converts a classic group with members if the
migration policy allows it; a group of any other kind is as good as missing.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.effects import Effects, R, Token
from pykafka_broker.coordinators.groups.classic import ClassicProtocol, Join, join_refusal
from pykafka_broker.coordinators.groups.classic_group import ClassicGroup, group_tombstone
from pykafka_broker.coordinators.groups.consumer import ConsumerProtocol
from pykafka_broker.coordinators.groups.consumer_classic import ClassicMembers, Migration
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup
from pykafka_broker.coordinators.groups.epoch_group import JOIN_EPOCH
from pykafka_broker.coordinators.groups.group import UNKNOWN_MEMBER, Caller, Group, GroupTable
from pykafka_broker.coordinators.groups.records import group_tombstones
from pykafka_broker.coordinators.streams.group import StreamsGroup
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest
from pykafka_broker.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse


class ClassicRequests:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

    def __init__(self, table: GroupTable, classic: ClassicProtocol, members: ClassicMembers) -> None:
        self._table = table
        self._classic = classic
        self._members = members

    def join(
        self, request: JoinGroupRequest, caller: Caller, token: Token, now: int
    ) -> Effects[JoinGroupResponse | None]:
        """JoinGroup. Without a reply the request waits under `token`."""
        effects: Effects[JoinGroupResponse | None] = Effects(key=request.group_id)
        join = Join(caller, request, token, now, effects)
        group = self._table.groups.get(request.group_id)
        try:
            self._check_join(request)
            if isinstance(group, ConsumerGroup) and not group.is_empty:
                self._members.join(group, join)
            elif group is None or isinstance(group, ClassicGroup):
                self._classic.join(group, join)
            elif isinstance(group, ConsumerGroup | StreamsGroup) and group.is_empty:
                if request.member_id == UNKNOWN_MEMBER:  # any other is refused, and the group stays what it is
                    effects.records += group_tombstones(group)
                self._classic.join(None, join)
            else:
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        except ApiError as error:
            # As Kafka has it: the refusal of a group of another protocol does not repeat the member's id.
            is_classic = isinstance(group, ClassicGroup | None) or error.code is ErrorCode.INVALID_SESSION_TIMEOUT
            member_id = request.member_id if is_classic else UNKNOWN_MEMBER
            return Effects(join_refusal(error.code, member_id), key=request.group_id)
        return _own_reply(effects, token)

    def _check_join(self, request: JoinGroupRequest) -> None:
        config = self._table.config
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        if not (
            config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms
        ):
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def sync(self, request: SyncGroupRequest, token: Token, now: int) -> Effects[SyncGroupResponse | None]:
        """SyncGroup. Without a reply the request waits under `token`."""
        effects: Effects[SyncGroupResponse | None] = Effects(key=request.group_id)
        group = self._table.groups.get(request.group_id)
        try:
            if not request.group_id:
                raise ApiError(ErrorCode.INVALID_GROUP_ID)
            if isinstance(group, ClassicGroup):
                self._classic.sync(group, request, token, effects, now)
            elif isinstance(group, ConsumerGroup):
                self._members.sync(group, request, effects, now)
            else:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        except ApiError as error:
            return Effects(SyncGroupResponse(error_code=error.code), key=request.group_id)
        return _own_reply(effects, token)

    def heartbeat(self, request: HeartbeatRequest, now: int) -> ErrorCode:
        """Heartbeat; it never writes and never waits."""
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._table.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self._classic.heartbeat(group, request, now)
        if isinstance(group, ConsumerGroup):
            try:
                return self._members.heartbeat(group, request, now)
            except ApiError as error:
                return error.code
        return ErrorCode.UNKNOWN_MEMBER_ID

    def leave(self, request: LeaveGroupRequest, now: int) -> Effects[LeaveGroupResponse]:
        """LeaveGroup, in the form of version 3 and newer: a list of members."""
        effects: Effects[LeaveGroupResponse] = Effects(key=request.group_id)
        group = self._table.groups.get(request.group_id)
        if not request.group_id:
            effects.reply = LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        elif isinstance(group, ClassicGroup):
            self._classic.leave(group, request, effects, now)
        elif isinstance(group, ConsumerGroup):
            self._members.leave(group, request, effects, now)
        else:
            unknown = [
                MemberResponse(one.member_id, one.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID)
                for one in request.members
            ]
            effects.reply = LeaveGroupResponse(members=unknown)
        return effects


def _own_reply(effects: Effects[R | None], token: Token) -> Effects[R | None]:
    """If the request that has just come in was answered by what it set off, that is its reply."""
    for index, (waiting, reply) in enumerate(effects.completions):
        if waiting is token:
            del effects.completions[index]
            effects.reply = reply
            break
    return effects


class ConsumerRequests:
    """ConsumerGroupHeartbeat (KIP-848)."""

    def __init__(self, table: GroupTable, consumer: ConsumerProtocol, migration: Migration) -> None:
        self._table = table
        self._consumer = consumer
        self._migration = migration

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: int
    ) -> Effects[ConsumerGroupHeartbeatResponse]:
        """Join with epoch 0, go on, or leave with epoch -1 or -2."""
        effects: Effects[ConsumerGroupHeartbeatResponse] = Effects(key=request.group_id)
        try:
            self._consumer.check(request, caller)
            group = self._table.groups.get(request.group_id)
            if request.member_epoch < JOIN_EPOCH:
                if not isinstance(group, ConsumerGroup):
                    raise self._no_group(request.group_id, "Group")
                self._consumer.leave(group, request, effects, now)
            else:
                joins = request.member_epoch == JOIN_EPOCH
                consumer_group = self._group(request.group_id, group, joins, effects, now)
                self._consumer.heartbeat(consumer_group, request, caller, effects, now)
        except ApiError as error:
            reply = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            return Effects(reply, key=request.group_id)
        return effects

    def _group(self, group_id: str, group: Group | None, joins: bool, effects: Effects[Any], now: int) -> ConsumerGroup:
        """The group, or what it will be once somebody has joined."""
        if isinstance(group, ConsumerGroup):
            return group
        if not joins or not (group is None or isinstance(group, ClassicGroup)):
            raise self._no_group(group_id, "Consumer group")
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                return self._migration.upgrade(group, effects, now)
            effects.records.append(group_tombstone(group_id))
        return ConsumerGroup(group_id)

    def _no_group(self, group_id: str, what: str) -> ApiError:
        if group_id in self._table.groups:
            return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")
