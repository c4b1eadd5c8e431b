"""Heartbeat v0-v4.

Behaviour: keeps a member alive and tells it of a rebalance; while the group is being loaded everything is fine.
Versions: 3 static members (KIP-345).
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, when_committed
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.heartbeat_request import HeartbeatRequest
from pykafka_broker.protocol.messages.heartbeat_response import HeartbeatResponse


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
    return when_committed(HeartbeatResponse(error_code=error), host.committed(request.group_id))
