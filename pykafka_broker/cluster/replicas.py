"""The replicas of a node that is its own controller: their directories and leaderships (KIP-858, KIP-966).

Rule: the logs on disk decide. The metadata is told the directory of each log; a partition whose directory is offline
has no leader, and a partition without a leader whose log is there is led again.

A node that is its own only controller finds no other broker in sync when it starts. Kafka's controller comes to the
same result by waiting: a broker that sends no heartbeat within `broker.session.timeout.ms` is fenced and taken out of
every ISR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pykafka_broker.cluster.controller import Controller
from pykafka_broker.cluster.features import ELR_VERSION
from pykafka_broker.cluster.image import NO_LEADER, PartitionImage, TopicImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.log.checkpoints import LOST, MIGRATING, is_reserved
from pykafka_broker.protocol.stored.broker_registration_change_record import BrokerRegistrationChangeRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord

# The id of the directory that has the log of a partition; LOST if that is offline, UNASSIGNED if there is no log yet.
Locate = Callable[[TopicImage, PartitionImage], bytes]


class Elections(NamedTuple):
    """The partitions to get a new leader epoch: all after a crash, otherwise only partitions without a leader.

    After a crash a log may have lost its tail and clients must be able to tell (KIP-101, KIP-320). leaderless: the node
    starts. Partitions that others led go to it as well, and it alone is in sync.
    """

    leaderless: bool = False
    all_partitions: bool = False


def partition_changes(controller: Controller, locate: Locate, elections: Elections) -> Iterator[ApiMessageAndVersion]:
    """Yield a record for each partition with wrong metadata."""
    node_id = controller.node_id
    version = controller.partition_record_version()
    for topic in controller.image.topics.values():
        for partition in topic.partitions.values():
            if node_id not in partition.replicas:
                continue
            place = locate(topic, partition)
            leads = partition.leader == node_id
            directory = version > 0 and not is_reserved(place) and partition.directory_of(node_id) != place
            lost = place == LOST
            elected = not lost and _elects(partition, node_id, leads, elections)
            alone = elections.leaderless and not lost and (elected or leads) and partition.isr != (node_id,)
            if not (elected or alone or directory or (lost and leads)):
                continue
            change = PartitionChangeRecord(partition.partition, topic.id)
            if directory:
                change.directories = directories_with(partition, node_id, place)
            if alone:
                _stand_alone(change, node_id, version)
            if elected:
                change.leader = node_id
            elif lost:
                _resign(change, partition, node_id, controller)
            yield ApiMessageAndVersion(change, version)


def _elects(partition: PartitionImage, node_id: int, leads: bool, elections: Elections) -> bool:
    if leads:
        return elections.all_partitions
    return elections.leaderless and (not partition.isr or node_id in partition.isr)


def _stand_alone(change: PartitionChangeRecord, node_id: int, version: int) -> None:
    change.isr = [node_id]
    change.eligible_leader_replicas = [] if version >= 2 else None
    change.last_known_elr = [] if version >= 2 else None


def _resign(change: PartitionChangeRecord, partition: PartitionImage, node_id: int, controller: Controller) -> None:
    """Give up the lead of a partition with an offline log. The last replica in sync stays eligible."""
    change.leader = NO_LEADER
    if partition.isr == (node_id,) and controller.image.features.get(ELR_VERSION, 0):
        change.isr = []
        change.eligible_leader_replicas = [node_id]
        change.last_known_elr = [node_id]


def assignment(
    controller: Controller, topic: TopicImage, partition: PartitionImage, place: bytes, broker_id: int | None = None
) -> ApiMessageAndVersion:
    """Return the record placing the replica of a broker, by default the node itself, in a directory."""
    change = PartitionChangeRecord(partition.partition, topic.id)
    change.directories = directories_with(partition, controller.node_id if broker_id is None else broker_id, place)
    return ApiMessageAndVersion(change, controller.partition_record_version())


def directories_with(partition: PartitionImage, node_id: int, place: bytes) -> list[bytes]:
    known = len(partition.directories) == len(partition.replicas)
    directories = list(partition.directories) if known else [MIGRATING] * len(partition.replicas)
    directories[partition.replicas.index(node_id)] = place
    return directories


def directories_change(
    controller: Controller, online: list[bytes], cordoned: list[bytes]
) -> list[ApiMessageAndVersion]:
    """Return a record if the metadata has other directories of the node, online or cordoned (KIP-1066)."""
    broker = controller.image.brokers[controller.node_id]
    record, version = BrokerRegistrationChangeRecord(broker.id, broker.epoch), 2
    if set(broker.log_dirs) != set(online):
        record.log_dirs = online
    if controller.broker_record_version() >= 4 and set(broker.cordoned_log_dirs or ()) != set(cordoned):
        record.cordoned_log_dirs, version = cordoned, 3
    if not record.log_dirs and record.cordoned_log_dirs is None:
        return []
    return [ApiMessageAndVersion(record, version)]
