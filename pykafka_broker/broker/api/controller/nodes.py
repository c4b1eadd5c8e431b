"""Requests to a controller about nodes: ApiVersions v0-v4, DescribeCluster v1-v2 (KIP-919),
BrokerRegistration v0-v4, BrokerHeartbeat v0-v2, ControllerRegistration v0 (KIP-631, KIP-919), AlterPartition v2-v3,
AllocateProducerIds v0, AssignReplicasToDirs v0.

ApiVersions: as at a broker, with what a controller serves.

DescribeCluster: the controllers, where a broker tells of brokers. MISMATCHED_ENDPOINT_TYPE for clients that ask for
brokers (INVALID_REQUEST in version 0), UNSUPPORTED_ENDPOINT_TYPE for anything else.

All others are for brokers with the right to CLUSTER_ACTION, and are decided in `cluster/`.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.broker.api.api_versions import answered, ranges_of
from pykafka_broker.broker.api.cluster import CONTROLLERS as CONTROLLER_ENDPOINTS
from pykafka_broker.broker.api.cluster import cluster_operations, wrong_endpoint
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.controller_routes import CONTROLLER_ROUTES, CONTROLLERS
from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from pykafka_broker.protocol.runtime import Message

_ENDPOINT_TYPES_FROM = 1


@handles(ApiKey.API_VERSIONS, CONTROLLERS)
def api_versions(
    services: Services, context: RequestContext, request: ApiVersionsRequest | None
) -> ApiVersionsResponse | EncodedReply:
    return answered(services, context, request, _ranges)


def _ranges(services: Services) -> list[ApiVersion]:
    return ranges_of(CONTROLLER_ROUTES)


@handles(ApiKey.DESCRIBE_CLUSTER, CONTROLLERS)
def describe_controllers(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != CONTROLLER_ENDPOINTS:
        refusal = wrong_endpoint(request.endpoint_type, CONTROLLER_ENDPOINTS)
        if context.api_version < _ENDPOINT_TYPES_FROM:
            refusal.error_code = ErrorCode.INVALID_REQUEST
        return refusal
    listener, own = context.connection.listener, services.node_id
    address = services.active_controller.quorum.endpoint(listener)
    nodes = [DescribeClusterBroker(own, address.host, address.port)]
    for node_id, registered in services.image.controllers.items():
        endpoints = [each for each in registered.end_points if node_id != own and each.name == listener]
        nodes += [DescribeClusterBroker(node_id, each.host, each.port) for each in endpoints]
    return DescribeClusterResponse(
        endpoint_type=CONTROLLER_ENDPOINTS,
        cluster_id=services.cluster_id,
        controller_id=own,
        brokers=nodes,
        cluster_authorized_operations=cluster_operations(services, context, request),
    )


@handles(ApiKey.BROKER_REGISTRATION, CONTROLLERS)
@handles(ApiKey.BROKER_HEARTBEAT, CONTROLLERS)
@handles(ApiKey.CONTROLLER_REGISTRATION, CONTROLLERS)
@handles(ApiKey.ALTER_PARTITION, CONTROLLERS)
@handles(ApiKey.ASSIGN_REPLICAS_TO_DIRS, CONTROLLERS)
@handles(ApiKey.ALLOCATE_PRODUCER_IDS, CONTROLLERS)
def decided(services: Services, context: RequestContext, request: Message) -> Answer[Any]:
    services.authorise(context, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    metadata = services.node.led_metadata
    return metadata.submit(context, request, lambda controller, context, asked: metadata.decide(asked))
