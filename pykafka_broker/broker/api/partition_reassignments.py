"""ListPartitionReassignments v0 and AlterPartitionReassignments v0-v1 (KIP-455).

Behaviour: on one node a partition can only be assigned to where it is, so nothing is ever under way: the list is empty,
an assignment to the same broker is done at once, one to any other broker is refused as unknown, and there is nothing to
cancel (NO_REASSIGNMENT_IN_PROGRESS). Versions: 1 of Alter may forbid a change of the number of replicas (KIP-860).
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.authorizer import Operation, Resource, Rights, denial
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.placement import check_assignment
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from pykafka_broker.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from pykafka_broker.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from pykafka_broker.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if services.allows(context, Operation.DESCRIBE, Resource.CLUSTER):
        return ListPartitionReassignmentsResponse(error_message=None)
    error = denial(Resource.CLUSTER)
    # What was asked for is named all the same, as by Kafka.
    topics = [
        OngoingTopicReassignment(topic.name, [OngoingPartitionReassignment(each) for each in topic.partition_indexes])
        for topic in request.topics or ()
    ]
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message, topics=topics)


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def alter_partition_reassignments(
    controller: Controller, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Decision[AlterPartitionReassignmentsResponse]:
    Rights(controller.authorizer, context).require(Operation.ALTER, Resource.CLUSTER)
    responses = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            code, message = 0, None
            try:
                _reassign(controller.image, topic.name, partition)
            except ApiError as error:
                code, message = error.code, error.message
            partitions.append(ReassignablePartitionResponse(partition.partition_index, code, message))
        responses.append(ReassignableTopicResponse(topic.name, partitions))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )
    return Decision([], response)


def _reassign(image: MetadataImage, topic: str, wanted: ReassignablePartition) -> None:
    if topic not in image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    if image.partition(topic, wanted.partition_index) is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{wanted.partition_index}."
        )
    if wanted.replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    # With one registered broker the only assignment that passes is the present one.
    check_assignment(image, wanted.replicas, None)
