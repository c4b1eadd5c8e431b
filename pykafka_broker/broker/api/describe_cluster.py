"""DescribeCluster v0-v2 (KIP-700).

Behaviour: the node list and the cluster's id; fenced brokers only when asked for. Versions: 1 the kind of endpoint
(KIP-919), of which a broker knows only its own: MISMATCHED_ENDPOINT_TYPE for controllers, UNSUPPORTED_ENDPOINT_TYPE for
anything else; 2 fenced brokers (KIP-1073).
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.authorizer import NOT_ASKED
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

_BROKERS, _CONTROLLERS = 1, 2


@handles(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        may_know = services.allows(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER)
        operations = services.authorized_operations(context, AclResourceType.CLUSTER) if may_know else 0
    brokers = services.image.brokers
    nodes = services.nodes(context, fenced=request.include_fenced_brokers)
    return DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        brokers=[DescribeClusterBroker(*node, brokers[node[0]].fenced) for node in nodes],
        cluster_authorized_operations=operations,
    )
