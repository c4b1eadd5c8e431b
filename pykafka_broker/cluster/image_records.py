"""The image as records, for a snapshot.

Rule: applying these records to an empty image gives the same image, as it was at the call, however it changes before
the last of them is taken. `metadata.version` comes first, since it says how the rest is to be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import BrokerImage, MetadataImage, PartitionImage, QuotaEntity
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.protocol.stored.client_quota_record import ClientQuotaRecord, EntityData
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.partition_record import PartitionRecord
from pykafka_broker.protocol.stored.producer_ids_record import ProducerIdsRecord
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from pykafka_broker.protocol.stored.topic_record import TopicRecord


def image_records(image: MetadataImage, partition_version: int, broker_version: int) -> Iterator[ApiMessageAndVersion]:
    """Yield the records of an image; the versions follow from the image's metadata.version."""
    controllers = [ApiMessageAndVersion(controller, 0) for controller in image.controllers.values()]
    brokers = [ApiMessageAndVersion(_broker(each, broker_version), broker_version) for each in image.brokers.values()]
    # Only the parts that change in place are copied now: topics and partitions may be many.
    topics = [(topic.name, topic.id, tuple(topic.partitions.values())) for topic in image.topics.values()]
    configs = [(resource, tuple(configs.items())) for resource, configs in image.configs.items()]
    return chain(
        list(_features(image)),
        controllers,
        brokers,
        _topics(topics, partition_version),
        _configs(configs),
        list(_others(image)),
    )


def outrunning_records(
    image: MetadataImage, leader_epoch: int, producer_id: int, partition_version: int
) -> list[ApiMessageAndVersion]:
    """Return records raising every leader epoch above the given epoch, and the producer ids above the given id."""
    records = []
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            risen = partition.copy()
            risen.leader_epoch = max(leader_epoch, partition.leader_epoch) + 1
            risen.partition_epoch += 1
            records.append(ApiMessageAndVersion(_partition(topic.id, risen, partition_version), partition_version))
    if producer_id > image.next_producer_id:
        records.append(ApiMessageAndVersion(ProducerIdsRecord(-1, -1, producer_id), 0))
    return records


def _features(image: MetadataImage) -> Iterator[ApiMessageAndVersion]:
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield ApiMessageAndVersion(FeatureLevelRecord(name, image.features[name]), 0)


def _topics(
    topics: list[tuple[str, bytes, tuple[PartitionImage, ...]]], partition_version: int
) -> Iterator[ApiMessageAndVersion]:
    for name, topic_id, partitions in topics:
        yield ApiMessageAndVersion(TopicRecord(name, topic_id), 0)
        for partition in partitions:
            yield ApiMessageAndVersion(_partition(topic_id, partition, partition_version), partition_version)


def _configs(configs: list[tuple[tuple[int, str], tuple[tuple[str, str], ...]]]) -> Iterator[ApiMessageAndVersion]:
    for (kind, name), overrides in configs:
        for key, value in overrides:
            yield ApiMessageAndVersion(ConfigRecord(kind, name, key, value), 0)


def _others(image: MetadataImage) -> Iterator[ApiMessageAndVersion]:
    for entity, quotas in image.client_quotas.items():
        for quota, limit in quotas.items():
            yield ApiMessageAndVersion(_quota(entity, quota, limit), 0)
    if image.next_producer_id:
        yield ApiMessageAndVersion(ProducerIdsRecord(-1, -1, image.next_producer_id), 0)
    for group in (image.acls, image.scram, image.delegation_tokens):
        for record in group.values():
            yield ApiMessageAndVersion(record, 0)


def _broker(broker: BrokerImage, version: int) -> RegisterBrokerRecord:
    record = RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[BrokerEndpoint(*endpoint) for endpoint in broker.endpoints],
        features=[BrokerFeature(name, lowest, highest) for name, (lowest, highest) in broker.features.items()],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )
    if version >= 3:
        record.log_dirs = list(broker.log_dirs)
    if version >= 4 and broker.cordoned_log_dirs is not None:
        record.cordoned_log_dirs = list(broker.cordoned_log_dirs)
    return record


def _partition(topic_id: bytes, partition: PartitionImage, version: int) -> PartitionRecord:
    record = PartitionRecord(
        partition.partition,
        topic_id,
        list(partition.replicas),
        list(partition.isr),
        list(partition.removing_replicas),
        list(partition.adding_replicas),
        partition.leader,
        partition.leader_recovery_state,
        partition.leader_epoch,
        partition.partition_epoch,
    )
    if version >= 1:
        record.directories = list(partition.directories)
    if version >= 2 and partition.elr:
        record.eligible_leader_replicas = list(partition.elr)
    if version >= 2 and partition.last_known_elr:
        record.last_known_elr = list(partition.last_known_elr)
    return record


def _quota(entity: QuotaEntity, key: str, value: float) -> ClientQuotaRecord:
    return ClientQuotaRecord([EntityData(kind, name) for kind, name in entity], key, value, False)
