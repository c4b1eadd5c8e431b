"""ConsumerGroupHeartbeat v0-v1 (KIP-848).

Behaviour: epoch 0 joins, -1 leaves, -2 leaves for a while; the answer carries an assignment when there is a new one.
Versions: 1 patterns (`SubscribedTopicRegex`), and member ids that the client chooses.
"""

from __future__ import annotations

from pykafka_broker.broker.api.group_protocols import heartbeat_refusal, may_name, offers, verdict
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting import Answer
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from pykafka_broker.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_group_heartbeat(
    services: Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Answer[ConsumerGroupHeartbeatResponse]:
    error = heartbeat_refusal(services, offers(services, "consumer"), request.group_id)
    if error is not ErrorCode.NONE:
        return ConsumerGroupHeartbeatResponse(error_code=error)
    services.authorise(context, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    may_name(services, context, request.subscribed_topic_names or [])
    host = services.groups
    caller = host.caller(context, services.who_may_see(context))
    effects = host.coordinator.consumer_heartbeat(request, caller, services.clock.now)
    effects.reply.error_code = verdict(services, effects.reply.error_code, request.member_epoch)
    answer = host.answer(request.group_id, effects)
    host.heard(context, request.group_id, effects.reply.member_id or request.member_id)
    return answer
