"""CreateTopics v0-v7 (KIP-4), DeleteTopics v0-v6 (KIP-4, KIP-516), CreatePartitions v0-v3 (KIP-195) and
DescribeTopicPartitions v0 (KIP-966).

CreateTopics: the controller decides topic by topic. One batch creates the topics without an error, and they take
requests before the answer goes out. Versions: 1 messages and validate-only, 4 defaults by -1 (also in older versions,
as in Kafka), 5 partitions, replicas and configs in the answer (KIP-525; never null, since Java's admin client can't
read null), 7 topic ids.

DeleteTopics: the logs go aside at once and their space is freed after `file.delete.delay.ms`; a topic that is created
again under the same name is another topic with another id. Versions: 3 TOPIC_DELETION_DISABLED (KIP-322), 5 messages,
6 topics by id.

CreatePartitions: a topic grows to `count` partitions, never shrinks; assignments are for the new partitions only. All
versions say the same; 2 is the flexible encoding.

DescribeTopicPartitions: topics come in order of name. An answer has at least one partition, and at most as many as the
client and `max.request.partition.size.limit` allow; its cursor names the first partition left out. Topics with an error
do not count. Topics that the client has named and may not describe come last. A request without topics means all. A
cursor must name a partition and, where topics are named, one of them; otherwise all topics are answered
INVALID_REQUEST. Lists of eligible leaders are never null: Java's admin client can't read null.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster import topics
from pykafka_broker.cluster.authorizer import Rights
from pykafka_broker.cluster.controller import Controller, Decision
from pykafka_broker.cluster.image import NO_LEADER, MetadataImage, PartitionImage
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS, name_problem
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_partitions_request import CreatePartitionsRequest
from pykafka_broker.protocol.messages.create_partitions_response import CreatePartitionsResponse
from pykafka_broker.protocol.messages.create_topics_request import CreateTopicsRequest
from pykafka_broker.protocol.messages.create_topics_response import CreateTopicsResponse
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.messages.delete_topics_response import DeleteTopicsResponse
from pykafka_broker.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from pykafka_broker.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


@handles(ApiKey.CREATE_TOPICS)
def create_topics(
    controller: Controller, context: RequestContext, request: CreateTopicsRequest
) -> Decision[CreateTopicsResponse]:
    rights = Rights(controller.authorizer, context)
    return topics.create_topics(controller, request, context.api_version, rights, context.spending())


@handles(ApiKey.DELETE_TOPICS)
def delete_topics(
    controller: Controller, context: RequestContext, request: DeleteTopicsRequest
) -> Decision[DeleteTopicsResponse]:
    rights = Rights(controller.authorizer, context)
    return topics.delete_topics(controller, request, context.api_version, rights, context.spending())


@handles(ApiKey.CREATE_PARTITIONS)
def create_partitions(
    controller: Controller, context: RequestContext, request: CreatePartitionsRequest
) -> Decision[CreatePartitionsResponse]:
    return topics.create_partitions(controller, request, Rights(controller.authorizer, context), context.spending())


@handles(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(
    services: Services, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    first, start = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    asked = {topic.name for topic in request.topics}
    if start < 0 or (cursor is not None and asked and first not in asked):
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, topic.name) for topic in request.topics
            ]
        )
    limit = max(1, min(request.response_partition_limit, services.config.max_request_partition_size_limit))
    page = _Page(services.image, services.reachable(context), limit)
    refused: list[str] = []
    for name in sorted(name for name in asked or services.image.topics if name >= first):
        if services.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name, log=bool(asked)):
            page.add(name, start if name == first else 0)
        elif asked:
            refused.append(name)
        if page.next is not None and not asked:
            break
    for topic in page.topics:
        topic.topic_authorized_operations = services.rights(context).operations(AclResourceType.TOPIC, topic.name or "")
    page.topics += [
        DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name) for name in refused
    ]
    return DescribeTopicPartitionsResponse(topics=page.topics, next_cursor=page.next)


class _Page:
    """The topics of an answer to DescribeTopicPartitions, and the room left for partitions."""

    def __init__(self, image: MetadataImage, reachable: set[int], limit: int) -> None:
        self._image = image
        self._reachable = reachable
        self._left = limit
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next: Cursor | None = None

    def add(self, name: str, first: int) -> None:
        """Add a topic's partitions from `first` on until the page is full; leave the rest to the cursor."""
        if self.next is not None:
            return
        if not self._left:
            self.next = Cursor(name, 0)
            return
        topic = self._image.topics.get(name)
        internal = name in INTERNAL_TOPICS
        if topic is None:
            illegal = name_problem(name) is not None
            code = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.topics.append(DescribeTopicPartitionsResponseTopic(code, name, is_internal=internal))
            return
        wanted = sorted(partition for partition in topic.partitions if partition >= first)
        shown = wanted[: self._left]
        self._left -= len(shown)
        partitions = [self._partition(topic.partitions[partition]) for partition in shown]
        self.topics.append(DescribeTopicPartitionsResponseTopic(0, name, topic.id, internal, partitions))
        if len(shown) < len(wanted):
            self.next = Cursor(name, wanted[len(shown)])

    def _partition(self, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
        """Describe a partition: without an error even if there is no leader, as Kafka does."""
        image, reachable = self._image, self._reachable
        return DescribeTopicPartitionsResponsePartition(
            ErrorCode.NONE,
            partition.partition,
            partition.leader if partition.leader in reachable else NO_LEADER,
            partition.leader_epoch,
            list(partition.replicas),
            list(partition.isr),
            list(partition.elr),
            list(partition.last_known_elr),
            [each for each in partition.replicas if each not in reachable or image.is_offline(partition, each)],
        )
