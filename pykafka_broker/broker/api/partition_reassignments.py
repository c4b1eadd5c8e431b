"""ListPartitionReassignments v0 and AlterPartitionReassignments v0-v1 (KIP-455).

Behaviour: the list is made from the image, so any broker answers it. On one node a partition can only be assigned to
where it is, so nothing is ever under way there. Versions: 1 of Alter may forbid a change of the number of replicas
(KIP-860).
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster import replication_control
from pykafka_broker.cluster.authorizer import Rights, denial
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from pykafka_broker.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
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
    if services.allows(context, AclOperation.DESCRIBE, AclResourceType.CLUSTER):
        return replication_control.list_partition_reassignments(services.image, request)
    error = denial(AclResourceType.CLUSTER)
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
    Rights(controller.authorizer, context).require(AclOperation.ALTER, AclResourceType.CLUSTER)
    return replication_control.alter_partition_reassignments(controller, request)
