"""The control batches that end a transaction.

Rule: a marker is an append like any other, under the producer's id and the epoch that the coordinator names; the
partition refuses one of an older epoch or of a coordinator that has been replaced. A marker in `__consumer_offsets`
decides the offsets that its producer has pending there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pykafka_broker.broker.node import Node
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.log.partition_log import Origin
from pykafka_broker.records.control import build_end_transaction_marker
from pykafka_broker.records.header import set_max_timestamp

OffsetsDecided = Callable[[int, int, bool], None]  # partition of `__consumer_offsets`, producer id, committed


class Outcome(Protocol):
    """What a marker says."""

    @property
    def producer_id(self) -> int: ...

    @property
    def producer_epoch(self) -> int: ...

    @property
    def commit(self) -> bool: ...

    @property
    def coordinator_epoch(self) -> int: ...

    @property
    def transaction_version(self) -> int: ...


def write_marker(
    node: Node, topic: str, number: int, outcome: Outcome, offsets_decided: OffsetsDecided
) -> tuple[Partition, int]:
    """Append one marker; where it stands, and the offset behind it. ApiError if the partition is not there or refuses
    it.
    """
    partition, wall = node.replicas.leader(topic, number), node.clock.wall
    batch = build_end_transaction_marker(
        commit=outcome.commit,
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
        coordinator_epoch=outcome.coordinator_epoch,
        timestamp=wall,
    )
    if partition.log.config.message_timestamp_type == "LogAppendTime":
        set_max_timestamp(batch, wall, log_append_time=True)
    appended = partition.append(batch, wall, origin=Origin.COORDINATOR, transaction_version=outcome.transaction_version)
    if topic == CONSUMER_OFFSETS:
        offsets_decided(number, outcome.producer_id, outcome.commit)
    return partition, appended.last_offset + 1
