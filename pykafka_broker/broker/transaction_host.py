"""The transaction coordinator's host: its log, the markers in other logs, and what handlers ask.

Rule: a decision is appended to `__transaction_state`, replayed, and answered when it is committed. Right after a
transaction's outcome is committed its markers are written, and when these are its end is recorded: each step waits for
the one before it, or a power cut could leave a transaction committed in one partition and not in another. A crash in
between is made good when the log is loaded again. Nor is anything written for a producer before it is committed that
the partition takes part. A producer that was fenced in a partition behind the coordinator's back leaves its transaction
undecided there, as with Kafka, until the next load.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.coordinator_log import append_records, commit_of, when_all
from pykafka_broker.broker.purgatory import Uncommitted
from pykafka_broker.broker.transaction_markers import write_marker
from pykafka_broker.broker.transaction_shards import TransactionShards
from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.coordinators.effects import Effects
from pykafka_broker.coordinators.transactions import (
    Markers,
    ProducerReply,
    TopicPartition,
    Transaction,
    TransactionCoordinator,
)
from pykafka_broker.coordinators.transactions.transaction import decode_key
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker
    from pykafka_broker.log.partition_log import PartitionLog

log = logging.getLogger(__name__)

MARKER_RETRY_MS = 1_000
IMPLICIT_ADD_FROM_PRODUCE = 12  # KIP-890: producing is joining
ABORTABLE_FROM_PRODUCE = 11
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
# Older producers don't retry these as they should; this one they do, and without asking for metadata.
_NOT_ENOUGH_REPLICAS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def refused_join(error: ErrorCode, implicit: bool, knows_abortable: bool) -> ApiError:
    """What a producer is told whose records or offsets don't belong to its transaction, in words that its version
    knows.
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)  # the only name for it on this path
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ApiError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if error in _NOT_ENOUGH_REPLICAS or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not implicit):
        reason = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    return ApiError(error)


def _call_with(error: OSError, waiter: Callable[[OSError | None], None]) -> None:
    waiter(error)


class TransactionHost:
    """All transactional ids that this node coordinates."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._shards = TransactionShards(broker, self._on_loaded)
        self._written: dict[str, set[TopicPartition]] = {}  # of transactions whose markers are written in part
        self._given_up: set[str] = set()  # fenced behind the coordinator's back
        self._ending: set[str] = set()  # one step of their end waits for the one before it
        self._unsynced: dict[str, tuple[PartitionLog, int]] = {}  # where their newest records end, if not committed
        self._due_ms: int | None = None

    def start(self, now: int) -> None:
        """Load what was left, and write the markers that a crash has kept from being written."""
        self._shards.start(now)

    def _on_loaded(self, partition: int, coordinator: TransactionCoordinator, now: int) -> None:
        self._write_markers(partition, coordinator, now)
        self._await(coordinator.next_deadline())

    # -- what there is

    def transactions(self, now: int) -> list[tuple[str, Transaction]]:
        """Every transactional id; ApiError while they are being loaded."""
        return [item for coordinator in self._shards.all(now) for item in coordinator.transactions.items()]

    def transaction(self, transactional_id: str, now: int) -> Transaction | None:
        """One of them; ApiError if this node can't say."""
        return self._shards.find(transactional_id, now)[1].transactions.get(transactional_id)

    def unwritten(self, transactional_id: str, transaction: Transaction) -> frozenset[TopicPartition]:
        """The partitions that take part and have no marker yet."""
        return transaction.partitions - self._written.get(transactional_id, set())

    # -- what handlers ask

    def new_producer_id(self) -> int:
        """One that nobody has had."""
        return self._broker.metadata.producer_ids.next_id()

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None, now: int, **two_phase: bool
    ) -> ProducerReply:
        """InitProducerId with a transactional id. ApiError if this node can't say."""
        partition, coordinator = self._shards.find(transactional_id, now)
        effects = coordinator.init_producer_id(transactional_id, timeout_ms, expected, now, **two_phase)
        reply: ProducerReply = self._run(partition, coordinator, effects, now)
        return reply

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        client_version: int,
        now: int,
    ) -> ErrorCode:
        """Let partitions take part in a transaction."""
        partition, coordinator = self._shards.find(transactional_id, now)
        effects = coordinator.add_partitions(
            transactional_id, producer_id, producer_epoch, frozenset(partitions), client_version, now
        )
        reply: ErrorCode = self._run(partition, coordinator, effects, now)
        return reply

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        now: int,
    ) -> dict[TopicPartition, ErrorCode]:
        """Do these partitions take part? Nothing changes."""
        coordinator = self._shards.find(transactional_id, now)[1]
        return coordinator.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)

    def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, commit: bool, client_version: int, now: int
    ) -> ProducerReply:
        """Commit or abort, markers included."""
        partition, coordinator = self._shards.find(transactional_id, now)
        effects = coordinator.end_transaction(
            transactional_id, producer_id, producer_epoch, commit, client_version, now
        )
        reply: ProducerReply = self._run(partition, coordinator, effects, now)
        return reply

    def verify_produce(
        self,
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        version: int,
        now: int,
        base_sequence: int = 0,
    ) -> bool:
        """May this producer write transactional records to this partition? ApiError if not (KIP-890).

        A new producer joins by producing; of an older one the partition must have been added before. While a
        transaction of that epoch is open in the partition nobody needs to be asked.
        """
        producers = self._broker.partition_log(topic, partition).producers
        if producers.has_open_transaction(producer_id, producer_epoch):
            return True
        implicit = version >= IMPLICIT_ADD_FROM_PRODUCE
        if not implicit and not self._broker.config.transaction_partition_verification_enable:
            return True
        is_first = producers.is_first_tried(producer_id, producer_epoch, base_sequence)
        error = self.join(transactional_id or "", producer_id, producer_epoch, (topic, partition), implicit, now)
        if error is ErrorCode.NONE:
            if not is_first or (implicit and base_sequence and producer_id not in producers.entries):
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Producer {producer_id} can't begin with sequence number {base_sequence} in {topic}-{partition}: "
                    "a lower one was tried before, or it is new and has to begin with 0",
                )
            return True
        raise refused_join(error, implicit, version >= ABORTABLE_FROM_PRODUCE)

    def join(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: TopicPartition,
        implicit: bool,
        now: int,
    ) -> ErrorCode:
        """Add a partition (KIP-890), or look whether it was added. Uncommitted if that is not on disk yet."""
        try:
            if implicit:
                joined = self.add_partitions(transactional_id, producer_id, producer_epoch, [partition], 2, now)
                self._require_committed(transactional_id, now)
                return joined
            verdicts = self.verify_partitions(transactional_id, producer_id, producer_epoch, [partition], now)
        except ApiError as error:
            return error.code
        return verdicts[partition]

    def _require_committed(self, transactional_id: str, now: int) -> None:
        found = self._unsynced.get(transactional_id)
        if found is None:
            return
        log, end = found
        if log.high_watermark < end:
            raise Uncommitted(partial(self._broker.logs.when_committed, log, end, now))
        del self._unsynced[transactional_id]

    # -- decisions and markers

    def _run(self, partition: int, coordinator: TransactionCoordinator, effects: Effects, now: int) -> Any:
        if effects.records:
            self._commit(partition, coordinator, effects, now)
            self._write_markers(partition, coordinator, now)
            self._await(coordinator.next_deadline())
        return effects.reply

    def _commit(self, partition: int, coordinator: TransactionCoordinator, effects: Effects, now: int) -> None:
        try:
            append_records(self._broker, TRANSACTION_STATE, partition, effects.records, now)
        except ApiError:
            coordinator.discard(effects)
            raise
        state_log = self._broker.partition_log(TRANSACTION_STATE, partition)
        held = state_log.high_watermark < state_log.log_end_offset
        for key_value in effects.records:
            coordinator.replay(key_value.key, key_value.value)
            name = decode_key(key_value.key) or ""
            if held:
                self._unsynced[name] = state_log, state_log.log_end_offset
            else:
                self._unsynced.pop(name, None)

    def _write_markers(self, partition: int, coordinator: TransactionCoordinator, now: int) -> None:
        """End the transactions whose outcome is known."""
        for markers in coordinator.markers_due():
            name = markers.transactional_id
            if name not in self._given_up and name not in self._ending:
                self._ending.add(name)
                then = partial(self._write_and_end, partition, coordinator, markers, now)
                self._when_committed([(TRANSACTION_STATE, partition)], name, now, then)

    def _write_and_end(self, partition: int, coordinator: TransactionCoordinator, markers: Markers, now: int) -> None:
        name = markers.transactional_id
        if self._shards.speaks(partition, coordinator) and self._write_all(markers, now):
            then = partial(self._record_end, partition, coordinator, name, now)
            self._when_committed(markers.partitions, name, now, then)
        else:
            self._ending.discard(name)

    def _record_end(self, partition: int, coordinator: TransactionCoordinator, name: str, now: int) -> None:
        self._ending.discard(name)
        self._written.pop(name, None)
        if not self._shards.speaks(partition, coordinator):
            return
        try:
            self._commit(partition, coordinator, coordinator.markers_written(name, now), now)
        except ApiError as error:
            log.warning("the end of transaction %s can't be recorded: %s", name, error)
            self._await(now + MARKER_RETRY_MS)

    def _when_committed(
        self, partitions: Iterable[TopicPartition], name: str, now: int, then: Callable[[], None]
    ) -> None:
        """Go on when all that is in these logs by now is committed, at once if it is; else try again later."""
        commits = []
        for topic, number in partitions:
            try:
                commit = commit_of(self._broker, self._broker.partition_log(topic, number), now)
            except ApiError as error:
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue  # deleted since
                commit = partial(_call_with, OSError(str(error)))
            if commit is not None:
                commits.append(commit)

        def committed(error: OSError | None) -> None:
            if error is None:
                then()
                return
            log.warning("the end of transaction %s can't be synced: %s", name, error)
            self._ending.discard(name)
            self._written.pop(name, None)  # which of the markers are lost is not known
            self._await(now + MARKER_RETRY_MS)

        when_all(commits, committed)

    def _write_all(self, markers: Markers, now: int) -> bool:
        """Write what is missing; False if something still is. A partition that can't be written to does not keep the
        others undecided.
        """
        done, refused = self._written.setdefault(markers.transactional_id, set()), []
        for topic, partition in sorted(markers.partitions - done):
            try:
                write_marker(self._broker, topic, partition, markers, now)
            except ApiError as error:
                if error.code in _FENCED:
                    log.warning("transaction %s stays undecided: %s", markers.transactional_id, error)
                    self._given_up.add(markers.transactional_id)
                    continue
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted since: no marker is needed
                    refused.append(f"{topic}-{partition}: {error}")
                    continue
            done.add((topic, partition))
        if refused:
            log.warning("no marker of %s in %d partitions, as %s", markers.transactional_id, len(refused), refused[0])
            self._await(now + MARKER_RETRY_MS)
        return not refused and markers.transactional_id not in self._given_up

    # -- time

    def next_deadline(self) -> int | None:
        """When a transaction or a transactional id may be due, or a marker that was refused is tried again; at once
        while there is something to load.
        """
        return 0 if self._shards.loading else self._due_ms

    def _await(self, due: int | None) -> None:
        """Something is due then; what is due earlier stays. Being woken for nothing is harmless."""
        if due is not None and (self._due_ms is None or due < self._due_ms):
            self._due_ms = due

    def on_deadline(self, now: int) -> None:
        """Do what is due, and try markers again that were refused."""
        self._shards.read_on()
        if self._due_ms is None or now < self._due_ms:
            return
        self._due_ms = None
        for partition, coordinator in self._shards.loaded():
            try:
                self._run(partition, coordinator, coordinator.on_deadline(now), now)
            except ApiError as error:
                log.warning("nothing of what is due in %s-%d is recorded: %s", TRANSACTION_STATE, partition, error)
            self._write_markers(partition, coordinator, now)
            self._await(coordinator.next_deadline())
