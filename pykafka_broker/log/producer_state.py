"""The producers of a partition: epochs, their last five batches, open transactions (Kafka: ProducerStateManager).

Rule: `check` decides and changes nothing, `apply` records a batch that is in the log. A repeated batch is not an error:
the producer gets the answer of the first append again (KIP-98, KIP-360). An unknown producer may start with any
sequence number, since its earlier records may have expired. So may a producer whose latest batches a restore of the
whole broker has undone.

A snapshot (`<offset>.snapshot`) holds the state of all producers as of its offset, so that a start need not read the
whole log. A snapshot that is damaged or lies beyond the log's end is thrown away: an older one and the batches after it
give the same state. Format: int16 version 1, uint32 CRC-32C of the rest, int32 count, then 42 bytes for each producer.
"""

from __future__ import annotations

import contextlib
import logging
import re
import struct
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileSystem, read_file, write_file
from pykafka_broker.log.index import AbortedTransaction, CorruptTransactionIndex
from pykafka_broker.log.scan import DamagedLog, ScannedBatch
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.log.segments import Segments
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.control import EndTransactionMarker, read_end_transaction_marker
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import NO_SEQUENCE, BatchHeader, crc32c

logger = logging.getLogger(__name__)

NO_EPOCH = -1
NO_OFFSET = -1
MAX_SEQUENCE = 0x7FFFFFFF
MAX_EPOCH = 0x7FFF
CACHED_BATCHES = 5
_SNAPSHOT_SUFFIX = ".snapshot"
_SNAPSHOT_HEADER = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_SNAPSHOT_CRC_END = 6
_SNAPSHOT_VERSION = 1
_SNAPSHOT_NAME = re.compile(r"[0-9]{20}\.snapshot")
# A log of at most this size without idempotent producers needs no snapshot: the whole log is read when it is opened.
QUICKLY_READ_BYTES = 64 << 10


class BatchMetadata(NamedTuple):
    """A batch remembered for the duplicate check."""

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


@dataclass(slots=True, eq=False)
class ProducerEntry:
    """A producer's state in a partition. markers: how many were written since the entry was made."""

    producer_id: int
    epoch: int = NO_EPOCH
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=CACHED_BATCHES))
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    txn_first_offset: int = NO_OFFSET
    markers: int = 0

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch


class ProducerState:
    # `_open` is in order of first offsets, `ended` in order of last offsets, since offsets only rise
    __slots__ = ("_open", "_tried", "ended", "entries", "partition", "restored_end", "snapshot_offset")

    def __init__(self, partition: str) -> None:
        self.partition = partition  # for messages
        self.entries: dict[int, ProducerEntry] = {}
        self.snapshot_offset = 0  # the offset of the newest snapshot on disk
        self.restored_end = 0  # the log's end when the whole broker was restored, 0 if it was not
        self._open: dict[int, int] = {}  # producer id -> first offset of its transaction
        # producer id -> epoch, lowest sequence, and whether the first try was implicit; until a batch is in the log
        self._tried: dict[int, tuple[int, int, bool]] = {}
        # (first, last) of transactions ended at or above the high watermark
        self.ended: deque[tuple[int, int]] = deque()

    @property
    def first_unstable_offset(self) -> int | None:
        """Return the first offset of a transaction which is open, or ended at or above the high watermark."""
        first = next(iter(self._open.values())) if self._open else None
        for ended, _ in self.ended:
            if first is None or ended < first:
                first = ended
        return first

    def on_high_watermark(self, high_watermark: int) -> None:
        while self.ended and self.ended[0][1] < high_watermark:
            self.ended.popleft()

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether a batch of the producer continues an open transaction.

        If not, the coordinator must verify the batch.
        """
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset != NO_OFFSET and entry.epoch == epoch

    def on_try(self, producer_id: int, epoch: int, sequence: int, implicit: bool) -> None:
        """Note a first produce of a transaction before the coordinator has agreed (KIP-890).

        Until a transaction has begun nothing of the producer gets into the log behind the lowest sequence that was
        tried. A new producer that joins by producing (`implicit`, as its first try says) begins with 0.
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

    def check(
        self, batch: BatchHeader, base_offset: int, *, check_sequence: bool, verified: bool
    ) -> BatchMetadata | None:
        """Check whether a batch may follow the producer's earlier batches at `base_offset`. Return the earlier batch if
        the producer repeats it.

        Args:
            verified: False if the batch may only continue a transaction which is open here (KIP-890).

        Raises:
            ApiError: it may not.
        """
        if check_sequence:
            duplicate = self.find_duplicate(batch)
            if duplicate is not None:
                return duplicate
        producer = batch.producer_id, batch.producer_epoch
        if not verified and batch.is_transactional and not self.has_open_transaction(*producer):
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        entry = self.entries.get(batch.producer_id)
        if entry is not None and batch.producer_epoch < entry.epoch:
            raise self._old_epoch(batch.producer_id, batch.producer_epoch, base_offset, entry.epoch)
        if check_sequence and self._tried:
            self._check_tried(batch, entry is None)
        if entry is None:
            return None
        if check_sequence:
            self._check_sequence(batch, base_offset, entry)
        if entry.txn_first_offset != NO_OFFSET and not batch.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {batch.producer_id} at offset {base_offset} "
                f"in {self.partition}",
            )
        return None

    def _check_tried(self, batch: BatchHeader, is_new: bool) -> None:
        """Refuse a batch behind a sequence tried before.

        Kafka looks at every batch of the producer, in a transaction or not, and not at the epoch.
        """
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
            if first != 0 and entry.epoch != NO_EPOCH and not self._was_restored(entry):
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {batch.producer_id} at offset {base_offset} in "
                    f"{self.partition}: {batch.producer_epoch} (request epoch), {first} (seq. number), "
                    f"{entry.epoch} (current epoch)",
                )
            return
        last = entry.last_sequence
        if first != last + 1 and not (first == 0 and last == MAX_SEQUENCE) and not self._was_restored(entry):
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id} at offset {base_offset} in "
                f"{self.partition}: {first} (incoming seq. number), {last} (current end sequence number)",
            )

    def _was_restored(self, entry: ProducerEntry) -> bool:
        """Return whether a restore may have undone batches of a producer, which has no transaction open there."""
        has_begun = entry.txn_first_offset != NO_OFFSET or not entry.batches
        return not has_begun and entry.batches[-1].last_offset < self.restored_end

    def check_marker(self, marker: EndTransactionMarker, transaction_version: int = 0) -> None:
        """Check whether a marker may be written. With transaction version 2 a marker carries a raised epoch (KIP-890).

        Raises:
            ApiError: it may not.
        """
        entry = self.entries.get(marker.producer_id) or ProducerEntry(marker.producer_id, marker.producer_epoch)
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
                f"{self.partition}: {marker.coordinator_epoch} (marker), {entry.coordinator_epoch} (current)",
            )

    def _old_epoch(self, producer_id: int, epoch: int, offset: int, current: int) -> ApiError:
        return ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {producer_id} at offset {offset} in {self.partition} is {epoch}, "
            f"which is smaller than the last seen epoch {current}",
        )

    def apply(self, batch: BatchHeader, base_offset: int) -> None:
        """Record a data batch of an idempotent or transactional producer, which is in the log."""
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
        """Return the index entry of the transaction that a marker aborts; None if it commits, or without records."""
        first_offset = self._open.get(marker.producer_id)
        if first_offset is None or marker.commit:
            return None
        others = (first for producer_id, first in self._open.items() if producer_id != marker.producer_id)
        return AbortedTransaction(marker.producer_id, first_offset, marker.offset, next(others, marker.offset + 1))

    def apply_marker(self, marker: EndTransactionMarker) -> None:
        """Record the end of a transaction. A noted try of the next transaction, told by the marker's epoch, stays."""
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
        """Forget tries, and producers without an open transaction or recent records (KIP-854).

        The age of a record is told by its timestamp, and so by the wall clock.
        """
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


# -- snapshots


class CorruptSnapshot(ValueError):
    """A producer snapshot with a wrong CRC, length, version or offset."""


def snapshot_name(offset: int) -> str:
    return f"{offset:020d}{_SNAPSHOT_SUFFIX}"


def encode_snapshot(state: ProducerState) -> bytes:
    body = bytearray()
    for _, entry in sorted(state.entries.items()):
        last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, -1, 0, entry.last_timestamp)
        body += _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
    count = struct.pack(">i", len(state.entries))
    return _SNAPSHOT_HEADER.pack(_SNAPSHOT_VERSION, crc32c(count + body), len(state.entries)) + bytes(body)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    if len(data) < _SNAPSHOT_HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are no snapshot")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc32c(data[_SNAPSHOT_CRC_END:]) != crc:
        raise CorruptSnapshot("the CRC does not match")
    if count * _SNAPSHOT_ENTRY.size != len(data) - _SNAPSHOT_HEADER.size:
        raise CorruptSnapshot(f"{count} producers in {len(data)} bytes")
    entries = []
    for producer_id, epoch, sequence, offset, delta, timestamp, *rest in _SNAPSHOT_ENTRY.iter_unpack(
        data[_SNAPSHOT_HEADER.size :]
    ):
        entry = ProducerEntry(producer_id, epoch)
        if offset >= 0:
            entry.batches.append(BatchMetadata(sequence, offset, delta, timestamp))
        entry.last_timestamp = timestamp
        entry.coordinator_epoch, entry.txn_first_offset = rest
        entries.append(entry)
    return entries


def take_snapshot(segments: Segments, producers: ProducerState, offset: int) -> None:
    """Write the state as of `offset`, the log's end, into the log's folder."""
    if offset > producers.snapshot_offset:
        path = f"{segments.directory}/{snapshot_name(offset)}"
        write_file(segments.files.fs, path, encode_snapshot(producers), sync=False)
        producers.snapshot_offset = offset


def snapshot_offsets(names: list[str]) -> list[int]:
    """Return the offsets of the snapshots among the file names, in order."""
    return sorted(int(name[:20]) for name in names if _SNAPSHOT_NAME.fullmatch(name))


def forget_snapshots(segments: Segments) -> None:
    """Remove every snapshot in a log's folder: nothing is known of the producers any more."""
    for offset in snapshot_offsets(segments.files.fs.list_directory(segments.directory)):
        forget_snapshot(segments, offset)


def forget_snapshot(segments: Segments, offset: int) -> None:
    """Remove the snapshot of an offset, if any."""
    with contextlib.suppress(FileNotFoundError):
        segments.files.fs.remove(f"{segments.directory}/{snapshot_name(offset)}")


def read_snapshot(fs: FileSystem, path: str) -> list[ProducerEntry]:
    return decode_snapshot(read_file(fs, path))


# -- the state of a log that is opened


def remove_strays(segments: Segments, names: list[str]) -> None:
    """Remove the snapshots of earlier shutdowns, at no segment's base offset.

    The newest of them stays if it lies beyond the last segment's base (Kafka:
    ProducerStateManager.removeStraySnapshots).
    """
    strays = set(snapshot_offsets(names)) - {segment.base_offset for segment in segments}
    if strays and max(strays) > segments.active.base_offset:
        strays.remove(max(strays))
    for offset in sorted(strays):
        forget_snapshot(segments, offset)
        names.remove(snapshot_name(offset))


def restore_producers(
    producers: ProducerState, segments: Segments, names: list[str], log_start_offset: int, end_offset: int
) -> None:
    """Restore `producers` as of `end_offset`, from the newest sound snapshot and the batches after the snapshot."""
    start = log_start_offset
    producers.clear(0)
    for offset in reversed(snapshot_offsets(names)):
        if offset > end_offset:
            forget_snapshot(segments, offset)
            continue
        entries = _read_or_remove(segments, offset)
        if entries is None:
            continue
        producers.restore(entries)
        producers.snapshot_offset = start = offset
        break
    if start < end_offset:
        replay_producers(producers, segments, start, end_offset)


def replay_producers(producers: ProducerState, segments: Segments, start: int, end_offset: int) -> None:
    """Bring `producers` from `start` to `end_offset` by the log's batches.

    A batch that holds `start` counts: so the log begins after DeleteRecords.
    """
    for segment in segments.starting_from(start):
        if segment.base_offset >= end_offset:
            return
        for batch in segment.scan(segment.position_of(start) if start > segment.base_offset else 0):
            if batch.header.base_offset >= end_offset:
                return
            if batch.header.last_offset >= start:
                replay_in(segment, producers, batch)


def mend_transactions(segments: Segments, segment: LogSegment) -> None:
    """Rebuild the transaction index of a segment if the file has impossible entries."""
    try:
        _ = segment.transactions.entries
    except CorruptTransactionIndex as error:
        logger.warning("Rebuilding a transaction index: %s", error)
        segment.transactions.replace(find_aborted(segments, segment))


def find_aborted(segments: Segments, segment: LogSegment) -> list[AbortedTransaction]:
    """Return the entries of a segment's transaction index, by the transactions open at the base and the batches."""
    producers = ProducerState(segments.directory)
    names, last = segments.files.fs.list_directory(segments.directory), snapshot_name(segment.base_offset)
    earlier = [name for name in names if name <= last]
    restore_producers(producers, segments, earlier, segments.first.base_offset, segment.base_offset)
    found = []
    for batch in segment.scan():
        aborted = replay_in(segment, producers, batch)
        if aborted is not None:
            found.append(aborted)
    return found


def replay_batch(producers: ProducerState, batch: ScannedBatch) -> AbortedTransaction | None:
    """Record a batch in the log, and return the resulting entry of the transaction index, if any."""
    header = batch.header
    if header.producer_id < 0:
        return None
    if not header.is_control:
        producers.apply(header, header.base_offset)
        return None
    marker = read_end_transaction_marker(batch.data, header)
    if marker is None:
        return None
    aborted = producers.aborted_by(marker)
    producers.apply_marker(marker)
    return aborted


def replay_in(segment: LogSegment, producers: ProducerState, batch: ScannedBatch) -> AbortedTransaction | None:
    """Record a batch of a segment as `replay_batch` does. Raises DamagedLog: it is a marker that makes no sense."""
    try:
        return replay_batch(producers, batch)
    except CorruptBatch as error:
        raise DamagedLog(segment.log.path, batch.position, str(error)) from error


def _read_or_remove(segments: Segments, offset: int) -> list[ProducerEntry] | None:
    """Return the entries of a snapshot as of `offset`; a damaged file is removed."""
    path = f"{segments.directory}/{snapshot_name(offset)}"
    try:
        entries = read_snapshot(segments.files.fs, path)
        if any(
            entry.txn_first_offset >= offset or (entry.batches and entry.batches[-1].last_offset >= offset)
            for entry in entries
        ):
            raise CorruptSnapshot("it knows of later offsets than its own")
        return entries
    except CorruptSnapshot as error:
        logger.warning("Removed %s: %s", path, error)
        forget_snapshot(segments, offset)
        return None
