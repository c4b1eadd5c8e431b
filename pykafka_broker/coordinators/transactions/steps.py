"""The steps of a transaction, each from one value to the next.

Rule: nothing is decided here; whoever calls has found the step allowed. A step that the table of states does not have
raises.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.coordinators.transactions.state import PREVIOUS, InvalidTransition, TransactionState
from pykafka_broker.coordinators.transactions.transaction import (
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TopicPartition,
    Transaction,
)


def _step(transaction: Transaction, state: TransactionState, **changes: Any) -> Transaction:
    if transaction.state not in PREVIOUS[state]:
        raise InvalidTransition(transaction.state, state)
    return transaction._replace(state=state, previous_producer_id=transaction.producer_id, **changes)


def created(producer_id: int, timeout_ms: int, now: int) -> Transaction:
    """A transactional id that nobody has used; its first InitProducerId takes it to epoch 0."""
    return Transaction(producer_id, NO_PRODUCER_EPOCH, timeout_ms, TransactionState.EMPTY, now)


def initialised(transaction: Transaction, timeout_ms: int, epoch: int, last_epoch: int, now: int) -> Transaction:
    """A producer has taken the transactional id over, under the same producer id."""
    assert 0 <= epoch <= LAST_CLIENT_EPOCH
    return _step(
        transaction,
        TransactionState.EMPTY,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now,
    )


def rotated(transaction: Transaction, producer_id: int, timeout_ms: int, last_epoch: int, now: int) -> Transaction:
    """As `initialised`, under a new producer id, because the epochs of the old one are used up."""
    fresh = initialised(transaction, timeout_ms, 0, last_epoch, now)
    return fresh._replace(producer_id=producer_id)


def with_partitions(
    transaction: Transaction, partitions: frozenset[TopicPartition], client_version: int, now: int
) -> Transaction:
    """More partitions take part; the first ones open the transaction."""
    return _step(
        transaction,
        TransactionState.ONGOING,
        partitions=transaction.partitions | partitions,
        start_ms=now if transaction.state.resting else transaction.start_ms,
        last_update_ms=now,
        client_version=client_version,
    )


def prepared(
    transaction: Transaction, commit: bool, client_version: int, next_producer_id: int, now: int
) -> Transaction:
    """The outcome is decided. KIP-890 bumps the epoch here: nothing of the old one can come after the markers."""
    bump = client_version >= 2
    # An epoch that stands at the maximum is pinned: only fencing can find it there, and aborting must still be
    # possible.
    epoch = min(transaction.producer_epoch + 1, MAX_EPOCH) if bump else transaction.producer_epoch
    return _step(
        transaction,
        TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        producer_epoch=epoch,
        last_producer_epoch=transaction.producer_epoch if bump else transaction.last_producer_epoch,
        next_producer_id=next_producer_id,
        start_ms=now if transaction.state.resting else transaction.start_ms,
        last_update_ms=now,
        client_version=client_version,
    )


def fenced(transaction: Transaction) -> Transaction:
    """The classic protocol's fence: the epoch of whoever has the transaction open is outdated from here on."""
    return transaction._replace(
        producer_epoch=min(transaction.producer_epoch + 1, MAX_EPOCH), last_producer_epoch=NO_PRODUCER_EPOCH
    )


def completed(transaction: Transaction, now: int) -> Transaction:
    """All markers are written. After an epoch overflow the next producer id takes over."""
    commit = transaction.state is TransactionState.PREPARE_COMMIT
    rotate = transaction.client_version >= 2 and transaction.next_producer_id != NO_PRODUCER_ID
    return _step(
        transaction,
        TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT,
        producer_id=transaction.next_producer_id if rotate else transaction.producer_id,
        producer_epoch=0 if rotate else transaction.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=now,
    )
