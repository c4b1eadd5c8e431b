"""The one door for changes of metadata, and what follows from them.

Rule: append, apply, act. Nothing changes the image but records that are in the log, and whatever else knows of topics
and configs (logs, dynamic configs, coordinators) learns of it here, after the fact and in this order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pykafka_broker.broker.api.encoded_reply import ReplyCache
from pykafka_broker.broker.context import RequestContext
from pykafka_broker.broker.replica_keeper import ReplicaKeeper
from pykafka_broker.cluster import bootstrap
from pykafka_broker.cluster.controller import Controller, ProducerIds
from pykafka_broker.cluster.image import MetadataDelta, MetadataImage
from pykafka_broker.cluster.metadata_log import MetadataLog
from pykafka_broker.cluster.records import ApiMessageAndVersion, ResourceType
from pykafka_broker.cluster.snapshot_keeper import SnapshotKeeper
from pykafka_broker.cluster.topic_names import CLUSTER_METADATA
from pykafka_broker.config import TopicConfig
from pykafka_broker.config.topic import readable_overrides
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.runtime import uuid_text

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker
    from pykafka_broker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

Listener = Callable[[MetadataDelta, int], None]
Node = tuple[int, str, int, str | None]  # id, host, port, rack


class MetadataPublisher:
    """Owns the image, the metadata log and the controller of one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.image = MetadataImage()
        self.controller = Controller(self.image, broker.config, broker.node_id, broker.new_uuid)
        self.producer_ids = ProducerIds(self.controller, lambda records: self.commit(records, self.now))
        self.replies = ReplyCache()
        self.replicas = ReplicaKeeper(self)
        self.log: MetadataLog
        self.snapshots: SnapshotKeeper
        self._listeners: list[Listener] = []
        self._static_config = broker.config
        self.now = 0  # of the last commit
        self.committing = False

    def subscribe(self, listener: Listener) -> None:
        """`listener` hears of every change from now on, after logs and configs have followed it."""
        self._listeners.append(listener)

    @property
    def applied_offset(self) -> int:
        return self.log.last_offset

    # -- life

    def start(self, now: int) -> None:
        """Load the image, lead the metadata log, and bring logs and configs in line with it."""
        broker = self.broker
        log = broker.logs.metadata_log(now)
        directory = broker.logs.directory_of((CLUSTER_METADATA, 0))
        assert directory is not None
        self.log = MetadataLog(log, broker.fs, broker.node_id, directory.id)
        self.snapshots = SnapshotKeeper(
            self.log,
            broker.fs,
            broker.config,
            submit=broker.submit,
            flush=lambda now, waiter: broker.logs.flush(log, now, waiter),
            records=self._image_records,
            now=now,
        )
        loaded = self.log.load(self.image)
        self.log.lead(now)
        if not self.image.features:
            records = bootstrap.bootstrap_records(broker.fs, directory.path, now)
            self.commit(bootstrap.first_records(self.controller, records), now)
        self._follow_broker_configs()
        self.commit([self._registration()], now)
        self.replicas.start(loaded, now)

    def _registration(self) -> ApiMessageAndVersion:
        broker = self.broker
        return bootstrap.registration(
            self.controller,
            epoch=self.log.last_offset + 1,
            incarnation_id=broker.new_uuid(),
            endpoints=[
                (listener.name, *(listener.advertised or (listener.host, listener.port)), "PLAINTEXT")
                for listener in broker.listeners.values()
            ],
            log_dirs=[directory.id for directory in broker.logs.partition_directories if directory.online],
        )

    # -- changes

    def commit(self, records: Sequence[ApiMessageAndVersion], now: int) -> MetadataDelta:
        """Append `records` as one batch, apply them, and act on what they changed; they are synced beside the event
        loop, and the request that brings them is answered after that. If the disk refuses them nothing has changed and
        the error is raised."""
        self.now = now
        delta = MetadataDelta()
        if not records:
            return delta
        self.committing = True
        try:
            self.log.append(records, now)
            self.broker.logs.flush(self.log.log, now)
            self.broker.purgatory.commits.append(partial(self.broker.logs.flush, self.log.log, now))
            self.log.apply([record.message for record in records], self.image, delta)
            self._follow(delta, now)
        finally:
            self.committing = False
        self.replicas.follow(delta)
        self.snapshots.on_commit(now)
        return delta

    def _image_records(self) -> Iterable[ApiMessageAndVersion]:
        from pykafka_broker.cluster.image_records import image_records

        controller = self.controller
        return image_records(self.image, controller.partition_record_version(), controller.broker_record_version())

    def next_deadline(self) -> int | None:
        return self.snapshots.next_deadline()

    def on_deadline(self, now: int) -> None:
        self.snapshots.on_deadline(now)

    def _follow(self, delta: MetadataDelta, now: int) -> None:
        _tell(delta)
        broker = self.broker
        logs = broker.logs
        for topic in delta.deleted:
            for number in topic.partitions:
                broker.forget_partition(topic.name, number)
                logs.delete(topic.name, number, now)
        self._make_logs(delta)
        if delta.configs:
            self._follow_configs(delta.configs)
        for listener in self._listeners:
            listener(delta, now)

    def create_log(self, topic: str, number: int) -> PartitionLog:
        """The log of a partition of which this node is a replica, made now if that is possible; not where it may be in
        a directory that is offline."""
        described = self.image.topics[topic]
        assigned = described.partitions[number].directory_of(self.broker.node_id)
        log = self.broker.logs.create(topic, number, described.id, self.now, directory_id=assigned, new=False)
        self.replicas.tell_place((topic, number))
        return log

    def _make_logs(self, delta: MetadataDelta) -> None:
        logs, node_id, known = self.broker.logs, self.broker.node_id, self.image.topics_by_id
        for topic, partition in delta.new_partitions:
            if topic.id not in known or node_id not in partition.replicas:
                continue
            assigned = partition.directory_of(node_id)
            try:
                logs.make(topic.name, partition.partition, topic.id, self.now, directory_id=assigned)
            except ApiError as error:  # it is in the metadata now: whoever asks for the log has it tried again
                logger.warning("%s-%d has no log yet: %s", topic.name, partition.partition, error)
        logs.name_folders()

    def _follow_configs(self, changed: Iterable[tuple[int, str]]) -> None:
        if any(kind == ResourceType.BROKER for kind, _ in changed):
            self._follow_broker_configs()
        for kind, name in changed:
            if kind == ResourceType.TOPIC and name in self.image.topics:
                self.broker.logs.reconfigure(name, self.topic_config(name))

    def _follow_broker_configs(self) -> None:
        """Lay the dynamic configs over the static ones (KIP-226)."""
        broker = self.broker
        default = self.image.config(ResourceType.BROKER, "")
        own = self.image.config(ResourceType.BROKER, str(broker.node_id))
        if default == broker.config.dynamic_default and own == broker.config.dynamic_broker:
            return
        config = self._static_config.with_dynamic(default, own)
        if config.cordoned_dirs != broker.config.cordoned_dirs:
            self.replicas.directories_changed()
        broker.config = self.controller.config = broker.logs.config = config
        for name in self.image.topics:
            broker.logs.reconfigure(name, self.topic_config(name))

    # -- what others ask

    def topic_config(self, topic: str) -> TopicConfig:
        """The topic's settings over the broker's defaults."""
        return TopicConfig.resolve(self.broker.config, self.topic_overrides(topic))

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """The topic's own configs, without what another release of Kafka knew or took and we don't: a broker that
        refuses to start on it would help nobody."""
        return readable_overrides(self.image.topic_config(topic))

    def nodes(self, context: RequestContext, *, fenced: bool = False) -> list[Node]:
        """The brokers as this client is to reach them: this one where `Broker.advertised` says."""
        nodes: list[Node] = []
        for broker in self.image.brokers.values():
            if broker.id == self.broker.node_id:
                nodes.append((broker.id, *self.broker.advertised(context), broker.rack))
            elif fenced or not broker.fenced:
                for name, host, port, _ in broker.endpoints:
                    if name == context.connection.listener:
                        nodes.append((broker.id, host, port, broker.rack))
        return nodes

    def create_missing_topics(self, names: Iterable[str], now: int) -> None:
        """Create what a client or a coordinator needs, internal topics with their own configs; names that can't be
        topics stay missing."""
        from pykafka_broker.cluster.internal_topics import creatable_topic
        from pykafka_broker.cluster.topics import create_topics
        from pykafka_broker.protocol.messages.create_topics_request import CreateTopicsRequest

        brokers = len(self.controller.usable_brokers())
        topics = [creatable_topic(name, self.broker.config, brokers) for name in names]
        effects = create_topics(self.controller, CreateTopicsRequest(topics), 0)
        try:
            self.commit(effects.records, now)
        except ApiError as error:
            logger.warning("Could not create %s: %s", ", ".join(topic.name for topic in topics), error)


def _tell(delta: MetadataDelta) -> None:
    """Which topics have come, grown and gone: who waits for records of a mistyped name finds it in the log."""
    for topic in delta.created:
        logger.info("topic %s is created: %d partitions, id %s", topic.name, len(topic.partitions), uuid_text(topic.id))
    created = {topic.id for topic in delta.created}
    for name, count in {t.name: len(t.partitions) for t, _ in delta.new_partitions if t.id not in created}.items():
        logger.info("topic %s has %d partitions now", name, count)
    for topic in delta.deleted:
        logger.info("topic %s is deleted, id %s", topic.name, uuid_text(topic.id))
