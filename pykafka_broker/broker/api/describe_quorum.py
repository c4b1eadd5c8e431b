"""DescribeQuorum v0-v2 (KIP-595).

Behaviour: the metadata quorum is this node alone, its leader and only voter, and always caught up. Any partition but
`__cluster_metadata-0` is UNKNOWN_TOPIC_OR_PARTITION. Versions: 1 times of the last fetch (KIP-836), 2 messages,
directory ids and nodes (KIP-853); the id is zero as long as kraft.version is 0.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer
from pykafka_broker.cluster.authorizer import denial
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from pykafka_broker.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

_NODES_FROM = 2


@handles(ApiKey.DESCRIBE_QUORUM)
def describe_quorum(
    services: Services, context: RequestContext, request: DescribeQuorumRequest
) -> Answer[DescribeQuorumResponse]:
    if not services.allows(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER):
        error = denial(AclResourceType.CLUSTER)
        return DescribeQuorumResponse(error_code=error.code, error_message=error.message)
    topics = []
    found = False
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            if (topic.topic_name, partition.partition_index) == (CLUSTER_METADATA, 0):
                found = True
                partitions.append(_metadata_partition(services))
            else:
                partitions.append(
                    PartitionData(
                        partition.partition_index,
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        "This server does not host this topic-partition.",
                    )
                )
        topics.append(TopicData(topic.topic_name, partitions))
    return DescribeQuorumResponse(
        topics=topics, nodes=_nodes(services, context) if found and context.api_version >= _NODES_FROM else []
    )


def _metadata_partition(services: Services) -> PartitionData:
    leader_id, leader_epoch, end, directory_id = services.metadata.quorum
    wall = services.clock.wall  # clients are told when the voter was last caught up
    voter = ReplicaState(leader_id, directory_id, end, wall, wall)
    role = services.quorum_controller
    return PartitionData(
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        high_watermark=end,
        current_voters=[voter],
        observers=[]
        if role is None
        else [
            ReplicaState(each.id, each.directory_id, each.log_end_offset, each.last_fetch, each.last_caught_up)
            for each in role.quorum.observers(wall)
        ],
    )


def _nodes(services: Services, context: RequestContext) -> list[Node]:
    role = services.quorum_controller
    if role is not None:
        return [Node(services.node_id, [Listener(name, host, port) for host, port, name in role.quorum.endpoints])]
    host, port = services.advertised(context)
    return [Node(services.node_id, [Listener(context.connection.listener, host, port)])]
