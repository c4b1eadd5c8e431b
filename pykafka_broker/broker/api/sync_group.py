"""SyncGroup v0-v5.

Behaviour: the leader's request brings everybody's share; the others' wait for it. From version 5 protocol type and name
must be there and be the group's.
Versions: 3 static members (KIP-345), 5 protocol type and name (KIP-559).
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer, Future
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.sync_group_request import SyncGroupRequest
from pykafka_broker.protocol.messages.sync_group_response import SyncGroupResponse

PROTOCOL_REQUIRED_FROM = 5


@handles(ApiKey.SYNC_GROUP)
def sync_group(services: Services, context: RequestContext, request: SyncGroupRequest) -> Answer[SyncGroupResponse]:
    if context.api_version >= PROTOCOL_REQUIRED_FROM and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    host, now = services.groups, context.now
    error = host.refusal(request.group_id)
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        # The generation that it asks about is lost: the client has to join again.
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error is not ErrorCode.NONE and request.group_id:
        return SyncGroupResponse(error_code=error)
    host.heard(context, request.group_id, request.member_id)
    later: Future[SyncGroupResponse] = Future()
    return host.answer(request.group_id, host.coordinator.sync(request, later, now), later)
