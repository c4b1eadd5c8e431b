"""DescribeProducers v0 (KIP-664).

Behaviour: every producer that a partition remembers, idempotent or transactional, also when its transaction is over; a
transaction that is open shows where it starts. Admin tools find hanging transactions by it, at any replica: followers
answer, too.
"""

from __future__ import annotations

from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.topic_names import check_topic_name
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.messages.describe_producers_request import DescribeProducersRequest
from pykafka_broker.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


@handles(ApiKey.DESCRIBE_PRODUCERS)
def describe_producers(
    services: Services, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name,
                [_partition(services, context, topic.name, partition) for partition in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _partition(services: Services, context: RequestContext, topic: str, partition: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        services.authorise(context, AclOperation.READ, AclResourceType.TOPIC, topic)
        log = services.replicas.replica(topic, partition).log
    except ApiError as error:
        # Kafka's sentence comes with a topic that it has never heard of, not with a partition that a topic lacks.
        unknown = topic not in services.image.topics
        message = "This server does not host this topic-partition." if unknown else None
        return PartitionResponse(partition, error.code, error.message or message)
    return PartitionResponse(
        partition,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.txn_first_offset,
            )
            for entry in log.producers.entries.values()
        ],
    )
