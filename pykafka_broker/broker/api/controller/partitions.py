"""AlterPartition v2-v3, AssignReplicasToDirs v0 and AllocateProducerIds v0: what brokers ask of their controller.

Behaviour: the decisions stand in `cluster/`; who asks needs the right to CLUSTER_ACTION.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.controller_routes import CONTROLLERS
from pykafka_broker.broker.router import handles
from pykafka_broker.cluster import registration, replication_control
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from pykafka_broker.protocol.messages.alter_partition_request import AlterPartitionRequest
from pykafka_broker.protocol.messages.alter_partition_response import AlterPartitionResponse
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse


@handles(ApiKey.ALTER_PARTITION, CONTROLLERS)
def alter(
    controller: Controller, context: RequestContext, request: AlterPartitionRequest
) -> Decision[AlterPartitionResponse]:
    Rights(controller.authorizer, context).require(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    return replication_control.alter_partition(controller, request)


@handles(ApiKey.ASSIGN_REPLICAS_TO_DIRS, CONTROLLERS)
def assign(
    controller: Controller, context: RequestContext, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    Rights(controller.authorizer, context).require(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    return replication_control.assign_replicas_to_dirs(controller, request)


@handles(ApiKey.ALLOCATE_PRODUCER_IDS, CONTROLLERS)
def allocate(
    controller: Controller, context: RequestContext, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    Rights(controller.authorizer, context).require(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
    return registration.allocate_producer_ids(controller, request)
