"""What a partition knows of its producers: epochs, the last five batches of each, open transactions.

Rule: `check` decides and changes nothing, `apply` records a batch that is in the log. A batch seen before is not an
error: its first append answers again (KIP-98, KIP-360). A producer that nothing is known of may start with any
sequence, since its records may have expired.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from pykafka_broker.errors import ApiError
from pykafka_broker.log.transaction_index import AbortedTransaction
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.control import EndTransactionMarker
from pykafka_broker.records.header import NO_SEQUENCE, BatchHeader

NO_EPOCH = -1
NO_OFFSET = -1
MAX_SEQUENCE = 0x7FFFFFFF
MAX_EPOCH = 0x7FFF
CACHED_BATCHES = 5


class BatchMetadata(NamedTuple):
    """A batch as the duplicate check remembers it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + MAX_SEQUENCE + 1


class ProducerEntry:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "markers",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=CACHED_BATCHES)
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = NO_OFFSET
        self.markers = 0  # that came since this was made

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch


class ProducerState:
    # `_open` and `ended` are in order of first offset, since offsets only rise
    __slots__ = ("_open", "_tried", "ended", "entries", "partition", "snapshot_offset")

    def __init__(self, partition: str) -> None:
        self.partition = partition  # for messages
        self.entries: dict[int, ProducerEntry] = {}
        self.snapshot_offset = 0  # up to where the newest snapshot on disk goes
        self._open: dict[int, int] = {}  # producer id -> first offset of its transaction
        # producer id -> epoch, lowest sequence, and whether the first try was to join; until one is in the log
        self._tried: dict[int, tuple[int, int, bool]] = {}
        self.ended: deque[tuple[int, int]] = deque()  # (first, last) of those ended at or above the high watermark

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset that belongs to a transaction whose end is not known to all replicas."""
        first = next(iter(self._open.values())) if self._open else None
        for ended, _ in self.ended:
            if first is None or ended < first:
                first = ended
        return first

    def on_high_watermark(self, high_watermark: int) -> None:
        self.ended = deque(ended for ended in self.ended if ended[1] >= high_watermark)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset != NO_OFFSET and entry.epoch == epoch

    def on_try(self, producer_id: int, epoch: int, sequence: int, implicit: bool) -> None:
        """A transaction is to begin here with this sequence, if the coordinator agrees (KIP-890). Until one has begun
        nothing of the producer gets into the log behind the lowest sequence that was tried; and a new one that joins
        by producing (`implicit`, as its first try says) begins with 0.
        """
        known_epoch, lowest, implicit = self._tried.get(producer_id, (NO_EPOCH, 0, implicit))
        if epoch > known_epoch or (epoch == known_epoch and sequence < lowest):
            self._tried[producer_id] = epoch, sequence, implicit

    def find_duplicate(self, batch: BatchHeader) -> BatchMetadata | None:
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch:
            return None
        last_sequence = batch.last_sequence
        for known in entry.batches:
            if known.last_sequence == last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def check(self, batch: BatchHeader, base_offset: int, *, check_sequence: bool) -> None:
        """`ApiError` if this batch, to be written at `base_offset`, must not follow what its producer wrote before."""
        entry = self.entries.get(batch.producer_id)
        if entry is not None and batch.producer_epoch < entry.epoch:
            raise self._old_epoch(batch.producer_id, batch.producer_epoch, base_offset, entry.epoch)
        if check_sequence and self._tried:
            self._check_tried(batch, entry is None)
        if entry is None:
            return
        if check_sequence:
            self._check_sequence(batch, base_offset, entry)
        if entry.txn_first_offset != NO_OFFSET and not batch.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {batch.producer_id} at offset {base_offset} "
                f"in {self.partition}",
            )

    def _check_tried(self, batch: BatchHeader, is_new: bool) -> None:
        """Whether this is behind what was tried. Kafka looks at all that the producer writes, in a transaction or not,
        and not at the epoch."""
        producer_id, first = batch.producer_id, batch.base_sequence
        tried = self._tried.get(producer_id)
        if tried is None:
            return
        _, lowest, implicit = tried
        if first > lowest or (implicit and first and is_new):
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} can't go on with sequence number {first} in {self.partition}: "
                f"{lowest} was tried before, or it is new and has to begin with 0",
            )

    def _check_sequence(self, batch: BatchHeader, base_offset: int, entry: ProducerEntry) -> None:
        first = batch.base_sequence
        if batch.producer_epoch != entry.epoch:
            # KIP-360: a raised epoch starts again at 0
            if first != 0 and entry.epoch != NO_EPOCH:
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {batch.producer_id} at offset {base_offset} in "
                    f"{self.partition}: {batch.producer_epoch} (request epoch), {first} (seq. number), "
                    f"{entry.epoch} (current epoch)",
                )
            return
        last = entry.last_sequence
        if first != last + 1 and not (first == 0 and last == MAX_SEQUENCE):
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id} at offset {base_offset} in "
                f"{self.partition}: "
                f"{first} (incoming seq. number), {last} (current end sequence number)",
            )

    def check_marker(self, marker: EndTransactionMarker, transaction_version: int = 0) -> None:
        """`ApiError` if this marker must not be written. In transactions of version 2 a marker carries a raised epoch
        (KIP-890).
        """
        entry = self.entries.get(marker.producer_id)
        if entry is None:
            return
        too_old = marker.producer_epoch < entry.epoch
        if transaction_version >= 2 and marker.producer_epoch == entry.epoch:
            # the same marker once more is harmless; the last epoch can't be raised any further
            too_old = entry.txn_first_offset != NO_OFFSET and marker.producer_epoch != MAX_EPOCH
        if too_old:
            raise self._old_epoch(marker.producer_id, marker.producer_epoch, marker.offset, entry.epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producer {marker.producer_id} at offset {marker.offset} in "
                f"{self.partition}: "
                f"{marker.coordinator_epoch} (marker), {entry.coordinator_epoch} (current)",
            )

    def _old_epoch(self, producer_id: int, epoch: int, offset: int, current: int) -> ApiError:
        return ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {producer_id} at offset {offset} in {self.partition} is {epoch}, "
            f"which is smaller than the last seen epoch {current}",
        )

    def apply(self, batch: BatchHeader, base_offset: int) -> None:
        """A data batch of an idempotent or transactional producer is in the log."""
        entry = self.entries.get(batch.producer_id)
        if entry is None:
            entry = self.entries[batch.producer_id] = ProducerEntry(batch.producer_id, batch.producer_epoch)
        elif entry.epoch != batch.producer_epoch:
            entry.set_epoch(batch.producer_epoch)
        last_offset = base_offset + batch.last_offset_delta
        entry.batches.append(
            BatchMetadata(batch.last_sequence, last_offset, batch.last_offset_delta, batch.max_timestamp)
        )
        entry.last_timestamp = batch.max_timestamp
        if not batch.is_transactional:
            return
        if self._tried:
            self._tried.pop(batch.producer_id, None)
        if entry.txn_first_offset == NO_OFFSET:
            entry.txn_first_offset = base_offset
            self._open[batch.producer_id] = base_offset

    def aborted_by(self, marker: EndTransactionMarker) -> AbortedTransaction | None:
        """What the transaction index must hold of the transaction that this marker ends, if it is aborted and wrote
        anything here.
        """
        first_offset = self._open.get(marker.producer_id)
        if first_offset is None or marker.commit:
            return None
        others = (first for producer_id, first in self._open.items() if producer_id != marker.producer_id)
        return AbortedTransaction(marker.producer_id, first_offset, marker.offset, next(others, marker.offset + 1))

    def apply_marker(self, marker: EndTransactionMarker) -> None:
        """A transaction has ended. What was tried for the next one, which the marker's epoch tells, stays tried."""
        tried = self._tried.get(marker.producer_id)
        if tried is not None and not (tried[2] and tried[0] == marker.producer_epoch):
            del self._tried[marker.producer_id]
        entry = self.entries.get(marker.producer_id)
        if entry is None:
            entry = self.entries[marker.producer_id] = ProducerEntry(marker.producer_id, marker.producer_epoch)
        else:
            entry.set_epoch(marker.producer_epoch)
        entry.markers += 1
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = marker.timestamp
        if entry.txn_first_offset != NO_OFFSET:
            self.ended.append((entry.txn_first_offset, marker.offset))
            entry.txn_first_offset = NO_OFFSET
            self._open.pop(marker.producer_id, None)

    def restore(self, entries: list[ProducerEntry]) -> None:
        """Take over the entries of a snapshot."""
        self.entries = {entry.producer_id: entry for entry in entries}
        opened = [(entry.txn_first_offset, entry.producer_id) for entry in entries if entry.txn_first_offset >= 0]
        self._open = {producer_id: first_offset for first_offset, producer_id in sorted(opened)}

    def expire(self, wall: int, expiration_ms: int) -> None:
        """Forget producers that wrote nothing for long and have no transaction open (KIP-854), and who never did. How
        long is told by the timestamps of their records, and so by the wall clock."""
        self._tried.clear()
        gone = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.txn_first_offset == NO_OFFSET and wall - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self.entries[producer_id]

    def clear(self, offset: int) -> None:
        """Know nothing, as if `offset` were the end of a new log."""
        self.entries.clear()
        self._open.clear()
        self.ended.clear()
        self.snapshot_offset = offset
