"""LeaveGroup v0-v5.

Behaviour: each member is removed and answered by itself; an administrator removes static members by instance id alone.
Versions: 3 a list of members (KIP-345), 5 a reason (KIP-800). Before 3 there is one member and its error is the whole
answer's.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, then
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.leave_group_response import LeaveGroupResponse

MEMBERS_FROM = 3


@handles(ApiKey.LEAVE_GROUP)
def leave_group(services: Services, context: RequestContext, request: LeaveGroupRequest) -> Answer[LeaveGroupResponse]:
    if not services.allows(context, AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    host, now = services.groups, context.now
    if context.api_version < MEMBERS_FROM:
        request.members = [MemberIdentity(request.member_id)]
    error = host.refusal(request.group_id)
    if error is not ErrorCode.NONE and request.group_id:
        return LeaveGroupResponse(error_code=error)
    answer = host.answer(request.group_id, host.coordinator.leave(request, now))
    return then(answer, _of_the_only_one) if context.api_version < MEMBERS_FROM else answer


def _of_the_only_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=response.members[0].error_code) if response.members else response
