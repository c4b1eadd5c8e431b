"""Members of groups of the classic protocol: JoinGroup v0-v9, SyncGroup v0-v5, Heartbeat v0-v4, LeaveGroup v0-v5.

JoinGroup: waits until the join phase of the group closes; the leader is told everybody's subscription. Versions: 0 has
one timeout, 4 asks dynamic members to come back with the id they are given (KIP-394), 5 static members (KIP-345), 7 the
protocol type in the answer, 8 a reason (KIP-800), 9 skip-assignment (KIP-814).

SyncGroup: the leader's request brings everybody's assignment; the others' wait for it. From version 5 on protocol type
and name must be given and be the group's. Versions: 3 static members (KIP-345), 5 protocol type and name (KIP-559).

Heartbeat: keeps a member alive and tells of a rebalance; while the group is being loaded everything is fine. Versions:
3 static members (KIP-345).

LeaveGroup: each member is removed and answered by itself; an administrator removes static members by instance id alone.
Versions: 3 a list of members (KIP-345), 5 a reason (KIP-800). Before 3 there is one member, whose error is the error of
the whole answer.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Future, then
from pykafka_broker.coordinators.groups.classic import join_refusal
from pykafka_broker.coordinators.groups.group import UNKNOWN_MEMBER
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.heartbeat_response import HeartbeatResponse
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.leave_group_response import LeaveGroupResponse
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse

_PROTOCOL_REQUIRED_FROM = 5
_MEMBERS_FROM = 3
_READ_GROUP = (AclOperation.READ, AclResourceType.GROUP)


@handles(ApiKey.JOIN_GROUP)
def join_group(services: Services, context: RequestContext, request: JoinGroupRequest) -> Answer[JoinGroupResponse]:
    if not services.allows(context, *_READ_GROUP, request.group_id):
        return join_refusal(ErrorCode.GROUP_AUTHORIZATION_FAILED, UNKNOWN_MEMBER)
    host, now = services.groups, context.now
    error = host.refusal(request.group_id)
    if error is not ErrorCode.NONE and request.group_id:
        return join_refusal(error, request.member_id)
    later: Future[JoinGroupResponse] = Future()
    effects = host.coordinator.join(request, host.caller(context, services.who_may_see(context)), later, now)
    host.heard(context, request.group_id, request.member_id)
    return host.answer(request.group_id, effects, later)


@handles(ApiKey.SYNC_GROUP)
def sync_group(services: Services, context: RequestContext, request: SyncGroupRequest) -> Answer[SyncGroupResponse]:
    if context.api_version >= _PROTOCOL_REQUIRED_FROM and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    services.authorise(context, *_READ_GROUP, request.group_id)
    host, now = services.groups, context.now
    error = host.refusal(request.group_id)
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # The generation of the request is lost: the client has to join again.
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error is not ErrorCode.NONE and request.group_id:
        return SyncGroupResponse(error_code=error)
    host.heard(context, request.group_id, request.member_id)
    later: Future[SyncGroupResponse] = Future()
    return host.answer(request.group_id, host.coordinator.sync(request, later, now), later)


@handles(ApiKey.LEAVE_GROUP)
def leave_group(services: Services, context: RequestContext, request: LeaveGroupRequest) -> Answer[LeaveGroupResponse]:
    if not services.allows(context, *_READ_GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    host, now = services.groups, context.now
    if context.api_version < _MEMBERS_FROM:
        request.members = [MemberIdentity(request.member_id)]
    error = host.refusal(request.group_id)
    if error is not ErrorCode.NONE and request.group_id:
        return LeaveGroupResponse(error_code=error)
    answer = host.answer(request.group_id, host.coordinator.leave(request, now))
    return then(answer, _whole_answer) if context.api_version < _MEMBERS_FROM else answer


def _whole_answer(response: LeaveGroupResponse) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=response.members[0].error_code) if response.members else response


@handles(ApiKey.HEARTBEAT)
def heartbeat(services: Services, context: RequestContext, request: HeartbeatRequest) -> Answer[HeartbeatResponse]:
    services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    host = services.groups
    error = host.refusal(request.group_id) if request.group_id else ErrorCode.NONE
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()
    if error is ErrorCode.NONE:
        error = host.coordinator.heartbeat(request, context.now)
        host.heard(context, request.group_id, request.member_id)
    host.confirm_by_append(request.group_id, error)
    return host.shards.when_committed(HeartbeatResponse(error_code=error), request.group_id)
