"""A partition in a given state, and the changes that a record makes to it, in few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pykafka_broker.cluster.image import PartitionImage, TopicImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord
from tests.cluster.support import Cluster

SHORT = {
    "isr": "isr",
    "replicas": "replicas",
    "removing_replicas": "removing",
    "adding_replicas": "adding",
    "directories": "directories",
    "eligible_leader_replicas": "elr",
    "last_known_elr": "last_known",
}


def cluster_of(brokers: int = 3, *, elr: bool = True, **settings: str) -> Cluster:
    made = Cluster(brokers, **settings)
    if not elr:
        made.apply([ApiMessageAndVersion(FeatureLevelRecord("eligible.leader.replicas.version", 0), 0)])
    for broker in made.image.brokers.values():
        broker.log_dirs = (directory(broker.id),)
    return made


def directory(broker_id: int) -> bytes:
    return bytes([broker_id]) * 16


def partition_in(
    cluster: Cluster,
    replicas: Sequence[int] = (1, 2, 3),
    *,
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    elr: Sequence[int] = (),
    last_known: Sequence[int] = (),
    adding: Sequence[int] = (),
    removing: Sequence[int] = (),
    recovery_state: int = 0,
    name: str = "t",
) -> tuple[TopicImage, PartitionImage]:
    """Return a topic of that name with one partition, in leader epoch 5 and partition epoch 7."""
    topic_id = name.encode().ljust(16, b"\0")
    isr = replicas if isr is None else isr
    record = PartitionRecord(
        0,
        topic_id,
        list(replicas),
        list(isr),
        list(removing),
        list(adding),
        (isr[0] if isr else -1) if leader is None else leader,
        recovery_state,
        5,
        7,
        [directory(broker) for broker in replicas],
        list(elr),
        list(last_known),
    )
    cluster.apply([ApiMessageAndVersion(TopicRecord(name, topic_id), 0), ApiMessageAndVersion(record, 2)])
    topic = cluster.image.topics[name]
    return topic, topic.partitions[0]


def told(record: ApiMessageAndVersion | None) -> dict[str, Any] | None:
    """Return the fields that a partition's record sets, without those that it leaves unchanged."""
    if record is None:
        return None
    message = record.message
    said = {short: getattr(message, name) for name, short in SHORT.items() if getattr(message, name) is not None}
    if message.leader != -2:
        said["leader"] = message.leader
    if message.leader_recovery_state != -1:
        said["recovery_state"] = message.leader_recovery_state
    return said


def all_told(records: Iterable[ApiMessageAndVersion]) -> list[dict[str, Any] | None]:
    return [told(record) for record in records]
