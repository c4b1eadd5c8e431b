"""The control batches that end a transaction.

Rule: a marker is an append like any other, under the producer's id and the epoch that the coordinator names; the
partition refuses one of an older epoch or of a coordinator that has been replaced. A marker in `__consumer_offsets`
decides the offsets that its producer has pending there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pykafka_broker.broker.coordinator_log import hold_answer
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS
from pykafka_broker.log.partition_log import Origin
from pykafka_broker.records.control import build_end_transaction_marker
from pykafka_broker.records.header import set_max_timestamp

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


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


def write_marker(broker: Broker, topic: str, partition: int, outcome: Outcome, now: int) -> None:
    """Append one marker. ApiError if the partition is not there or refuses it."""
    log = broker.partition_log(topic, partition)
    batch = build_end_transaction_marker(
        commit=outcome.commit,
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
        coordinator_epoch=outcome.coordinator_epoch,
        timestamp=now,
    )
    if log.config.message_timestamp_type == "LogAppendTime":
        set_max_timestamp(batch, now, log_append_time=True)
    log.append(batch, now, origin=Origin.COORDINATOR, transaction_version=outcome.transaction_version)
    broker.purgatory.touch(log)
    hold_answer(broker, log, now)
    if topic == CONSUMER_OFFSETS:
        broker.groups.end_transaction(partition, outcome.producer_id, outcome.commit, now)
