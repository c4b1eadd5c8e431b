"""Which error a request about a transaction gets.

Rule: pure questions of one `Transaction` and the producer that asks; an answer of None means: go ahead. NONE means:
that was done already, say so again. The order of the checks is Kafka's, because clients tell a retry from a fencing by
it. While a transaction moves from one state to the next, its markers being written among that, whoever asks has to come
back (CONCURRENT_TRANSACTIONS); most are told before anything else is looked at, by the coordinator.
"""

from __future__ import annotations

from pykafka_broker.coordinators.transactions.state import TransactionState
from pykafka_broker.coordinators.transactions.transaction import (
    LAST_CLIENT_EPOCH,
    NO_PRODUCER_EPOCH,
    TopicPartition,
    Transaction,
    epoch_exhausted,
)
from pykafka_broker.protocol.errors import ErrorCode

_COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


def on_init(transaction: Transaction, expected: tuple[int, int] | None) -> ErrorCode | None:
    """InitProducerId. `expected` is the producer id and epoch that a client wants to go on with (KIP-360)."""
    if expected is not None and not _known_producer(transaction, *expected):
        return ErrorCode.PRODUCER_FENCED
    return None


def _known_producer(transaction: Transaction, producer_id: int, producer_epoch: int) -> bool:
    if transaction.producer_epoch == NO_PRODUCER_EPOCH:
        return True  # just created: a client that goes on after UNKNOWN_PRODUCER_ID
    if producer_id == transaction.producer_id:
        return True
    # It did not hear the answer that gave it a new producer id.
    return producer_id == transaction.previous_producer_id and epoch_exhausted(producer_epoch)


def next_epoch(transaction: Transaction, expected_epoch: int | None) -> tuple[int, int] | ErrorCode:
    """The epoch that InitProducerId hands out and the one to remember as the last, or the error."""
    current = transaction.producer_epoch
    if expected_epoch is None:
        return current + 1, NO_PRODUCER_EPOCH
    if current == NO_PRODUCER_EPOCH or expected_epoch == current:
        return current + 1, current
    if expected_epoch == transaction.last_producer_epoch:
        return current, expected_epoch  # a retry; nobody else took over, or the last epoch would be -1
    return ErrorCode.PRODUCER_FENCED


def on_add(
    transaction: Transaction, producer_id: int, producer_epoch: int, partitions: frozenset[TopicPartition]
) -> ErrorCode | None:
    """Add partitions or a group's offsets to the transaction."""
    error = _on_producer(transaction, producer_id, producer_epoch)
    if error is not None:
        return error
    if transaction.state is TransactionState.ONGOING and partitions <= transaction.partitions:
        return ErrorCode.NONE
    return None


def on_verify(transaction: Transaction, producer_id: int, producer_epoch: int, partition: TopicPartition) -> ErrorCode:
    """Is this partition part of the transaction? (KIP-890)"""
    error = _on_producer(transaction, producer_id, producer_epoch)
    if error is not None:
        return error
    return ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE


def _on_producer(transaction: Transaction, producer_id: int, producer_epoch: int) -> ErrorCode | None:
    if transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.state.preparing else None


def on_classic_end(
    transaction: Transaction, producer_id: int, producer_epoch: int, commit: bool, *, moving: bool
) -> ErrorCode | None:
    """EndTxn of the classic protocol: the epoch stays, so the state alone tells a retry. Who is fenced hears of it also
    while the transaction is `moving`."""
    if transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if moving:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is TransactionState.ONGOING:
        return None
    return ErrorCode.NONE if transaction.state is _COMPLETE[commit] else ErrorCode.INVALID_TXN_STATE


def on_bumping_end(transaction: Transaction, producer_id: int, producer_epoch: int, commit: bool) -> ErrorCode | None:
    """EndTxn that bumps the epoch (KIP-890): the same epoch means the next transaction, one lower a retry."""
    overflowed = (
        producer_id == transaction.previous_producer_id
        and producer_epoch == LAST_CLIENT_EPOCH
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != producer_id and not overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    retry = overflowed or transaction.producer_epoch == producer_epoch + 1
    if not _bumping_epoch_valid(transaction, producer_epoch, retry):
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is TransactionState.ONGOING:
        return None
    if retry:
        return ErrorCode.NONE if transaction.state is _COMPLETE[commit] else ErrorCode.INVALID_TXN_STATE
    # A transaction to which nothing was added: only the client knows of it, and may abort it.
    return ErrorCode.INVALID_TXN_STATE if commit else None


def _bumping_epoch_valid(transaction: Transaction, producer_epoch: int, retry: bool) -> bool:
    if retry and transaction.state not in (TransactionState.ONGOING, TransactionState.EMPTY):
        return True
    return producer_epoch == transaction.producer_epoch
