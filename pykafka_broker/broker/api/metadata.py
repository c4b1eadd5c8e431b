"""Metadata v0-v13.

Behaviour: null topics means all (in v0 an empty list does), an empty list none. A missing topic is created if the
request and `auto.create.topics.enable` allow it, and is in the same answer with its leaders, or in the next answer as
in Kafka (`pykafka.strict.auto.creation`). In a request with a topic id (v12, KIP-516) names count for nothing, as in
Kafka, and a topic that is named again is answered once. Topics that the client may not describe are left out of all,
and refused where they are named. The router remembers the answer to the same request.
Versions: 1 controller and rack, and replicas on brokers that the client can't reach (v0 leaves these out, with
REPLICA_NOT_AVAILABLE), 2 cluster id, 4 the choice not to create (KIP-204), 5 offline replicas, 7 leader
epochs, 8 authorized operations (those of the cluster until v10), 10 topic ids in the answer, 13 an error of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.requests.encoded_reply import EncodedReply
from pykafka_broker.broker.requests.router import handles
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import Answer, Steps, when_committed
from pykafka_broker.cluster.authorizer import NOT_ASKED
from pykafka_broker.cluster.controller import MAX_RECORDS_PER_OPERATION
from pykafka_broker.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA, INTERNAL_TOPICS, name_problem
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykafka_broker.protocol.runtime import ZERO_UUID
from pykafka_broker.steps import Pace, at_once

_TRIES = 3
_NULL_IS_ALL_FROM = 1
_ALL_REPLICAS_FROM = 1
_LISTENER_NOT_FOUND_FROM = 6
_IDS_FROM = 12
Names = tuple[tuple[str | None, bytes], ...]  # names and ids


@handles(ApiKey.METADATA)
def metadata(
    services: Services, context: RequestContext, request: MetadataRequest
) -> Answer[MetadataResponse | EncodedReply]:
    version = context.api_version
    asked = request.topics
    if asked is not None and not asked and version < _NULL_IS_ALL_FROM:
        asked = None
    by_id = any(topic.topic_id != ZERO_UUID for topic in asked or ())
    if version < _IDS_FROM if by_id else any(topic.name is None for topic in asked or ()):
        return _invalid(request)
    names = None if asked is None else _once(asked)
    made, answer = False, _Answer(services, context, request.include_topic_authorized_operations, by_id)
    if names is not None and request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
        made = answer.create_missing(names)
    operations = request.include_cluster_authorized_operations
    if made:  # not remembered: the next request tries again to create topics that had no room
        return when_committed(at_once(answer.response(names, operations)), services.metadata.committed())
    return services.slices.reply(_in_steps(services, version, lambda: answer.response(names, operations)))


def _once(asked: Iterable[MetadataRequestTopic]) -> Names:
    """Return each topic once, where the request names the topic first."""
    names: dict[str | bytes | None, tuple[str | None, bytes]] = {}
    for topic in asked:
        named = topic.name if topic.topic_id == ZERO_UUID else topic.topic_id  # a name beside an id does not count
        names.setdefault(named, (topic.name, topic.topic_id))
    return tuple(names.values())


def _in_steps(
    services: Services, version: int, make: Callable[[], Generator[None, None, MetadataResponse]]
) -> Steps[EncodedReply | MetadataResponse]:
    """Make the answer in steps, and again where the metadata changes meanwhile, up to three times.

    The last answer may then mix two states of the metadata, and is not remembered.
    """
    for _ in range(_TRIES):
        generation = services.image.generation
        answer = yield from make()
        if services.image.generation == generation:
            return EncodedReply(answer.encode(version))
    return answer


def _invalid(request: MetadataRequest) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics)


class _Answer:
    """The answer for a client, within the client's rights."""

    def __init__(self, services: Services, context: RequestContext, topic_operations: bool, by_id: bool) -> None:
        self._services = services
        self._context = context
        self._rights = services.rights(context)
        self._topic_operations = topic_operations
        self._is_by_id = by_id
        self._uncreatable: set[str] = set()
        self._reachable = services.reachable(context)
        self._pace = Pace()
        self._not_yet: set[str] = set()  # created by this request, but told by the next

    def create_missing(self, names: Names) -> bool:
        """Create missing topics; return whether any were missing and may be created.

        A request with an id is about ids: its names are neither created nor answered.
        """
        topics = self._services.image.topics
        if self._is_by_id:
            return False
        missing = [name for name, _ in names if name is not None and name not in topics and name != CLUSTER_METADATA]
        missing = [name for name in missing if self._may_see(name, log=False)]
        if missing and not self._rights.allow(AclOperation.CREATE, AclResourceType.CLUSTER, log=False):
            self._uncreatable = {
                name for name in missing if not self._rights.allow(AclOperation.CREATE, AclResourceType.TOPIC, name)
            }
        missing = [name for name in missing if name not in self._uncreatable]
        if len(missing) > MAX_RECORDS_PER_OPERATION:
            return False  # the controller would refuse to create that many, and each costs an error
        if missing:
            self._services.node.create_missing_topics(missing, self._context)
            if self._services.own.auto_creation:
                self._not_yet = {name for name in missing if name in self._services.image.topics}
        return bool(missing)

    def response(self, names: Names | None, cluster_operations: bool) -> Generator[None, None, MetadataResponse]:
        """Make the response, in steps where there are many partitions, or topics that the client may not see."""
        services, topics = self._services, list[MetadataResponseTopic]()
        if names is None:
            for topic in list(services.image.topics.values()):
                if self._may_see(topic.name, log=False):
                    topics.append((yield from self._topic(topic)))
                elif self._pace.due():
                    yield
        elif self._is_by_id:
            for _, topic_id in names:
                if topic_id != ZERO_UUID:
                    topics.append((yield from self._by_id(topic_id)))
        else:
            for name, _ in names:
                topics.append((yield from self._by_name(name or "")))
        return MetadataResponse(
            brokers=[MetadataResponseBroker(*node) for node in services.nodes(self._context)],
            cluster_id=services.cluster_id,
            controller_id=services.node_id,
            topics=topics,
            cluster_authorized_operations=self._of_cluster() if cluster_operations else NOT_ASKED,
        )

    def _may_see(self, name: str, *, log: bool = True) -> bool:
        return self._rights.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, name, log=log)

    def _of_cluster(self) -> int:
        if not self._rights.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER):
            return 0
        return self._rights.operations(AclResourceType.CLUSTER)

    def _of_topic(self, name: str) -> int:
        return self._rights.operations(AclResourceType.TOPIC, name) if self._topic_operations else NOT_ASKED

    def _by_id(self, topic_id: bytes) -> Generator[None, None, MetadataResponseTopic]:
        topic = self._services.image.topics_by_id.get(topic_id)
        if topic is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
        if not self._may_see(topic.name):
            return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
        return (yield from self._topic(topic))

    def _by_name(self, name: str) -> Generator[None, None, MetadataResponseTopic]:
        topic = self._services.image.topics.get(name)
        internal = name in INTERNAL_TOPICS
        if name in self._uncreatable or not self._may_see(name):
            shown = name in self._uncreatable and internal  # a topic that may not be seen is internal to nobody
            return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, is_internal=shown)
        if name in self._not_yet:
            code = self._services.not_yet_created
        elif topic is not None:
            return (yield from self._topic(topic))
        elif name_problem(name) is not None:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        else:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponseTopic(code, name, is_internal=internal, topic_authorized_operations=self._of_topic(name))

    def _topic(self, topic: TopicImage) -> Generator[None, None, MetadataResponseTopic]:
        image, reachable, partitions = self._services.image, self._reachable, list[MetadataResponsePartition]()
        for partition in list(topic.partitions.values()):
            described = _partition(image, partition)
            if partition.leader == NO_LEADER or not reachable.issuperset(partition.replicas):
                self._hide_unreachable(described)
            partitions.append(described)
            if self._pace.due():
                yield
        return MetadataResponseTopic(
            0, topic.name, topic.id, topic.name in INTERNAL_TOPICS, partitions, self._of_topic(topic.name)
        )

    def _hide_unreachable(self, partition: MetadataResponsePartition) -> None:
        """Tell of brokers without an address on the client's listener, which the client could not ask."""
        version, reachable, replicas = self._context.api_version, self._reachable, partition.replica_nodes
        away, offline = [each for each in replicas if each not in reachable], partition.offline_replicas
        partition.offline_replicas = [each for each in replicas if each in away or each in offline]
        if away and version < _ALL_REPLICAS_FROM:
            partition.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
            partition.replica_nodes = [each for each in replicas if each in reachable]
            partition.isr_nodes = [each for each in partition.isr_nodes if each in reachable]
        if partition.leader_id not in reachable:
            unknown = partition.leader_id == NO_LEADER or version < _LISTENER_NOT_FOUND_FROM
            partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE if unknown else ErrorCode.LISTENER_NOT_FOUND
            partition.leader_id = NO_LEADER


def _partition(image: MetadataImage, partition: PartitionImage) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        0,
        partition.partition,
        partition.leader,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        [replica for replica in partition.replicas if image.is_offline(partition, replica)],
    )
