"""The cluster and its nodes: DescribeCluster v0-v2 (KIP-700), UpdateFeatures v0-v2 (KIP-584, KIP-778), DescribeQuorum
v0-v2 (KIP-595), UnregisterBroker v0, UnregisterController v0, AddRaftVoter v0-v1 and RemoveRaftVoter v0
(KIP-500, KIP-853).

DescribeCluster: the brokers and the cluster's id; fenced brokers only when asked for. Versions: 1 the kind of endpoint
(KIP-919), of which a broker knows only its own: MISMATCHED_ENDPOINT_TYPE for controllers, UNSUPPORTED_ENDPOINT_TYPE for
anything else; 2 fenced brokers (KIP-1073).

UpdateFeatures: all updates or none. Versions: 0 has a flag for downgrades, 1 the kind of upgrade and validate-only, 2
no results of single features.

DescribeQuorum: the metadata quorum is this node alone, its leader and only voter, and always caught up. A request that
names anything but `__cluster_metadata-0`, once, is answered UNKNOWN_TOPIC_OR_PARTITION throughout. Versions: 1 times of
the last fetch (KIP-836), 2 messages, directory ids and nodes (KIP-853); the id is zero as long as kraft.version is 0.

Members: a broker that is its own controller can't unregister itself; Kafka allows that, and is left without a broker.
This node stays the only voter: with kraft.version 0 voters are neither added nor removed (UNSUPPORTED_VERSION,
if the request is otherwise right), with 1 no voter can be added, and the last is not removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster import feature_updates, registration
from pykafka_broker.cluster.authorizer import NOT_ASKED, Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.errors import NOT_HOSTED, ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from pykafka_broker.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from pykafka_broker.protocol.messages.describe_cluster_request import DescribeClusterRequest
from pykafka_broker.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from pykafka_broker.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from pykafka_broker.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from pykafka_broker.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from pykafka_broker.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from pykafka_broker.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from pykafka_broker.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from pykafka_broker.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from pykafka_broker.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from pykafka_broker.protocol.messages.update_features_request import UpdateFeaturesRequest
from pykafka_broker.protocol.messages.update_features_response import UpdateFeaturesResponse
from pykafka_broker.protocol.runtime import ZERO_UUID, uuid_text

BROKERS, CONTROLLERS = 1, 2  # kinds of endpoint
_KIND_NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
_NODES_FROM = 2


@handles(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return wrong_endpoint(request.endpoint_type, BROKERS)
    brokers = services.image.brokers
    nodes = services.nodes(context, fenced=request.include_fenced_brokers)
    return DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        brokers=[DescribeClusterBroker(*node, brokers[node[0]].fenced) for node in nodes],
        cluster_authorized_operations=cluster_operations(services, context, request),
    )


def wrong_endpoint(asked: int, own: int) -> DescribeClusterResponse:
    """Return the refusal of a request for another kind of endpoint than the node's own."""
    if asked not in _KIND_NAMES:
        message = f"Unsupported endpoint type {asked}"
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=message)
    message = (
        f"The request was sent to an endpoint of type {_KIND_NAMES[own]}, "
        f"but we wanted an endpoint of type {_KIND_NAMES[asked]}"
    )
    return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=message)


def cluster_operations(services: Services, context: RequestContext, request: DescribeClusterRequest) -> int:
    """Return the bit set of the client's operations on the cluster, if the request asks for the set (KIP-430)."""
    if not request.include_cluster_authorized_operations:
        return NOT_ASKED
    if not services.allows(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER):
        return 0
    return services.rights(context).operations(AclResourceType.CLUSTER)


@handles(ApiKey.UPDATE_FEATURES)
def update_features(
    controller: Controller, context: RequestContext, request: UpdateFeaturesRequest
) -> Decision[UpdateFeaturesResponse]:
    Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    return feature_updates.update_features(controller, request, context.api_version)


@handles(ApiKey.DESCRIBE_QUORUM)
def describe_quorum(
    services: Services, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    services.authorise(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    if names_metadata_log(request.topics):
        partitions = [_metadata_partition(services)]
        nodes = _nodes(services, context) if context.api_version >= _NODES_FROM else []
        return DescribeQuorumResponse(topics=[TopicData(CLUSTER_METADATA, partitions)], nodes=nodes)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            TopicData(
                topic.topic_name, [PartitionData(each.partition_index, code, NOT_HOSTED) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def names_metadata_log(topics: Iterable[Any]) -> bool:
    """Return whether the topics of a request name the one partition of the metadata log, once, and nothing else."""
    named = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in topics]
    return named == [(CLUSTER_METADATA, [0])]


def _metadata_partition(services: Services) -> PartitionData:
    leader_id, leader_epoch, end, directory_id = services.metadata.quorum
    wall = services.clock.wall  # clients are told when the voter was last caught up
    controller = services.quorum_controller
    observers = () if controller is None else controller.quorum.observers(wall)
    return PartitionData(
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        high_watermark=end,
        current_voters=[ReplicaState(leader_id, directory_id, end, wall, wall)],
        observers=[
            ReplicaState(each.id, each.directory_id, each.log_end_offset, each.last_fetch, each.last_caught_up)
            for each in observers
        ],
    )


def _nodes(services: Services, context: RequestContext) -> list[Node]:
    controller = services.quorum_controller
    if controller is not None:
        return [
            Node(services.node_id, [Listener(name, host, port) for host, port, name in controller.quorum.endpoints])
        ]
    return [Node(services.node_id, [Listener(context.connection.listener, *services.advertised(context))])]


@handles(ApiKey.UNREGISTER_BROKER)
def unregister_broker(
    controller: Controller, context: RequestContext, request: UnregisterBrokerRequest
) -> Decision[UnregisterBrokerResponse]:
    Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    return registration.unregister_broker(controller, request)


@handles(ApiKey.UNREGISTER_CONTROLLER)
def unregister_controller(
    controller: Controller, context: RequestContext, request: UnregisterControllerRequest
) -> Decision[UnregisterControllerResponse]:
    Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    return registration.unregister_controller(controller, request)


@handles(ApiKey.ADD_RAFT_VOTER)
def add_raft_voter(services: Services, context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    voter, voters = _checked_voter(services, context, request, "Add", "adding")
    if request.voter_id == services.metadata.quorum.leader_id:
        message = f"The voter id for {voter} is already part of the set of voters {voters}."
        raise ApiError(ErrorCode.DUPLICATE_VOTER, message)
    raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "This controller can't have other voters beside it")


@handles(ApiKey.REMOVE_RAFT_VOTER)
def remove_raft_voter(
    services: Services, context: RequestContext, request: RemoveRaftVoterRequest
) -> RemoveRaftVoterResponse:
    voter, voters = _checked_voter(services, context, request, "Remove", "removing")
    raise ApiError(ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {voter} from the set of voters {voters}")


def _checked_voter(
    services: Services,
    context: RequestContext,
    request: AddRaftVoterRequest | RemoveRaftVoterRequest,
    act: str,
    acting: str,
) -> tuple[str, str]:
    """Check a change of the voters; return the voter and the set of voters in Kafka's spelling."""
    services.authorise(context, AclOperation.ALTER, AclResourceType.CLUSTER)
    wanted, own = request.cluster_id, services.cluster_id
    if wanted is not None and wanted != own:
        raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"The request is for cluster {wanted!r}, this is {own!r}")
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{act} voter request didn't include a valid voter")
    if isinstance(request, AddRaftVoterRequest) and not request.listeners:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Add voter request didn't include an endpoint of the controller")
    if services.metadata.kraft_version == 0:
        message = f"Cluster doesn't support {acting} voter because the kraft.version feature is 0"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, message)
    quorum = services.metadata.quorum
    return (
        _replica_key(request.voter_id, request.voter_directory_id),
        f"[{_replica_key(quorum.leader_id, quorum.voter_directory_id)}]",
    )


def _replica_key(voter_id: int, directory_id: bytes) -> str:
    return f"ReplicaKey(id={voter_id}, directoryId={uuid_text(directory_id)})"
