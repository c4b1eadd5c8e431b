"""JoinGroup v0-v9.

Behaviour: waits until the join phase of the group closes; the leader is told everybody's subscription.
Versions: 0 has one timeout, 4 asks dynamic members to come back with the id they are given (KIP-394), 5 static members
(KIP-345), 7 the protocol type in the answer, 8 a reason (KIP-800), 9 skip-assignment (KIP-814).
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, Future
from pykafka_broker.coordinators.groups.classic import join_refusal
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.join_group_request import JoinGroupRequest
from pykafka_broker.protocol.messages.join_group_response import JoinGroupResponse

_NO_PROTOCOL_FROM = 7


@handles(ApiKey.JOIN_GROUP)
def join_group(services: Services, context: RequestContext, request: JoinGroupRequest) -> Answer[JoinGroupResponse]:
    if not services.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        protocol_name = None if context.api_version >= _NO_PROTOCOL_FROM else ""
        return JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, protocol_name=protocol_name)
    host, now = services.groups, context.now
    error = host.refusal(request.group_id)
    if error is not ErrorCode.NONE and request.group_id:
        return join_refusal(error, request.member_id)
    later: Future[JoinGroupResponse] = Future()
    effects = host.coordinator.join(request, host.caller(context, services.who_may_see(context)), later, now)
    host.heard(context, request.group_id, request.member_id)
    return host.answer(request.group_id, effects, later)
