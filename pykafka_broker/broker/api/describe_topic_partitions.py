"""DescribeTopicPartitions v0 (KIP-966).

Behaviour: topics come in order of name; at most `max.request.partition.size.limit` partitions (or fewer, if the client
says so, but one) go into an answer, and the cursor names the first that did not. Topics that can't be described count
nothing; those that the client may not describe come last, if it has named them. No topics means all. A cursor must name
a partition and, where topics are named, one of them; INVALID_REQUEST for all of them otherwise. Lists of eligible
leaders are never null: Java's admin client can't read that.
"""

from __future__ import annotations

from pykafka_broker.broker.api.metadata import offline_replicas
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from pykafka_broker.cluster.topic_names import INTERNAL_TOPICS, name_problem
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from pykafka_broker.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


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
    page = _Page(services.image, limit)
    refused: list[str] = []
    for name in sorted(name for name in asked or services.image.topics if name >= first):
        if services.allows(context, AclOperation.DESCRIBE, AclResourceType.TOPIC, name, log=bool(asked)):
            page.add(name, start if name == first else 0)
        elif asked:
            refused.append(name)
        if page.next is not None and not asked:
            break
    for topic in page.topics:
        topic.topic_authorized_operations = services.authorized_operations(
            context, AclResourceType.TOPIC, topic.name or ""
        )
    page.topics += [
        DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name) for name in refused
    ]
    return DescribeTopicPartitionsResponse(topics=page.topics, next_cursor=page.next)


class _Page:
    """One answer as it fills up."""

    def __init__(self, image: MetadataImage, limit: int) -> None:
        self.image = image
        self.left = limit
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next: Cursor | None = None

    def add(self, name: str, first: int) -> None:
        """The next topic, if there is room."""
        if self.next is not None:
            return
        if not self.left:
            self.next = Cursor(name, 0)
            return
        topic = self.image.topics.get(name)
        if topic is None:
            self.topics.append(_missing(name))
            return
        wanted = sorted(partition for partition in topic.partitions if partition >= first)
        shown = wanted[: self.left]
        self.left -= len(shown)
        self.topics.append(_topic(self.image, topic, shown))
        if len(shown) < len(wanted):
            self.next = Cursor(name, wanted[len(shown)])


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    illegal = name_problem(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(code, name, is_internal=name in INTERNAL_TOPICS)


def _topic(image: MetadataImage, topic: TopicImage, partitions: list[int]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        0,
        topic.name,
        topic.id,
        topic.name in INTERNAL_TOPICS,
        [_partition(image, topic.partitions[partition]) for partition in partitions],
    )


def _partition(image: MetadataImage, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else 0,
        partition.partition,
        partition.leader,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        list(partition.elr),
        list(partition.last_known_elr),
        offline_replicas(image, partition),
    )
