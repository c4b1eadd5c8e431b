"""BrokerRegistration v0-v4, BrokerHeartbeat v0-v2 and ControllerRegistration v0 (KIP-631, KIP-919).

Behaviour: `cluster/registration.py` and `cluster/heartbeats.py` decide; who asks needs the right to CLUSTER_ACTION.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.controller_routes import CONTROLLERS
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer
from pykafka_broker.cluster import registration
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from pykafka_broker.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from pykafka_broker.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from pykafka_broker.protocol.messages.controller_registration_response import ControllerRegistrationResponse


@handles(ApiKey.BROKER_REGISTRATION, CONTROLLERS)
def register_broker(
    services: Services, context: RequestContext, request: BrokerRegistrationRequest
) -> Answer[BrokerRegistrationResponse]:
    services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    role = services.active_controller

    def decide(
        controller: Controller, context: RequestContext, request: BrokerRegistrationRequest
    ) -> Decision[BrokerRegistrationResponse]:
        return role.register_broker(controller, request)

    return services.metadata.submit(context, request, decide)


@handles(ApiKey.BROKER_HEARTBEAT, CONTROLLERS)
def heartbeat(
    services: Services, context: RequestContext, request: BrokerHeartbeatRequest
) -> Answer[BrokerHeartbeatResponse]:
    services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    role = services.active_controller

    def decide(
        controller: Controller, context: RequestContext, request: BrokerHeartbeatRequest
    ) -> Decision[BrokerHeartbeatResponse]:
        return role.heartbeat(controller, request)

    return services.metadata.submit(context, request, decide)


@handles(ApiKey.CONTROLLER_REGISTRATION, CONTROLLERS)
def register_controller(
    services: Services, context: RequestContext, request: ControllerRegistrationRequest
) -> Answer[ControllerRegistrationResponse]:
    services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)

    def decide(
        controller: Controller, context: RequestContext, request: ControllerRegistrationRequest
    ) -> Decision[ControllerRegistrationResponse]:
        return registration.register_controller(controller, request)

    return services.metadata.submit(context, request, decide)
