"""AllocateProducerIds v0: what brokers ask of their controller.

Behaviour: the decisions stand in `cluster/`; who asks needs the right to CLUSTER_ACTION.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.controller_routes import CONTROLLERS
from pykafka_broker.broker.router import handles
from pykafka_broker.cluster import producer_ids
from pykafka_broker.cluster.authorizer import Operation, Resource, Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse


@handles(ApiKey.ALLOCATE_PRODUCER_IDS, CONTROLLERS)
def allocate(
    controller: Controller, context: RequestContext, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    Rights(controller.authorizer, context).require(Operation.CLUSTER_ACTION, Resource.CLUSTER)
    return producer_ids.allocate_producer_ids(controller, request)
