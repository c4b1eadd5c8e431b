"""DescribeCluster v1-v2 at a controller (KIP-919): the controllers, where a broker tells of brokers.

Behaviour: MISMATCHED_ENDPOINT_TYPE for who asks for brokers (INVALID_REQUEST in version 0),
UNSUPPORTED_ENDPOINT_TYPE for anything else.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.controller_routes import CONTROLLERS
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.authorizer import NOT_ASKED
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

_ENDPOINT_TYPES_FROM = 1
_BROKERS, _CONTROLLERS = 1, 2


@handles(ApiKey.DESCRIBE_CLUSTER, CONTROLLERS)
def describe_controllers(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type == _BROKERS:
        known = context.api_version >= _ENDPOINT_TYPES_FROM
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.INVALID_REQUEST,
            error_message="The request was sent to an endpoint of type CONTROLLER, "
            "but we wanted an endpoint of type BROKER",
        )
    if request.endpoint_type != _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        may_know = services.allows(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER)
        operations = services.authorized_operations(context, AclResourceType.CLUSTER) if may_know else 0
    address = services.active_controller.quorum.endpoint(context.connection.listener)
    return DescribeClusterResponse(
        endpoint_type=_CONTROLLERS,
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        brokers=[DescribeClusterBroker(services.node_id, address.host, address.port)],
        cluster_authorized_operations=operations,
    )
