"""Metadata v0-v13.

Behaviour: null topics means all (in v0 an empty list does), an empty list none. A topic that is missing is created if
the request and `auto.create.topics.enable` allow it, and is in this very answer with its leaders. Where a topic is
asked for by id (v12, KIP-516) names in the same request count for nothing, as in Kafka.
Versions: 1 controller and rack, 2 cluster id, 4 the choice not to create (KIP-204), 5 offline replicas, 7 leader
epochs, 8 authorized operations (those of the cluster until v10), 10 topic ids in the answer, 13 an error of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.broker.api.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.encoded_reply import EncodedReply
from pykafka_broker.broker.reply import Reply, resting
from pykafka_broker.broker.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA, INTERNAL_TOPICS, name_problem
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykafka_broker.protocol.runtime import ZERO_UUID

_NULL_IS_ALL_FROM = 1
_IDS_FROM = 12


@handles(ApiKey.METADATA)
def metadata(
    services: Services, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | EncodedReply | Reply:
    version = context.api_version
    asked = request.topics
    if asked is not None:
        if not asked and version < _NULL_IS_ALL_FROM:
            asked = None
        elif any(_is_invalid(topic, version) for topic in asked):
            return _invalid(request)
    names = None if asked is None else tuple(dict.fromkeys((topic.name, topic.topic_id) for topic in asked))
    made = False
    if names is not None and request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
        made = _create_missing(services, names)
    host, port = services.advertised(context)
    options = (request.include_topic_authorized_operations, request.include_cluster_authorized_operations)
    key = (ApiKey.METADATA, version, names, options, host, port, context.connection.listener)
    cache = services.replies
    reply = cache.get(services.image, key)
    if reply is None:
        response = _answer(services, context, names, *options)
        reply = cache.put(services.image, key, response.encode(version))
    return resting(reply, services.metadata.after()) if made else reply


def _is_invalid(topic: MetadataRequestTopic, version: int) -> bool:
    if version < _IDS_FROM:
        return topic.name is None or topic.topic_id != ZERO_UUID
    return topic.name is None and topic.topic_id == ZERO_UUID


def _invalid(request: MetadataRequest) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics)


def _create_missing(services: Services, names: Iterable[tuple[str | None, bytes]]) -> bool:
    """Whether any were missing. A request that has an id is about ids: names in it are neither made nor answered."""
    topics = services.image.topics
    asked = list(names)
    if any(topic_id != ZERO_UUID for _, topic_id in asked):
        return False
    missing = [name for name, _ in asked if name is not None and name not in topics and name != CLUSTER_METADATA]
    if missing:
        services.create_missing_topics(missing)
    return bool(missing)


def _answer(
    services: Services,
    context: RequestContext,
    names: tuple[tuple[str | None, bytes], ...] | None,
    topic_operations: bool,
    cluster_operations: bool,
) -> MetadataResponse:
    image = services.image
    allowed = TOPIC_OPERATIONS if topic_operations else NOT_ASKED
    if names is None:
        topics = [_topic(image, topic, allowed) for topic in image.topics.values()]
    elif any(topic_id != ZERO_UUID for _, topic_id in names):
        topics = [_topic_by_id(image, topic_id, allowed) for _, topic_id in names if topic_id != ZERO_UUID]
    else:
        topics = [_topic_by_name(image, name or "", allowed) for name, _ in names]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(*node) for node in services.nodes(context)],
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if cluster_operations else NOT_ASKED,
    )


def _topic_by_id(image: MetadataImage, topic_id: bytes, allowed: int) -> MetadataResponseTopic:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    return _topic(image, topic, allowed)


def _topic_by_name(image: MetadataImage, name: str, allowed: int) -> MetadataResponseTopic:
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(image, topic, allowed)
    illegal = name_problem(name) is not None
    return MetadataResponseTopic(
        ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=allowed,
    )


def _topic(image: MetadataImage, topic: TopicImage, allowed: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        0,
        topic.name,
        topic.id,
        topic.name in INTERNAL_TOPICS,
        [_partition(image, partition) for partition in topic.partitions.values()],
        allowed,
    )


def _partition(image: MetadataImage, partition: PartitionImage) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else 0,
        partition.partition,
        partition.leader,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        offline_replicas(image, partition),
    )


def offline_replicas(image: MetadataImage, partition: PartitionImage) -> list[int]:
    """Replicas on brokers that are not there, or in directories that are not (KIP-858)."""
    return [replica for replica in partition.replicas if image.is_offline(partition, replica)]
