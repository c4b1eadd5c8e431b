"""The transaction coordinator's host: its log, and the requests of handlers.

Rule: a decision is appended to `__transaction_state`, replayed, and answered when it is committed. The markers of an
outcome are the business of `TransactionMarkerManager`; a crash in between is made good when the log is loaded again.
Nothing is written for a producer before it is committed that the partition takes part. A node that was away may not
know yet that another node is the coordinator, so it must not end a producer: where there are other replicas, the base
of a final verdict is committed anew before, which such a node can't do.

Imported by `Services` with the first transaction, so that a broker without transactions does not wait for the import.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pykafka_broker.broker.coordinators.add_partitions_to_txn import (
    IMPLICIT_ADD_FROM_PRODUCE,
    AddPartitionsToTxnManager,
    LocalVerdict,
    PartitionVerification,
)
from pykafka_broker.broker.coordinators.coordinator_log import (
    SENSELESS,
    SenselessRecord,
    partition_for,
    read_batches,
    replay_batch,
)
from pykafka_broker.broker.coordinators.shards import CoordinatorShards
from pykafka_broker.broker.coordinators.transaction_markers import (
    OffsetsDecided,
    PendingCompletion,
    TransactionMarkerManager,
)
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.waiting.future import DONE, Future, all_of
from pykafka_broker.clock import earliest_deadline
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.coordinators.record import CoordinatorResult, R, decode
from pykafka_broker.coordinators.transactions.coordinator import (
    ProducerReply,
    TransactionCoordinator,
    TransactionSettings,
)
from pykafka_broker.coordinators.transactions.transaction import TransactionMetadata
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored_keys import TRANSACTION_RECORDS
from pykafka_broker.records.record import BatchRecord

log = logging.getLogger(__name__)

TRANSACTION_VERSION = "transaction.version"  # the feature (KIP-890)
# By these errors a producer or its transaction ends: a deposed coordinator may not send them.
_FINAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class TransactionHost:
    """All transactional ids coordinated by the node: a coordinator for each shard."""

    def __init__(self, node: ServerNode, offsets_decided: OffsetsDecided) -> None:
        self._node = node
        self._settings = self._current_settings()
        self._coordinators: dict[int, TransactionCoordinator] = {}
        self._due_ms: int | None = None
        self.shards = CoordinatorShards(node, TRANSACTION_STATE, self, timeout_ms=self._commit_timeout_ms)
        self._markers = TransactionMarkerManager(node, self.shards, offsets_decided, self._record_end, self._await)
        self._verifications = AddPartitionsToTxnManager(node, self._other_coordinator, self._add_or_verify_here)
        node.subscribe(self._on_metadata)
        self.shards.start()

    # -- shards

    def load(self, index: int, partition: Partition) -> Iterator[int]:
        """Read batch after batch, and replay the newest record of each transactional id; yields the size of each batch
        and of each replayed record.
        """
        newest: dict[bytes, BatchRecord] = {}

        def note(record: BatchRecord) -> None:
            newest[record.key or b""] = record

        for header, batch in read_batches(partition.log):
            if not header.is_control:
                replay_batch(header, batch, note)
            yield header.size
        coordinator = self._coordinators[index] = self._new_coordinator(partition.leader_epoch)
        for key, record in newest.items():
            try:
                decoded = decode(key, record.value, TRANSACTION_RECORDS)
                if decoded is not None:
                    coordinator.replay(decoded)
            except SENSELESS as error:
                raise SenselessRecord(record.offset, error) from error
            yield len(key) + len(record.value or b"")
        coordinator.on_loaded(self._node.clock.now)

    def loaded(self, index: int, epoch: int) -> None:
        """Write the markers delayed by a crash or a change of leaders."""
        coordinator = self._coordinators.get(index)
        if coordinator is None:
            coordinator = self._coordinators[index] = self._new_coordinator(epoch)
        self._markers.write_due(index, coordinator)
        self._await(coordinator.next_deadline())

    def unload(self, indexes: Collection[int]) -> None:
        """Forget the transactions of shards on other nodes."""
        for index in indexes:
            coordinator = self._coordinators.pop(index, None)
            if coordinator is not None:
                self._markers.forget(coordinator.transactions)

    def _new_coordinator(self, epoch: int) -> TransactionCoordinator:
        next_id, now = self._node.producer_ids.next_id, self._node.clock.now
        return TransactionCoordinator(self._settings, next_id, epoch, now)

    def _on_metadata(self, delta: MetadataDelta) -> None:
        if TRANSACTION_VERSION in delta.features:
            self._settings = self._current_settings()
            for coordinator in self._coordinators.values():
                coordinator.settings = self._settings
        self.shards.follow(delta)
        if delta.changed_partitions or delta.deleted:
            self._markers.follow()
            self._verifications.forget_moved()

    def _current_settings(self) -> TransactionSettings:
        config = self._node.config
        return TransactionSettings(
            max_timeout_ms=config.transaction_max_timeout_ms,
            transactional_id_expiration_ms=config.transactional_id_expiration_ms,
            abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiration_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            two_phase_commit=config.transaction_two_phase_commit_enable,
            transaction_version=self._node.image.features.get(TRANSACTION_VERSION, 0),
        )

    # -- what there is

    def _find(self, transactional_id: str) -> tuple[int, TransactionCoordinator]:
        """Return the shard and the coordinator of a transactional id; ApiError if the node can't speak for the id."""
        index = self.shards.find(transactional_id)
        self.shards.partition(index)  # its log has to be there
        return index, self._coordinators[index]

    def committed(self, transactional_id: str, error: ErrorCode = ErrorCode.NONE) -> Future[None]:
        """Return the future of all known records and end markers of a transactional id being committed.

        CONCURRENT_TRANSACTIONS claims nothing, since its client comes back: where other brokers have to act before the
        records are committed, it is told at once.
        """
        markers = self._markers.committed(transactional_id)
        comes_back = error is ErrorCode.CONCURRENT_TRANSACTIONS
        if comes_back and self.shards.has_replicas(self.shards.index_of(transactional_id)):
            return markers
        return all_of(self.shards.committed(transactional_id), markers)

    def _commit_timeout_ms(self, transactional_ids: Iterable[str]) -> int:
        """Return how long answers wait for records to be committed: the time-out of the transaction, as in Kafka.

        The client may ask again after that (COORDINATOR_NOT_AVAILABLE).
        """
        longest = self._settings.max_timeout_ms
        known = [self._timeout_ms(name) for name in transactional_ids]
        return min(max(known, default=longest), longest)

    def _timeout_ms(self, transactional_id: str) -> int:
        coordinator = self._coordinators.get(self.shards.index_of(transactional_id))
        transaction = None if coordinator is None else coordinator.transactions.get(transactional_id)
        return self._settings.max_timeout_ms if transaction is None else transaction.timeout_ms

    def transactions(self) -> list[tuple[str, TransactionMetadata]]:
        """Return every transaction by id. Raises COORDINATOR_LOAD_IN_PROGRESS during a load."""
        if self.shards.loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [item for coordinator in self._coordinators.values() for item in coordinator.transactions.items()]

    def transaction(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the transaction of an id, if any; ApiError if the node can't speak for the id."""
        return self._find(transactional_id)[1].transactions.get(transactional_id)

    def unwritten(self, transactional_id: str, transaction: TransactionMetadata) -> frozenset[PartitionKey]:
        """Return the partitions still without a marker."""
        return transaction.partitions - self._markers.done(transactional_id)

    # -- what handlers ask

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None, now: int, **two_phase: bool
    ) -> ProducerReply:
        """Return a producer id and epoch for a transactional id. ApiError if the node can't speak for the id."""
        index, coordinator = self._find(transactional_id)
        effects = coordinator.init_producer_id(transactional_id, timeout_ms, expected, now, **two_phase)
        self.confirm_by_append(transactional_id, effects.reply.error)
        return self._run(index, coordinator, effects)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[PartitionKey],
        client_version: int,
        now: int,
    ) -> ErrorCode:
        """Let partitions take part in a transaction."""
        index, coordinator = self._find(transactional_id)
        effects = coordinator.add_partitions(
            transactional_id, producer_id, producer_epoch, frozenset(partitions), client_version, now
        )
        self.confirm_by_append(transactional_id, effects.reply)
        return self._run(index, coordinator, effects)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[PartitionKey]
    ) -> dict[PartitionKey, ErrorCode]:
        """Return a verdict for each partition; `confirm_by_append` has to follow a final verdict."""
        coordinator = self._find(transactional_id)[1]
        return coordinator.verify_partitions(transactional_id, producer_id, producer_epoch, partitions)

    def confirm_by_append(self, transactional_id: str, *verdicts: ErrorCode | None) -> None:
        """Commit the known state anew for a final verdict, so that the answer waits for the commit.

        Only a node that is still the coordinator can commit. ApiError if the log refuses.
        """
        index, coordinator = self._find(transactional_id)
        if not _FINAL.isdisjoint(verdicts) and self.shards.has_replicas(index):
            self._commit(index, coordinator, coordinator.known_state(transactional_id))

    def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, commit: bool, client_version: int, now: int
    ) -> ProducerReply:
        """Commit or abort, markers included."""
        index, coordinator = self._find(transactional_id)
        effects = coordinator.end_transaction(
            transactional_id, producer_id, producer_epoch, commit, client_version, now
        )
        self.confirm_by_append(transactional_id, effects.reply.error)
        return self._run(index, coordinator, effects)

    def asks_produce(self, producer_id: int, producer_epoch: int, partition: Partition, version: int) -> bool:
        """Return whether transactional records need a verdict (`add_or_verify`) before the write (KIP-890).

        A new producer joins by producing; of an older one the partition must have been added before. While a
        transaction of that epoch is open in the partition nobody needs to be asked.
        """
        return not partition.log.producers.has_open_transaction(producer_id, producer_epoch) and (
            version >= IMPLICIT_ADD_FROM_PRODUCE or self._node.config.transaction_partition_verification_enable
        )

    def add_or_verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: Partition, implicit: bool
    ) -> LocalVerdict | PartitionVerification:
        """Add a partition (KIP-890), or verify an added partition, at the coordinator on any node."""
        asker = (transactional_id, producer_id, producer_epoch, not implicit)
        if self._other_coordinator(transactional_id) is not None:
            return self._verifications.ask(asker, partition)
        local = self._add_or_verify_here(asker, (partition.topic, partition.index))
        if local.verdict in _FINAL and not local.committed.succeeded:
            return self._verifications.settle(asker, partition, local)
        concurrent = local.verdict is ErrorCode.CONCURRENT_TRANSACTIONS
        if concurrent and implicit and self._markers.is_elsewhere(transactional_id):
            return self._verifications.ask_again(asker, partition)
        return local

    def _add_or_verify_here(self, asker: tuple[str, int, int, bool], where: PartitionKey) -> LocalVerdict:
        transactional_id, producer_id, producer_epoch, verify_only = asker
        if not self.shards.count and self._node.setup.leader_epoch >= 0:
            # A reset has ended the transaction: a producer that is told to try again would do so for ever.
            return LocalVerdict(ErrorCode.INVALID_PRODUCER_ID_MAPPING, DONE)
        try:
            if verify_only:
                verdict = self.verify_partitions(transactional_id, producer_id, producer_epoch, [where])[where]
                self.confirm_by_append(transactional_id, verdict)
                return LocalVerdict(verdict, self.shards.committed(transactional_id) if verdict in _FINAL else DONE)
            now = self._node.clock.now
            error = self.add_partitions(transactional_id, producer_id, producer_epoch, [where], 2, now)
            return LocalVerdict(error, self.shards.committed(transactional_id))
        except ApiError as error:
            return LocalVerdict(error.code, DONE)

    def _other_coordinator(self, transactional_id: str) -> int | None:
        """Return the remote coordinator of an id; None without a coordinator, or for a local coordinator."""
        count = self.shards.count
        return self._node.other_leader(TRANSACTION_STATE, partition_for(transactional_id, count)) if count else None

    # -- decisions and markers

    def _run(self, index: int, coordinator: TransactionCoordinator, effects: CoordinatorResult[R]) -> R:
        if effects.records:
            self._commit(index, coordinator, effects)
            self._markers.write_due(index, coordinator, [record.key.transactional_id for record in effects.records])
            self._await(coordinator.next_deadline())
        return effects.reply

    def _commit(self, index: int, coordinator: TransactionCoordinator, effects: CoordinatorResult[Any]) -> None:
        if not effects.records:
            return
        try:
            self.shards.append(index, effects.records, lambda record, offset: coordinator.replay(record))
        except Exception:
            coordinator.discard(effects)
            raise

    def _record_end(self, ending: PendingCompletion) -> None:
        effects = ending.coordinator.markers_written(ending.name, self._node.clock.now)
        self._commit(ending.index, ending.coordinator, effects)

    def connection_closed(self, connection: ConnectionContext) -> None:
        """Do nothing: a transaction outlives the connection, until the time-out."""

    # -- time

    def next_deadline(self) -> int | None:
        """Return when a transaction, a refused marker or the rest of a log is due."""
        due = earliest_deadline((self._verifications, self.shards))
        return self._due_ms if due is None else due if self._due_ms is None else min(due, self._due_ms)

    def _await(self, due: int | None) -> None:
        """Note a deadline; an earlier deadline stays. A wake-up for nothing is harmless."""
        if due is not None and (self._due_ms is None or due < self._due_ms):
            self._due_ms = due

    def on_deadline(self, now: int) -> None:
        """Expire transactions, and try refused markers again."""
        self.shards.on_deadline(now)
        self._verifications.on_deadline(now)
        if self._due_ms is None or now < self._due_ms:
            return
        self._due_ms = None
        for index, coordinator in list(self._coordinators.items()):
            if not self.shards.is_ready(index):
                continue
            refusals: dict[str, None] = {}
            for effects in _apart(coordinator.on_deadline(now)):
                try:
                    self._commit(index, coordinator, effects)
                except ApiError as error:
                    refusals[str(error)] = None
            for refusal in refusals:
                log.warning("not everything that is due in %s-%d is recorded: %s", TRANSACTION_STATE, index, refusal)
            self._markers.write_due(index, coordinator)
            self._await(coordinator.next_deadline())


def _apart(effects: CoordinatorResult[None]) -> Iterator[CoordinatorResult[None]]:
    """Yield aborts one by one, since together they may exceed a batch; then all tombstones, which the log divides."""
    for record in effects.records:
        if record.value is not None:
            yield CoordinatorResult(None, [record])
    yield CoordinatorResult(None, [record for record in effects.records if record.value is None])
