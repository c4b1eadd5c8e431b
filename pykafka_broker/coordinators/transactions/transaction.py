"""A transactional id: its states, its steps, the errors that requests get, and its record in `__transaction_state`.

Rule: a `TransactionMetadata` never changes; a step returns a new one. A step that is not in `PREVIOUS` is a defect of
the coordinator and raises. A restart forgets only `last_producer_epoch`, the epoch before the last bump, for which
records have no field. It tells the retry of an InitProducerId from the request of a fenced producer (KIP-360).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, Self

from pykafka_broker.coordinators.record import CoordinatorRecord
from pykafka_broker.protocol.enums import PartitionKey, by_topic
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored.transaction_log_key import TransactionLogKey
from pykafka_broker.protocol.stored.transaction_log_value import PartitionsSchema, TransactionLogValue

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
MAX_EPOCH = 32767  # the epoch of markers alone: a client is never handed this epoch
LAST_CLIENT_EPOCH = MAX_EPOCH - 1

NO_TIMEOUT_MS = 2147483647  # of a two-phase transaction (KIP-939), which never times out


class TransactionState(IntEnum):
    """The states, by number as in `__transaction_state`. EMPTY is also the state of an unused transactional id."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6  # on its way out: never written
    PREPARE_EPOCH_FENCE = 7  # between fencing an open transaction and aborting it: never written

    @property
    def title(self) -> str:
        """Return the name for ListTransactions and DescribeTransactions."""
        return _TITLES[self]

    @property
    def resting(self) -> bool:
        """Whether no transaction is open, so the transactional id may start a transaction or expire."""
        return self in _RESTING

    @property
    def preparing(self) -> bool:
        """Whether the outcome is decided and on disk, and markers are being written."""
        return self is TransactionState.PREPARE_COMMIT or self is TransactionState.PREPARE_ABORT


_TITLES = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATE_BY_TITLE = {title: state for state, title in _TITLES.items()}

_RESTING = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

# KIP-890 lets a producer abort a transaction to which nothing was ever added; hence PREPARE_ABORT follows resting
# states too.
PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _RESTING,
    TransactionState.ONGOING: _RESTING | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _RESTING | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _RESTING,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}


class InvalidTransition(Exception):
    """A step outside of the table `PREVIOUS`."""

    def __init__(self, before: TransactionState, after: TransactionState) -> None:
        super().__init__(f"no transaction goes from {before.name} to {after.name}")


class TransactionMetadata(NamedTuple):
    """The last record of a transactional id. (Kafka: TransactionMetadata)

    previous_producer_id: The producer id before the last step.
    next_producer_id: The producer id that replaces an exhausted one at completion (KIP-890).
    client_version: The transaction version that the producer spoke at the last step, 0 (classic) or 2 (KIP-890).
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    partitions: frozenset[PartitionKey] = frozenset()
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0
    last_producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def epoch_exhausted(self) -> bool:
        """Whether no client may get another epoch of the producer id."""
        return is_exhausted(self.producer_epoch)

    # Steps: the caller has found the step allowed

    @classmethod
    def created(cls, producer_id: int, timeout_ms: int, now: int) -> Self:
        """Return an unused transactional id; the first InitProducerId takes the epoch to 0."""
        return cls(producer_id, NO_PRODUCER_EPOCH, timeout_ms, TransactionState.EMPTY, now)

    def initialised(self, timeout_ms: int, epoch: int, last_epoch: int, now: int) -> Self:
        """Hand the transactional id to a producer under the same producer id."""
        assert 0 <= epoch <= LAST_CLIENT_EPOCH
        return self._step(
            TransactionState.EMPTY,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            last_update_ms=now,
        )

    def rotated(self, producer_id: int, timeout_ms: int, last_epoch: int, now: int) -> Self:
        """Hand the transactional id to a producer under a new producer id, since the old id has no epoch left."""
        return self.initialised(timeout_ms, 0, last_epoch, now)._replace(producer_id=producer_id)

    def with_partitions(self, partitions: frozenset[PartitionKey], client_version: int, now: int) -> Self:
        """Add partitions; the first addition opens the transaction."""
        return self._step(
            TransactionState.ONGOING,
            partitions=self.partitions | partitions,
            start_ms=now if self.state.resting else self.start_ms,
            last_update_ms=now,
            client_version=client_version,
        )

    def prepared(self, commit: bool, client_version: int, next_producer_id: int, now: int) -> Self:
        """Decide the outcome. KIP-890 bumps the epoch, so no request of the old epoch can follow the markers."""
        bump = client_version >= 2
        # Only fencing finds the greatest epoch, which can't be bumped: the transaction must be aborted all the same.
        epoch = min(self.producer_epoch + 1, MAX_EPOCH) if bump else self.producer_epoch
        return self._step(
            TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            producer_epoch=epoch,
            last_producer_epoch=self.producer_epoch if bump else self.last_producer_epoch,
            next_producer_id=next_producer_id,
            start_ms=now if self.state.resting else self.start_ms,
            last_update_ms=now,
            client_version=client_version,
        )

    def fenced(self) -> Self:
        """Outdate the epoch of the open transaction: the classic protocol fences the producer by a bump."""
        return self._replace(
            producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH), last_producer_epoch=NO_PRODUCER_EPOCH
        )

    def completed(self, now: int) -> Self:
        """End the transaction once all markers are written. After an epoch overflow the next producer id takes over."""
        commit = self.state is TransactionState.PREPARE_COMMIT
        rotate = self.client_version >= 2 and self.next_producer_id != NO_PRODUCER_ID
        return self._step(
            TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT,
            producer_id=self.next_producer_id if rotate else self.producer_id,
            producer_epoch=0 if rotate else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            last_update_ms=now,
        )

    def _step(self, state: TransactionState, **changes: Any) -> Self:
        if self.state not in PREVIOUS[state]:
            raise InvalidTransition(self.state, state)
        return self._replace(state=state, previous_producer_id=self.producer_id, **changes)


def is_exhausted(producer_epoch: int) -> bool:
    """Return whether `producer_epoch` is the last epoch for clients."""
    return producer_epoch >= LAST_CLIENT_EPOCH


# Records


def transaction_record(
    transactional_id: str, transaction: TransactionMetadata | None, version: int
) -> CoordinatorRecord:
    """Return the record of a transaction, or the tombstone for the transactional id.

    Args:
        version: 1 holds tagged fields, and is used once `transaction.version` is 1 or more (KIP-915).
    """
    key = TransactionLogKey(transactional_id=transactional_id)
    if transaction is None:
        return CoordinatorRecord(key, None)
    partitions = [PartitionsSchema(*topic) for topic in by_topic(sorted(transaction.partitions)).items()]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id if version else NO_PRODUCER_ID,
        next_producer_id=transaction.next_producer_id if version else NO_PRODUCER_ID,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version if version else 0,
    )
    return CoordinatorRecord(key, value, version)


def read_transaction(value: TransactionLogValue) -> TransactionMetadata:
    """Return the transaction of a record's value. Raises ValueError for an unknown state."""
    return TransactionMetadata(
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


# Errors that requests get: None lets the request go on, NONE repeats the answer of a request that was served before.
#
# The order of the checks is Kafka's: by the error, clients tell a retry from a fencing. While a transaction moves to
# its next state or its markers are written, the producer has to ask again (CONCURRENT_TRANSACTIONS). The coordinator
# answers most such requests before it asks here.

_COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


def check_init(transaction: TransactionMetadata, expected: tuple[int, int] | None) -> ErrorCode | None:
    """Check an InitProducerId. expected: the producer id and epoch that a client wants to keep (KIP-360)."""
    if expected is None or expected[0] == transaction.producer_id:
        return None
    if transaction.producer_epoch == NO_PRODUCER_EPOCH:
        return None  # just created: a client that goes on after UNKNOWN_PRODUCER_ID
    if expected[0] == transaction.previous_producer_id and is_exhausted(expected[1]):
        return None  # the client has missed the answer with its new producer id
    return ErrorCode.PRODUCER_FENCED


def next_epoch(transaction: TransactionMetadata, expected_epoch: int | None) -> tuple[int, int] | ErrorCode:
    """Return the epoch that InitProducerId hands out and the `last_producer_epoch` to keep, or the error."""
    current = transaction.producer_epoch
    if expected_epoch is None:
        return current + 1, NO_PRODUCER_EPOCH
    if current == NO_PRODUCER_EPOCH or expected_epoch == current:
        return current + 1, current
    if expected_epoch == transaction.last_producer_epoch:
        return current, expected_epoch  # a retry; after a takeover the last epoch would be -1
    return ErrorCode.PRODUCER_FENCED


def check_add(
    transaction: TransactionMetadata, producer_id: int, producer_epoch: int, partitions: frozenset[PartitionKey]
) -> ErrorCode | None:
    """Check the addition of partitions, or of a group's offsets, to the transaction."""
    error = _check_producer(transaction, producer_id, producer_epoch)
    if error is not None:
        return error
    if transaction.state is TransactionState.ONGOING and partitions <= transaction.partitions:
        return ErrorCode.NONE
    return None


def check_partition(
    transaction: TransactionMetadata, producer_id: int, producer_epoch: int, partition: PartitionKey
) -> ErrorCode:
    """Check whether a partition is part of the transaction (KIP-890)."""
    error = _check_producer(transaction, producer_id, producer_epoch)
    if error is not None:
        return error
    return ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE


def _check_producer(transaction: TransactionMetadata, producer_id: int, producer_epoch: int) -> ErrorCode | None:
    if transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.state.preparing else None


def check_classic_end(
    transaction: TransactionMetadata, producer_id: int, producer_epoch: int, commit: bool, *, moving: bool
) -> ErrorCode | None:
    """Check an EndTxn of the classic protocol: the epoch stays, so the state alone tells a retry.

    A fenced producer gets PRODUCER_FENCED also while the transaction is `moving` to its next state.
    """
    if transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if moving:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is TransactionState.ONGOING:
        return None
    return ErrorCode.NONE if transaction.state is _COMPLETE[commit] else ErrorCode.INVALID_TXN_STATE


def check_bumping_end(
    transaction: TransactionMetadata, producer_id: int, producer_epoch: int, commit: bool
) -> ErrorCode | None:
    """Check an EndTxn with a bump of the epoch (KIP-890): the present epoch ends a transaction, the last is a retry."""
    overflowed = (
        producer_id == transaction.previous_producer_id
        and producer_epoch == LAST_CLIENT_EPOCH
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != producer_id and not overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    retry = overflowed or transaction.producer_epoch == producer_epoch + 1
    is_served = retry and transaction.state not in (TransactionState.ONGOING, TransactionState.EMPTY)
    if not is_served and producer_epoch != transaction.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is TransactionState.ONGOING:
        return None
    if retry:
        return ErrorCode.NONE if transaction.state is _COMPLETE[commit] else ErrorCode.INVALID_TXN_STATE
    # A transaction without partitions: only the client knows of it, and may abort it.
    return ErrorCode.INVALID_TXN_STATE if commit else None
