"""ElectLeaders v0-v2 (KIP-183, KIP-460).

Behaviour: the controller decides partition by partition. Where none is named all are meant, and the answer has those
partitions for which it was needed. Versions: 1 unclean elections and an error of the whole.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.elections import elect_leaders as decide
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.elect_leaders_response import ElectLeadersResponse


@handles(ApiKey.ELECT_LEADERS)
def elect_leaders(
    controller: Controller, context: RequestContext, request: ElectLeadersRequest
) -> Decision[ElectLeadersResponse]:
    Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    return decide(controller, request)
