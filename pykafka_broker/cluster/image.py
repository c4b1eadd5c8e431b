"""The metadata image: topics, configs, features, brokers, quotas, producer id blocks, credentials, ACLs, tokens (Kafka:
MetadataImage).

Rule: the image changes only by `apply`, one metadata record at a time, live and at load alike; or by `become`, where no
records lead from the image to a newer one (a snapshot has come): the object stays the same, and its readers hear of the
same changes as if records had brought them.

The image knows no file and no request. Partitions are slim and share their replica tuples, since a broker may hold tens
of thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka_broker.cluster.records import MetadataError, RecordType
from pykafka_broker.log.checkpoints import MIGRATING, UNASSIGNED
from pykafka_broker.protocol.enums import ConfigResourceType

if TYPE_CHECKING:
    from pykafka_broker.cluster.acl_index import AclIndex

NO_LEADER = -1
# the leader in a PartitionChangeRecord that keeps it
LEADER_UNCHANGED = -2
# An entity of a client quota: its (type, name) pairs in order of type; the name None stands for the default entity.
QuotaEntity = tuple[tuple[str, str | None], ...]
_tuples: dict[tuple[Any, ...], tuple[Any, ...]] = {}
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
# Attributes of an image that `become` replaces.
_HELD = (
    "brokers",
    "client_quotas",
    "configs",
    "controllers",
    "delegation_tokens",
    "features",
    "next_producer_id",
    "partition_count",
    "scram",
    "topics",
    "topics_by_id",
)


def _shared(values: list[Any]) -> tuple[Any, ...]:
    """Return the shared tuple of the values: ten thousand partitions have only a handful of distinct replica sets."""
    key = tuple(values)
    return _tuples.setdefault(key, key)


class PartitionImage:
    """A partition in the controller's view; epochs only ever grow.

    A change makes a new object, so that an image being written stays as it was.
    """

    __slots__ = (
        "adding_replicas",
        "directories",
        "elr",
        "isr",
        "last_known_elr",
        "leader",
        "leader_epoch",
        "leader_recovery_state",
        "partition",
        "partition_epoch",
        "removing_replicas",
        "replicas",
    )

    def __init__(
        self,
        partition: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        leader: int,
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        directories: tuple[bytes, ...] = (),
    ) -> None:
        self.partition = partition
        self.replicas = replicas
        self.isr = isr
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = directories
        self.removing_replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.elr: tuple[int, ...] = ()
        self.last_known_elr: tuple[int, ...] = ()
        self.leader_recovery_state = 0

    def copy(self) -> PartitionImage:
        made = PartitionImage.__new__(PartitionImage)
        for name in PartitionImage.__slots__:
            setattr(made, name, getattr(self, name))
        return made

    def directory_of(self, broker_id: int) -> bytes:
        """Return the id of a replica's log directory; MIGRATING where none is recorded."""
        known = len(self.directories) == len(self.replicas)
        return self.directories[self.replicas.index(broker_id)] if known else MIGRATING


_CHANGED = (
    ("isr", "isr"),
    ("replicas", "replicas"),
    ("removing_replicas", "removing_replicas"),
    ("adding_replicas", "adding_replicas"),
    ("directories", "directories"),
    ("eligible_leader_replicas", "elr"),
    ("last_known_elr", "last_known_elr"),
)


def changed_partition(partition: PartitionImage, record: Any) -> PartitionImage:
    """Return the partition after a PartitionChangeRecord."""
    changed = partition.copy()
    for field, attribute in _CHANGED:
        value = getattr(record, field)
        if value is not None:
            setattr(changed, attribute, _shared(value))
    if record.leader != LEADER_UNCHANGED:
        # Naming a leader starts a new epoch even when it is the same broker: its log may have lost its tail.
        changed.leader = record.leader
        changed.leader_epoch += 1
    if record.leader_recovery_state != -1:
        changed.leader_recovery_state = record.leader_recovery_state
    changed.partition_epoch += 1
    return changed


class TopicImage:
    """A topic with the partitions by index. A re-created topic has a new id."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: dict[int, PartitionImage] = {}


class BrokerImage:
    """A registered broker. `epoch` is the offset of the registration in the metadata log."""

    def __init__(self, record: Any) -> None:
        self.id: int = record.broker_id
        self.epoch: int = record.broker_epoch
        self.incarnation_id: bytes = record.incarnation_id
        # (listener name, host, port, security protocol id)
        self.endpoints: list[tuple[str, str, int, int]] = [
            (e.name, e.host, e.port, e.security_protocol) for e in record.end_points
        ]
        self.features: dict[str, tuple[int, int]] = {
            f.name: (f.min_supported_version, f.max_supported_version) for f in record.features
        }
        self.rack: str | None = record.rack
        self.fenced: bool = record.fenced
        self.in_controlled_shutdown: bool = record.in_controlled_shutdown
        self.log_dirs: tuple[bytes, ...] = _shared(record.log_dirs)
        # None until the broker has reported cordoned directories
        cordoned = record.cordoned_log_dirs
        self.cordoned_log_dirs: tuple[bytes, ...] | None = None if cordoned is None else _shared(cordoned)

    def has_online(self, directory_id: bytes) -> bool:
        """Return whether a replica in the directory can be served; brokers of older releases name no directories."""
        return not self.log_dirs or directory_id in self.log_dirs or directory_id in (MIGRATING, UNASSIGNED)

    @property
    def all_dirs_cordoned(self) -> bool:
        """Return whether no directory of the broker takes new replicas (KIP-1066)."""
        return bool(self.log_dirs) and set(self.log_dirs) <= set(self.cordoned_log_dirs or ())


class MetadataDelta:
    """The changes by a run of records. Deleted topics keep an image in `deleted`."""

    def __init__(self) -> None:
        self.created: list[TopicImage] = []
        self.deleted: list[TopicImage] = []
        self.new_partitions: list[tuple[TopicImage, PartitionImage]] = []
        self.changed_partitions: list[tuple[TopicImage, PartitionImage]] = []
        self.moved: set[str] = set()  # topics with replicas on other brokers
        self.configs: set[tuple[int, str]] = set()
        self.features: set[str] = set()
        self.brokers: set[int] = set()
        self.quotas: set[QuotaEntity] = set()

    @property
    def is_empty(self) -> bool:
        """Return whether no change has an effect."""
        return not any(vars(self).values())


class MetadataImage:
    """The current state. `generation` grows with every applied record on which a cached answer could depend."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[bytes, TopicImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.next_producer_id = 0
        self.scram: dict[tuple[int, str], Any] = {}
        self.acls: dict[bytes, Any] = {}
        self.acl_index: AclIndex | None = None  # follows `acls` once it is set
        self.delegation_tokens: dict[str, Any] = {}
        self.token_index: Any = None  # a `TokenIndex`, once a token has been looked for by Hmac
        self.controllers: dict[int, Any] = {}
        self.generation = 0
        self.partition_count = 0
        self._appliers: dict[int, Callable[[Any, MetadataDelta], None]] = {
            RecordType.REGISTER_BROKER: self._register_broker,
            RecordType.UNREGISTER_BROKER: self._unregister_broker,
            RecordType.TOPIC: self._topic,
            RecordType.PARTITION: self._partition,
            RecordType.CONFIG: self._config,
            RecordType.PARTITION_CHANGE: self._partition_change,
            RecordType.FENCE_BROKER: self._fence_broker,
            RecordType.UNFENCE_BROKER: self._fence_broker,
            RecordType.REMOVE_TOPIC: self._remove_topic,
            RecordType.DELEGATION_TOKEN: self._delegation_token,
            RecordType.USER_SCRAM_CREDENTIAL: self._scram_credential,
            RecordType.FEATURE_LEVEL: self._feature_level,
            RecordType.CLIENT_QUOTA: self._client_quota,
            RecordType.PRODUCER_IDS: self._producer_ids,
            RecordType.BROKER_REGISTRATION_CHANGE: self._broker_registration_change,
            RecordType.ACCESS_CONTROL_ENTRY: self._access_control_entry,
            RecordType.REMOVE_ACCESS_CONTROL_ENTRY: self._remove_access_control_entry,
            RecordType.NO_OP: self._nothing,
            RecordType.ZK_MIGRATION_STATE: self._nothing,
            RecordType.REMOVE_USER_SCRAM_CREDENTIAL: self._remove_scram_credential,
            RecordType.REMOVE_DELEGATION_TOKEN: self._remove_delegation_token,
            RecordType.REGISTER_CONTROLLER: self._register_controller,
            RecordType.CLEAR_ELR: self._clear_elr,
            RecordType.UNREGISTER_CONTROLLER: self._unregister_controller,
        }

    def apply(self, record: Any, delta: MetadataDelta) -> None:
        applier = self._appliers.get(record.API_KEY)
        if applier is None:
            raise MetadataError(f"a record of type {record.API_KEY} can't be applied to the metadata image")
        applier(record, delta)
        self.generation += 1

    def config(self, resource_type: int, name: str) -> dict[str, str]:
        """Return the overrides of a resource, not to be changed by the caller; an empty dict for no overrides."""
        return self.configs.get((resource_type, name), {})

    def topic_config(self, topic: str) -> dict[str, str]:
        return self.config(ConfigResourceType.TOPIC, topic)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        image = self.topics.get(topic)
        return None if image is None else image.partitions.get(partition)

    def is_offline(self, partition: PartitionImage, replica: int) -> bool:
        """Return whether a replica can't be served: the broker or the replica's directory is offline."""
        broker = self.brokers.get(replica)
        return broker is None or broker.fenced or not broker.has_online(partition.directory_of(replica))

    def is_registered(self, broker_id: int, epoch: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.epoch == epoch

    def topic_id(self, topic: str) -> bytes | None:
        image = self.topics.get(topic)
        return None if image is None else image.id

    # Topics and partitions

    def _topic(self, record: Any, delta: MetadataDelta) -> None:
        if record.name in self.topics:
            raise MetadataError(f"topic {record.name} is created twice")
        topic = TopicImage(record.name, bytes(record.topic_id))
        self.topics[topic.name] = self.topics_by_id[topic.id] = topic
        # Snapshots of 4.4 brokers keep configs of deleted topics; they must not pass to a new topic of that name.
        self.configs.pop((ConfigResourceType.TOPIC, topic.name), None)
        delta.created.append(topic)

    def _partition(self, record: Any, delta: MetadataDelta) -> None:
        topic = self._known_topic(record.topic_id)
        partition = PartitionImage(
            record.partition_id,
            _shared(record.replicas),
            _shared(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            _shared(record.directories),
        )
        # Most partitions have none of these: the empty tuple of the constructor stays.
        if record.removing_replicas:
            partition.removing_replicas = _shared(record.removing_replicas)
        if record.adding_replicas:
            partition.adding_replicas = _shared(record.adding_replicas)
        if record.eligible_leader_replicas:
            partition.elr = _shared(record.eligible_leader_replicas)
        if record.last_known_elr:
            partition.last_known_elr = _shared(record.last_known_elr)
        partition.leader_recovery_state = record.leader_recovery_state
        is_new = partition.partition not in topic.partitions
        topic.partitions[partition.partition] = partition
        self.partition_count += is_new
        (delta.new_partitions if is_new else delta.changed_partitions).append((topic, partition))

    def _partition_change(self, record: Any, delta: MetadataDelta) -> None:
        topic = self._known_topic(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise MetadataError(f"a change of {topic.name}-{record.partition_id}, which does not exist")
        topic.partitions[record.partition_id] = partition = changed_partition(partition, record)
        delta.changed_partitions.append((topic, partition))
        if record.replicas is not None:
            delta.moved.add(topic.name)

    def _remove_topic(self, record: Any, delta: MetadataDelta) -> None:
        topic = self._known_topic(record.topic_id)
        del self.topics[topic.name]
        del self.topics_by_id[topic.id]
        self.partition_count -= len(topic.partitions)
        # Kafka writes no records for this: the configs go with their topic.
        self.configs.pop((ConfigResourceType.TOPIC, topic.name), None)
        delta.deleted.append(topic)

    def _clear_elr(self, record: Any, delta: MetadataDelta) -> None:
        topics = [self.topics[record.topic_name]] if record.topic_name else self.topics.values()
        for topic in topics:
            for index, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    topic.partitions[index] = changed = partition.copy()
                    changed.elr = changed.last_known_elr = ()
                    changed.partition_epoch += 1  # as with any change
                    delta.changed_partitions.append((topic, changed))

    def _known_topic(self, topic_id: bytes) -> TopicImage:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise MetadataError(f"a record for the topic id {bytes(topic_id).hex()}, which does not exist")
        return topic

    # Configs, features, quotas, producer ids

    def _config(self, record: Any, delta: MetadataDelta) -> None:
        resource = (record.resource_type, record.resource_name)
        _put(self.configs, resource, record.name, record.value)
        delta.configs.add(resource)

    def _feature_level(self, record: Any, delta: MetadataDelta) -> None:
        # Level 0 means "not finalized", save for metadata.version, which has no such level.
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level
        delta.features.add(record.name)

    def _client_quota(self, record: Any, delta: MetadataDelta) -> None:
        entity = tuple(sorted((e.entity_type, e.entity_name) for e in record.entity))
        _put(self.client_quotas, entity, record.key, None if record.remove else record.value)
        delta.quotas.add(entity)

    def _producer_ids(self, record: Any, delta: MetadataDelta) -> None:
        if record.next_producer_id <= self.next_producer_id and self.next_producer_id:
            raise MetadataError(f"producer ids go back from {self.next_producer_id} to {record.next_producer_id}")
        self.next_producer_id = record.next_producer_id

    # Brokers and controllers

    def _register_broker(self, record: Any, delta: MetadataDelta) -> None:
        self.brokers[record.broker_id] = BrokerImage(record)
        delta.brokers.add(record.broker_id)

    def _unregister_broker(self, record: Any, delta: MetadataDelta) -> None:
        self.brokers.pop(record.broker_id, None)
        delta.brokers.add(record.broker_id)

    def _broker_registration_change(self, record: Any, delta: MetadataDelta) -> None:
        broker = self._known_broker(record.broker_id)
        if record.fenced:
            broker.fenced = record.fenced > 0
        if record.in_controlled_shutdown:
            broker.in_controlled_shutdown = True
        if record.log_dirs:
            broker.log_dirs = _shared(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            broker.cordoned_log_dirs = _shared(record.cordoned_log_dirs)
        delta.brokers.add(broker.id)

    def _fence_broker(self, record: Any, delta: MetadataDelta) -> None:
        self._known_broker(record.id).fenced = record.API_KEY == RecordType.FENCE_BROKER
        delta.brokers.add(record.id)

    def _register_controller(self, record: Any, delta: MetadataDelta) -> None:
        self.controllers[record.controller_id] = record

    def _unregister_controller(self, record: Any, delta: MetadataDelta) -> None:
        self.controllers.pop(record.controller_id, None)

    def _known_broker(self, broker_id: int) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise MetadataError(f"a change of broker {broker_id}, which is not registered")
        return broker

    # Security: the records themselves are the state

    def _scram_credential(self, record: Any, delta: MetadataDelta) -> None:
        self.scram[record.mechanism, record.name] = record

    def _remove_scram_credential(self, record: Any, delta: MetadataDelta) -> None:
        self.scram.pop((record.mechanism, record.name), None)

    def _access_control_entry(self, record: Any, delta: MetadataDelta) -> None:
        self.acls[bytes(record.id)] = record
        if self.acl_index is not None:
            self.acl_index.add(record)

    def _remove_access_control_entry(self, record: Any, delta: MetadataDelta) -> None:
        removed = self.acls.pop(bytes(record.id), None)
        if self.acl_index is not None and removed is not None:
            self.acl_index.remove(removed)

    def _delegation_token(self, record: Any, delta: MetadataDelta) -> None:
        self.delegation_tokens[record.token_id] = record

    def _remove_delegation_token(self, record: Any, delta: MetadataDelta) -> None:
        self.delegation_tokens.pop(record.token_id, None)

    def _nothing(self, record: Any, delta: MetadataDelta) -> None:
        """Ignore records which only mark time."""


def _put(held: dict[K, dict[str, V]], entity: K, key: str, value: V | None) -> None:
    """Set a value of an entity, or take the value away for None; an entity without values goes."""
    if value is not None:
        held.setdefault(entity, {})[key] = value
    elif entity in held:
        held[entity].pop(key, None)
        if not held[entity]:
            del held[entity]


# -- from one image to another


def become(image: MetadataImage, newer: MetadataImage) -> MetadataDelta:
    """Let `image` take over the content of `newer`, which is of no use afterwards, and return the changes."""
    delta = MetadataDelta()
    delta.deleted += [topic for topic_id, topic in image.topics_by_id.items() if topic_id not in newer.topics_by_id]
    for topic_id, topic in newer.topics_by_id.items():
        _compare(image.topics_by_id.get(topic_id), topic, delta)
    delta.configs |= _differing(image.configs, newer.configs)
    delta.features |= _differing(image.features, newer.features)
    delta.quotas |= _differing(image.client_quotas, newer.client_quotas)
    delta.brokers |= {*image.brokers, *newer.brokers}  # brokers are few, and a comparison of registrations is long
    _replace_acls(image, newer)
    for name in _HELD:
        setattr(image, name, getattr(newer, name))
    image.generation += newer.generation + 1
    return delta


def _compare(before: TopicImage | None, topic: TopicImage, delta: MetadataDelta) -> None:
    known: Mapping[int, PartitionImage] = {} if before is None else before.partitions
    if before is None:
        delta.created.append(topic)
    for index, partition in topic.partitions.items():
        if index not in known:
            delta.new_partitions.append((topic, partition))
        elif known[index].partition_epoch != partition.partition_epoch:
            delta.changed_partitions.append((topic, partition))
            if known[index].replicas != partition.replicas:
                delta.moved.add(topic.name)


def _differing(before: Mapping[K, object], after: Mapping[K, object]) -> set[K]:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def _replace_acls(image: MetadataImage, newer: MetadataImage) -> None:
    index = image.acl_index
    if index is not None:
        for id_, acl in image.acls.items():
            if id_ not in newer.acls:
                index.remove(acl)
        for id_, acl in newer.acls.items():
            if id_ not in image.acls:
                index.add(acl)
    image.acls = newer.acls
