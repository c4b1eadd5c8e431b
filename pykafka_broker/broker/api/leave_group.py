"""LeaveGroup v0-v5.

Behaviour: each member is removed and answered by itself; an administrator removes static members by instance id alone.
Versions: 3 a list of members (KIP-345), 5 a reason (KIP-800). Before 3 there is one member and its error is the whole
answer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from pykafka_broker.protocol.messages.leave_group_response import LeaveGroupResponse

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker

MEMBERS_FROM = 3


@handles(ApiKey.LEAVE_GROUP)
def leave_group(broker: Broker, context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    host, now = broker.groups, context.now
    if context.api_version < MEMBERS_FROM:
        request.members = [MemberIdentity(request.member_id)]
    error = host.refusal(request.group_id, now)
    if error is not ErrorCode.NONE and request.group_id:
        return LeaveGroupResponse(error_code=error)
    reply: LeaveGroupResponse = host.answer(host.coordinator.leave(request, now), now)
    if context.api_version < MEMBERS_FROM and reply.members:
        return LeaveGroupResponse(error_code=reply.members[0].error_code)
    return reply
