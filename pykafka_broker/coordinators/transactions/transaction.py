"""One transactional id, and its record in `__transaction_state`.

Rule: a `Transaction` is a value; every step makes a new one, and what a record can't hold is not remembered across a
restart. That is only `last_producer_epoch`: the epoch before the last bump, by which the retry of an InitProducerId is
told from a fenced producer (KIP-360).
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.coordinators.transactions.state import TransactionState
from pykafka_broker.protocol.stored.transaction_log_key import TransactionLogKey
from pykafka_broker.protocol.stored.transaction_log_value import PartitionsSchema, TransactionLogValue

TopicPartition = tuple[str, int]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
MAX_EPOCH = 32767  # only ever the epoch of a marker: a client is never handed it
LAST_CLIENT_EPOCH = MAX_EPOCH - 1

NO_TIMEOUT_MS = 2147483647  # of a two-phase transaction (KIP-939), which never times out


class Transaction(NamedTuple):
    """What the last record of a transactional id says.

    previous_producer_id: the one in use before the last step; next_producer_id: the one that replaces an exhausted one
    at completion (KIP-890).
    client_version: the transaction version that the producer spoke at the last step, 0 (classic) or 2 (KIP-890).
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0
    last_producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def epoch_exhausted(self) -> bool:
        return epoch_exhausted(self.producer_epoch)


def epoch_exhausted(producer_epoch: int) -> bool:
    """No further epoch may be handed to a client under this producer id."""
    return producer_epoch >= LAST_CLIENT_EPOCH


def record(transactional_id: str, transaction: Transaction | None, version: int) -> CoordinatorRecord:
    """Return the record of a transaction, or the tombstone of its transactional id.

    Args:
        version: 1 holds tagged fields, and is used once `transaction.version` is 1 or more (KIP-915).
    """
    key = TransactionLogKey(transactional_id=transactional_id)
    if transaction is None:
        return CoordinatorRecord(key, None)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id if version else NO_PRODUCER_ID,
        next_producer_id=transaction.next_producer_id if version else NO_PRODUCER_ID,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=_grouped(transaction),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version if version else 0,
    )
    return CoordinatorRecord(key, value, version)


def _grouped(transaction: Transaction) -> list[PartitionsSchema] | None:
    if transaction.state is TransactionState.EMPTY:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]


def read(value: TransactionLogValue) -> Transaction:
    """Return the transaction that a value holds. Raises ValueError for a state that does not exist."""
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        last_update_ms=value.transaction_last_update_timestamp_ms,
        partitions=frozenset(
            (schema.topic, partition)
            for schema in value.transaction_partitions or ()
            for partition in schema.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )
