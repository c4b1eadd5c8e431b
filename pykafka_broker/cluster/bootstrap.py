"""The first records of a new cluster, and the records that a start adds.

Rule: a new log begins as Kafka's does: the bootstrap records between Begin and End, so that half of them never count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykafka_broker.cluster.controller import Controller
from pykafka_broker.cluster.features import BOOTSTRAP_LEVELS, ELR_VERSION, METADATA_VERSION, abilities, first_levels
from pykafka_broker.cluster.records import ApiMessageAndVersion, Records, RecordType
from pykafka_broker.cluster.snapshot import BOOTSTRAP_FILE, snapshot_name, snapshot_records, write_snapshot
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.log_directory import METADATA_TOPIC
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.stored.begin_transaction_record import BeginTransactionRecord
from pykafka_broker.protocol.stored.config_record import ConfigRecord
from pykafka_broker.protocol.stored.end_transaction_record import EndTransactionRecord
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord

_TRANSACTIONS_FROM = 13  # the first metadata.version with transactions (KIP-868)

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


def format_records(levels: Mapping[str, int] = BOOTSTRAP_LEVELS) -> Records:
    """Return the records written by `kafka-storage format` into `bootstrap.checkpoint`."""
    return [ApiMessageAndVersion(FeatureLevelRecord(name, level), 0) for name, level in levels.items()]


def bootstrap_records(fs: FileSystem, directory: str, now: int, config: BrokerConfig) -> Records:
    """Return the feature levels and SCRAM credentials of `kafka-storage format`, from `bootstrap.checkpoint`.

    kafka-storage 4.4 leaves the records in the first snapshot of the metadata log, which goes when newer snapshots
    come. A directory without the file gets one, with these records or those of a new cluster: a real broker of 4.3
    looks for the file, and a reset of the cluster goes back to the records.
    """
    path, first = f"{directory}/{BOOTSTRAP_FILE}", f"{directory}/{METADATA_TOPIC}-0/{snapshot_name(0, 0)}"
    if fs.exists(path):
        return list(snapshot_records(fs, path))
    left = list(snapshot_records(fs, first)) if fs.exists(first) else []
    records = left or format_records(first_levels(config))
    write_snapshot(fs, path, records, now=now)
    return records


def first_records(controller: Controller, bootstrap: Records) -> Records:
    """Return the first batch of a new log."""
    levels = {
        record.message.name: record.message.feature_level
        for record in bootstrap
        if record.message.API_KEY == RecordType.FEATURE_LEVEL
    }
    records = list(bootstrap)
    if levels.get(ELR_VERSION):
        # With eligible leader replicas the cluster has its own min.insync.replicas, which can't be removed (KIP-966).
        insync = str(controller.config.min_insync_replicas)
        records.append(
            ApiMessageAndVersion(ConfigRecord(ConfigResourceType.BROKER, "", "min.insync.replicas", insync), 0)
        )
    if levels.get(METADATA_VERSION, 0) < _TRANSACTIONS_FROM:
        return records  # nodes of those releases don't know Begin and End
    begin, end = BeginTransactionRecord("Bootstrap records"), EndTransactionRecord()
    return [ApiMessageAndVersion(begin, 0), *records, ApiMessageAndVersion(end, 0)]


def registration(
    controller: Controller,
    *,
    epoch: int,
    incarnation_id: bytes,
    endpoints: Sequence[tuple[str, str, int, str]],
    log_dirs: Sequence[bytes],
) -> ApiMessageAndVersion:
    """Return the RegisterBrokerRecord of the broker, not fenced: the node is about to serve."""
    version = controller.broker_record_version()
    record = RegisterBrokerRecord(
        broker_id=controller.node_id,
        incarnation_id=incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(name, host, port, SECURITY_PROTOCOLS[protocol]) for name, host, port, protocol in endpoints
        ],
        features=[
            BrokerFeature(name, lowest, highest) for name, (lowest, highest) in abilities(controller.config).items()
        ],
        rack=controller.config.broker_rack,
        fenced=False,
        log_dirs=list(log_dirs) if version >= 3 else [],
    )
    return ApiMessageAndVersion(record, version)
