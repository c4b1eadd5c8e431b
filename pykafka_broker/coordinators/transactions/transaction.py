"""One transactional id, and its record in `__transaction_state`.

Rule: a `Transaction` is a value; every step makes a new one, and what a record can't hold is not remembered across a
restart. That is only `last_producer_epoch`: the epoch before the last bump, by which the retry of an InitProducerId is
told from a fenced producer (KIP-360).
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka_broker.coordinators.effects import KeyValue
from pykafka_broker.coordinators.transactions.state import TransactionState
from pykafka_broker.protocol.runtime import DecodeError
from pykafka_broker.protocol.stored.transaction_log_key import TransactionLogKey
from pykafka_broker.protocol.stored.transaction_log_value import PartitionsSchema, TransactionLogValue

TopicPartition = tuple[str, int]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
_VERSION_SIZE = 2
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


def encode_key(transactional_id: str) -> bytes:
    """Key of all records of this transactional id."""
    return b"\x00\x00" + TransactionLogKey(transactional_id=transactional_id).encode(0)


def decode_key(key: bytes | memoryview) -> str | None:
    """The transactional id; None for a record type that is not ours."""
    if len(key) < 2 or bytes(key[:2]) != b"\x00\x00":
        return None
    return TransactionLogKey.decode(key[2:], 0).transactional_id


def encode_value(transaction: Transaction, version: int) -> bytes:
    """Value at this version: 1 holds tagged fields, and is used once `transaction.version` is 1 or more (KIP-915)."""
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
    return version.to_bytes(2, "big") + value.encode(version)


def _grouped(transaction: Transaction) -> list[PartitionsSchema] | None:
    if transaction.state is TransactionState.EMPTY:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]


def decode_value(value: bytes | memoryview) -> Transaction:
    """The transaction that a value holds, of version 0 or 1. What stands behind it is nobody's business, as with Kafka.
    Raises ValueError."""
    if len(value) < _VERSION_SIZE:
        raise DecodeError(f"a TransactionLogValue of {len(value)} bytes")
    record, _ = TransactionLogValue.read(value, _VERSION_SIZE, int.from_bytes(value[:_VERSION_SIZE], "big"))
    return Transaction(
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        timeout_ms=record.transaction_timeout_ms,
        state=TransactionState(record.transaction_status),
        last_update_ms=record.transaction_last_update_timestamp_ms,
        partitions=frozenset(
            (schema.topic, partition)
            for schema in record.transaction_partitions or ()
            for partition in schema.partition_ids
        ),
        start_ms=record.transaction_start_timestamp_ms,
        previous_producer_id=record.previous_producer_id,
        next_producer_id=record.next_producer_id,
        client_version=record.client_transaction_version,
    )


def record(transactional_id: str, transaction: Transaction, version: int) -> KeyValue:
    return KeyValue(encode_key(transactional_id), encode_value(transaction, version))


def tombstone(transactional_id: str) -> KeyValue:
    return KeyValue(encode_key(transactional_id), None)
