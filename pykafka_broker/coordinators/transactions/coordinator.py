"""The transaction coordinator for one partition of `__transaction_state`.

Rule: only `replay` changes transactions. A call decides, and leaves the new value in `_pending` until its record is
replayed; a transactional id with a pending value is answered with CONCURRENT_TRANSACTIONS. Once a record says
PREPARE_COMMIT or PREPARE_ABORT, its markers are due until `markers_written` is called: also after a restart, since the
record alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from pykafka_broker.coordinators.record import CoordinatorRecord, CoordinatorResult, R
from pykafka_broker.coordinators.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    STATE_BY_TITLE,
    TransactionMetadata,
    TransactionState,
    check_add,
    check_bumping_end,
    check_classic_end,
    check_init,
    check_partition,
    next_epoch,
    read_transaction,
    transaction_record,
)
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode

_ABORTED_AT_ONCE = 20  # of each partition of the log, in a turn of the loop
_FORGOTTEN_AT_ONCE = 100


class TransactionSettings(NamedTuple):
    """The settings of transactions in the broker's configuration and finalized features.

    transaction_version: The finalized feature: 0 writes records of version 0; 2 bumps the epoch also when the broker
        itself aborts (KIP-890).
    """

    max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expiration_interval_ms: int = 3_600_000
    two_phase_commit: bool = False
    transaction_version: int = 2


class ProducerReply(NamedTuple):
    """The answer to InitProducerId and EndTxn."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class Markers(NamedTuple):
    """Control batches for the partitions of a transaction; `markers_written` follows."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: frozenset[PartitionKey]
    coordinator_epoch: int
    transaction_version: int


class TransactionCoordinator:
    """All transactional ids of a partition of `__transaction_state`.

    Calls with records to write return a `CoordinatorResult`.
    """

    def __init__(
        self, settings: TransactionSettings, new_producer_id: Callable[[], int], coordinator_epoch: int, now: int
    ) -> None:
        self.settings = settings
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, TransactionMetadata] = {}
        self._new_producer_id = new_producer_id
        self._pending: dict[str, TransactionMetadata | None] = {}
        self._ongoing: set[str] = set()
        self._preparing: dict[str, None] = {}  # in the order of the decisions
        self._earliest_timeout: int | None = None  # no ongoing transaction times out before this
        self._abort_check_ms = now + settings.abort_interval_ms
        self._expiration_check_ms = now + settings.expiration_interval_ms
        # Found by the last check and still to be looked at, first ones last.
        self._looked_ms = now
        self._timed_out: list[str] = []
        self._unused: list[str] = []

    # Hard state

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record of `__transaction_state`, right after the append and at a load alike.

        A pending value keeps what its record can't hold, such as the last epoch. (Kafka:
        TransactionMetadata.completeTransitionTo)
        """
        transactional_id = record.key.transactional_id
        if transactional_id in self._pending:
            transaction = self._pending.pop(transactional_id)
        else:
            transaction = None if record.value is None else read_transaction(record.value)
        self._take_over(transactional_id, transaction)

    def on_loaded(self, now: int) -> None:
        """Date transactions from the future now: else no timeout would come."""
        for transactional_id, transaction in list(self.transactions.items()):
            if max(transaction.start_ms, transaction.last_update_ms) > now:
                start_ms, last_update_ms = min(transaction.start_ms, now), min(transaction.last_update_ms, now)
                dated = transaction._replace(start_ms=start_ms, last_update_ms=last_update_ms)
                self._take_over(transactional_id, dated)

    def _take_over(self, transactional_id: str, transaction: TransactionMetadata | None) -> None:
        self._ongoing.discard(transactional_id)
        self._preparing.pop(transactional_id, None)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = transaction
        if transaction.state.preparing:
            self._preparing[transactional_id] = None
        elif transaction.state is TransactionState.ONGOING:
            self._ongoing.add(transactional_id)
            self._watch(transaction)

    def _watch(self, transaction: TransactionMetadata) -> None:
        if transaction.timeout_ms != NO_TIMEOUT_MS:
            timeout = _times_out_ms(transaction)
            if self._earliest_timeout is None or timeout < self._earliest_timeout:
                self._earliest_timeout = timeout

    def discard(self, result: CoordinatorResult[Any]) -> None:
        """Forget decisions after a failed append: nothing has happened, and timeouts are to be looked at again."""
        for decided in result.records:
            transactional_id = decided.key.transactional_id
            self._pending.pop(transactional_id, None)
            if transactional_id in self._ongoing:
                self._watch(self.transactions[transactional_id])

    def _decide(self, transactional_id: str, transaction: TransactionMetadata, reply: R) -> CoordinatorResult[R]:
        result = CoordinatorResult(reply)
        self._add(result, transactional_id, transaction)
        return result

    def _add(
        self, result: CoordinatorResult[Any], transactional_id: str, transaction: TransactionMetadata | None
    ) -> None:
        self._pending[transactional_id] = transaction
        version = 1 if self.settings.transaction_version else 0
        result.records.append(transaction_record(transactional_id, transaction, version))

    def known_state(self, transactional_id: str) -> CoordinatorResult[None]:
        """Return the record of the known state, a tombstone for an unknown transactional id.

        The record changes nothing, but only the leader of the log can have it committed. No reply.
        """
        result: CoordinatorResult[None] = CoordinatorResult()
        if transactional_id not in self._pending:
            self._add(result, transactional_id, self.transactions.get(transactional_id))
        return result

    def _is_pending(self, transactional_id: str) -> bool:
        """Return whether a decision is not on disk yet, or an outcome not in all partitions. (Kafka: pendingState)"""
        return transactional_id in self._pending or transactional_id in self._preparing

    # InitProducerId

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        now: int,
        *,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> CoordinatorResult[ProducerReply]:
        """Hand a transactional id to a producer. Reply: `ProducerReply`.

        An open transaction is aborted under a bumped epoch first, and the caller gets CONCURRENT_TRANSACTIONS. Kafka
        knows the two-phase fields of KIP-939, but does not keep a prepared transaction yet.

        Args:
            expected: The producer id and epoch that a client wants to keep (KIP-360).
        """
        error = self._init_refused(transactional_id, timeout_ms, two_phase, keep_prepared)
        if error is None and self._is_pending(transactional_id):
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if error is not None:
            return CoordinatorResult(ProducerReply(error))
        if two_phase:
            timeout_ms = NO_TIMEOUT_MS
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            transaction = TransactionMetadata.created(self._new_producer_id(), timeout_ms, now)
        error = check_init(transaction, expected)
        if error is not None:
            return CoordinatorResult(ProducerReply(error))
        if transaction.state is TransactionState.ONGOING:
            aborting = self._fence_and_abort(transaction, now)
            return self._decide(transactional_id, aborting, ProducerReply(ErrorCode.CONCURRENT_TRANSACTIONS))
        return self._hand_out(transactional_id, transaction, timeout_ms, expected, now)

    def _init_refused(
        self, transactional_id: str, timeout_ms: int, two_phase: bool, keep_prepared: bool
    ) -> ErrorCode | None:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if two_phase and not self.settings.two_phase_commit:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if keep_prepared:
            return ErrorCode.UNSUPPORTED_VERSION
        if not two_phase and not 0 < timeout_ms <= self.settings.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return None

    def _hand_out(
        self,
        transactional_id: str,
        transaction: TransactionMetadata,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        now: int,
    ) -> CoordinatorResult[ProducerReply]:
        expected_epoch = None if expected is None else expected[1]
        if transaction.epoch_exhausted and expected_epoch in (None, transaction.producer_epoch):
            last = NO_PRODUCER_EPOCH if expected is None else transaction.producer_epoch
            fresh = transaction.rotated(self._new_producer_id(), timeout_ms, last, now)
        else:
            epochs = next_epoch(transaction, expected_epoch)
            if isinstance(epochs, ErrorCode):
                return CoordinatorResult(ProducerReply(epochs))
            fresh = transaction.initialised(timeout_ms, *epochs, now)
        reply = ProducerReply(ErrorCode.NONE, fresh.producer_id, fresh.producer_epoch)
        return self._decide(transactional_id, fresh, reply)

    def _fence_and_abort(self, transaction: TransactionMetadata, now: int) -> TransactionMetadata:
        """Abort on the broker's own account: a bump of the epoch fences the producer of the open transaction."""
        version = self.settings.transaction_version
        if version < 2:
            return transaction.fenced().prepared(False, 0, NO_PRODUCER_ID, now)
        return transaction.prepared(False, version, self._successor(transaction), now)

    def _successor(self, transaction: TransactionMetadata) -> int:
        return self._new_producer_id() if transaction.epoch_exhausted else NO_PRODUCER_ID

    # Partitions of a transaction

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[PartitionKey],
        client_version: int,
        now: int,
    ) -> CoordinatorResult[ErrorCode]:
        """Add partitions to a transaction; the first addition opens the transaction. Reply: `ErrorCode`."""
        if not transactional_id:
            return CoordinatorResult(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return CoordinatorResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if self._is_pending(transactional_id):
            return CoordinatorResult(ErrorCode.CONCURRENT_TRANSACTIONS)
        error = check_add(transaction, producer_id, producer_epoch, partitions)
        if error is not None:
            return CoordinatorResult(error)
        grown = transaction.with_partitions(partitions, client_version, now)
        return self._decide(transactional_id, grown, ErrorCode.NONE)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[PartitionKey]
    ) -> dict[PartitionKey, ErrorCode]:
        """Return for each partition whether the transaction has the partition. Nothing changes."""
        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return {
            partition: check_partition(transaction, producer_id, producer_epoch, partition) for partition in partitions
        }

    # EndTxn

    def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, commit: bool, client_version: int, now: int
    ) -> CoordinatorResult[ProducerReply]:
        """Commit or abort. Reply: `ProducerReply` with the producer id and epoch of the next transaction (KIP-890)."""
        if not transactional_id:
            return CoordinatorResult(ProducerReply(ErrorCode.INVALID_REQUEST))
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return CoordinatorResult(ProducerReply(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        moving = self._is_pending(transactional_id)
        error: ErrorCode | None
        if client_version < 2:
            error = check_classic_end(transaction, producer_id, producer_epoch, commit, moving=moving)
        elif moving:
            # Also under the epoch of the next transaction: a producer may abort the next transaction before the current
            # one is over, and is not fenced (KAFKA-18464).
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        else:
            error = check_bumping_end(transaction, producer_id, producer_epoch, commit)
        if error is ErrorCode.NONE:
            return CoordinatorResult(ProducerReply(error, transaction.producer_id, transaction.producer_epoch))
        if error is not None:
            return CoordinatorResult(ProducerReply(error))
        successor = self._successor(transaction) if client_version >= 2 else NO_PRODUCER_ID
        preparing = transaction.prepared(commit, client_version, successor, now)
        after = preparing.completed(now)
        reply = ProducerReply(ErrorCode.NONE, after.producer_id, after.producer_epoch)
        return self._decide(transactional_id, preparing, reply)

    def markers_due(self, among: Iterable[str] | None = None) -> Iterator[Markers]:
        """Yield the markers of transactions with an outcome on disk, but not yet in all partitions.

        Args:
            among: the transactional ids to look at, None for all.
        """
        for transactional_id in list(self._preparing if among is None else among):
            if transactional_id not in self._preparing:
                continue
            transaction = self.transactions[transactional_id]
            yield Markers(
                transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.state is TransactionState.PREPARE_COMMIT,
                transaction.partitions,
                self.coordinator_epoch,
                transaction.client_version,
            )

    def markers_written(self, transactional_id: str, now: int) -> CoordinatorResult[None]:
        """End a transaction after all partitions have the marker. No reply."""
        return self._decide(transactional_id, self.transactions[transactional_id].completed(now), None)

    # Time

    def next_deadline(self) -> int | None:
        """Return when `on_deadline` has to be called next."""
        if self._timed_out or self._unused:
            return self._looked_ms
        if self._earliest_timeout is not None:
            timeout = max(self._earliest_timeout, self._abort_check_ms)
            return min(timeout, self._expiration_check_ms)
        return self._expiration_check_ms if self.transactions else None

    def on_deadline(self, now: int) -> CoordinatorResult[None]:
        """Abort transactions after the timeout, and forget transactional ids after a long time without use.

        Of very many, some at each call: until the last one is looked at, `next_deadline` is due.
        """
        result: CoordinatorResult[None] = CoordinatorResult()
        self._looked_ms = now
        if now >= self._abort_check_ms and self._earliest_timeout is not None:
            self._abort_check_ms = now + self.settings.abort_interval_ms
            self._earliest_timeout = None
            self._timed_out = [each for each in sorted(self._ongoing, reverse=True) if not self._is_in_time(each, now)]
        for transactional_id in _last_ones(self._timed_out, _ABORTED_AT_ONCE):
            self._abort_timed_out(result, transactional_id, now)
        if now >= self._expiration_check_ms:
            self._expiration_check_ms = now + self.settings.expiration_interval_ms
            self._unused = [each for each in self.transactions if self._is_unused(each, now)][::-1]
        for transactional_id in _last_ones(self._unused, _FORGOTTEN_AT_ONCE):
            if self._is_unused(transactional_id, now) and transactional_id not in self._pending:
                self._add(result, transactional_id, None)
        return result

    def _is_in_time(self, transactional_id: str, now: int) -> bool:
        """Return whether an open transaction may go on, and watch the transaction then."""
        transaction = self.transactions[transactional_id]
        if transaction.timeout_ms != NO_TIMEOUT_MS and _times_out_ms(transaction) <= now:
            return False
        self._watch(transaction)
        return True

    def _abort_timed_out(self, result: CoordinatorResult[Any], transactional_id: str, now: int) -> None:
        if transactional_id not in self._ongoing or self._is_in_time(transactional_id, now):
            return  # it has ended meanwhile
        transaction = self.transactions[transactional_id]
        if transactional_id not in self._pending:
            try:
                self._add(result, transactional_id, self._fence_and_abort(transaction, now))
                return
            except ApiError:  # the abort needs a producer id, and the controller has given none yet
                pass
        self._watch(transaction)

    def _is_unused(self, transactional_id: str, now: int) -> bool:
        transaction = self.transactions.get(transactional_id)
        oldest = now - self.settings.transactional_id_expiration_ms
        return transaction is not None and transaction.state.resting and transaction.last_update_ms <= oldest


def _last_ones(names: list[str], most: int) -> list[str]:
    """Take as many names from the end of a list."""
    taken = names[-most:][::-1]
    del names[-most:]
    return taken


def _times_out_ms(transaction: TransactionMetadata) -> int:
    """Return the first millisecond at which the transaction has been open for longer than the timeout."""
    return transaction.start_ms + transaction.timeout_ms + 1


# ListTransactions


class TransactionFilters(NamedTuple):
    """The filters of ListTransactions. An empty filter lets every transaction pass.

    state_titles: Each once; a title that does not exist is named in the answer and matches nothing.
    duration_ms: Below 0: any age (KIP-994).
    matches: None: any id (KIP-1152).
    """

    state_titles: Collection[str] = ()
    producer_ids: Collection[int] = ()
    duration_ms: int = -1
    matches: Callable[[str], bool] | None = None

    def unknown_titles(self) -> list[str]:
        """Return the titles of `state_titles` for which no state exists."""
        return [title for title in self.state_titles if title not in STATE_BY_TITLE]


def matching_transactions(
    transactions: Iterable[tuple[str, TransactionMetadata]], filters: TransactionFilters, now: int
) -> Iterator[tuple[str, TransactionMetadata]]:
    """Yield the transactions through all filters."""
    states = {STATE_BY_TITLE[title] for title in filters.state_titles if title in STATE_BY_TITLE}
    for transactional_id, transaction in transactions:
        if transaction.state is TransactionState.DEAD:
            continue
        if filters.producer_ids and transaction.producer_id not in filters.producer_ids:
            continue
        if filters.state_titles and transaction.state not in states:
            continue
        if filters.duration_ms >= 0 and now - transaction.start_ms <= filters.duration_ms:
            continue
        if filters.matches is not None and not filters.matches(transactional_id):
            continue
        yield transactional_id, transaction
