"""ElectLeaders v0-v2 (KIP-183, KIP-460).

Behaviour: every partition is led by its only replica, so there is never anything to elect: ELECTION_NOT_NEEDED where
partitions are named, and topics without partitions in the answer where none are. Versions: 1 unclean elections and an
error of the whole.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.cluster.authorizer import Operation, Resource, Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.image import NO_LEADER, MetadataImage
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest
from pykafka_broker.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED, _UNCLEAN = 0, 1


@handles(ApiKey.ELECT_LEADERS)
def elect_leaders(
    controller: Controller, context: RequestContext, request: ElectLeadersRequest
) -> Decision[ElectLeadersResponse]:
    Rights(controller.authorizer, context).require(Operation.ALTER, Resource.CLUSTER)
    return Decision([], _results(controller.image, request))


def _results(image: MetadataImage, request: ElectLeadersRequest) -> ElectLeadersResponse:
    kind = request.election_type
    if kind not in (_PREFERRED, _UNCLEAN) and request.topic_partitions != []:
        return _unknown_type(request)
    if request.topic_partitions is None:
        return ElectLeadersResponse(replica_election_results=[ReplicaElectionResult(name) for name in image.topics])
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic,
                [_elect(image, topic.topic, partition, kind) for partition in topic.partitions],
            )
            for topic in request.topic_partitions
        ]
    )


def _unknown_type(request: ElectLeadersRequest) -> ElectLeadersResponse:
    message = f"Unknown election type {request.election_type}"
    results = [
        ReplicaElectionResult(
            topic.topic,
            [PartitionResult(partition, ErrorCode.INVALID_REQUEST, message) for partition in topic.partitions],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=results)


def _elect(image: MetadataImage, topic: str, partition: int, kind: int) -> PartitionResult:
    if topic not in image.topics:
        return PartitionResult(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    found = image.partition(topic, partition)
    if found is None:
        return PartitionResult(
            partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{partition}"
        )
    if found.leader == NO_LEADER:
        code = (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if kind == _PREFERRED else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
        return PartitionResult(partition, code, "No replica of this partition is available.")
    return PartitionResult(partition, ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
