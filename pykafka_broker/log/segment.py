"""A segment of a log: the file of batches and its indexes (Kafka: LogSegment).

Rule: bytes below `size` never change. A failed append leaves `size` as it was, so the next append overwrites whatever
the failed one has written. Positions at which readers stopped are remembered, because their next reads start there. The
names of a segment's four files begin with its base offset; a suffix marks files that are not, or no longer, part of the
log.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from pykafka_broker.config.topic import TopicConfig
from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import Buffer, CachedFile, FileCache, FileHandle, FileSlice
from pykafka_broker.log.index import NO_TIMESTAMP, AbortedTransaction, OffsetIndex, TimeIndex, TransactionIndex
from pykafka_broker.log.scan import DamagedLog, ScannedBatch, damage_at, scan
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader, read_header, sound_batch_at

logger = logging.getLogger(__name__)

DELETED = ".deleted"
CLEANED = ".cleaned"  # written by an unfinished cleaning
SWAP = ".swap"  # written by a finished cleaning, about to replace older segments
_INDEX_INTERVAL_BYTES = 4096
_REMEMBERED = 16
_LOOK_AHEAD = 16  # batches
_NOT_WRITTEN = -1
MAX_RELATIVE_OFFSET = 0x7FFFFFFF  # an index counts offsets with 32 bits
# base offset, length of what follows, leader epoch, magic, CRC, attributes, last offset delta, first and max timestamp
_HEAD = struct.Struct(">qiibihiqq")
_MAGIC = 2
_PIECE_BYTES = 16384
_LARGE_BYTES = 4096


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}"


class BatchPosition(NamedTuple):
    """A batch by the header: position in the file, size in bytes, offsets, greatest timestamp in ms."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int

    @property
    def end(self) -> int:
        """Return the position of the next batch."""
        return self.position + self.size


def _batch_position(data: bytes, at: int, position: int) -> BatchPosition | None:
    """Return the batch with a header at `at` in `data`, and at `position` in the file; None for no header."""
    base_offset, length, _, magic, _, _, delta, _, max_timestamp = _HEAD.unpack_from(data, at)
    if length < HEADER_SIZE - LENGTH_OVERHEAD or delta < 0 or magic != _MAGIC:
        return None
    return BatchPosition(position, length + LENGTH_OVERHEAD, base_offset, base_offset + delta, max_timestamp)


def _batch_positions(handle: FileHandle, path: str, position: int, end: int, size: int) -> Iterator[BatchPosition]:
    """Yield the batches starting in [position, end) of a file with `size` bytes of batches.

    Headers alone are read: little of large batches, and many small ones at once, since a log of many gigabytes is in no
    cache of the CPU.
    """
    piece, start, wanted = b"", 0, HEADER_SIZE
    while position < end:
        at = position - start
        if at + HEADER_SIZE > len(piece):
            piece, start, at = handle.read_at(wanted, position), position, 0
            if len(piece) < HEADER_SIZE:
                raise damage_at(handle, path, position, size, "no whole batch header")
        batch = _batch_position(piece, at, position)
        if batch is None:
            raise damage_at(handle, path, position, size, "a broken batch header")
        if batch.end > size:
            raise DamagedLog(path, position, f"a batch of {batch.size} bytes, of which some are missing")
        yield batch
        position = batch.end
        wanted = HEADER_SIZE if batch.size >= _LARGE_BYTES else _PIECE_BYTES


class IndexLimits(Protocol):
    """How densely a segment is indexed, and how large its indexes grow: a topic's settings, or a cleaning's."""

    @property
    def index_interval_bytes(self) -> int: ...

    @property
    def segment_index_bytes(self) -> int: ...


class LogSegment:
    """A segment for appends, reads and look-ups (Kafka: LogSegment)."""

    __slots__ = (
        "_bytes_since_index",
        "_damage",
        "_first_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_positions",
        "_ragged",
        "_sealed",
        "base_offset",
        "created_ms",
        "index_full",
        "log",
        "offset_index",
        "size",
        "time_index",
        "transactions",
        "written_ms",
    )

    def __init__(
        self,
        cache: FileCache,
        directory: str,
        base_offset: int,
        *,
        size: int,
        created_ms: int,
        fresh: bool,
        suffix: str = "",
    ) -> None:
        """Make a segment of the files in a folder.

        Args:
            created_ms: when the segment was begun, by the wall clock; for a loaded segment, when its file was last
                changed.
        """
        stem = f"{directory}/{segment_name(base_offset)}"
        self.base_offset = base_offset
        self.log = CachedFile(cache, f"{stem}.log{suffix}")
        self.offset_index = OffsetIndex(CachedFile(cache, f"{stem}.index{suffix}"), base_offset, fresh=fresh)
        self.time_index = TimeIndex(CachedFile(cache, f"{stem}.timeindex{suffix}"), base_offset, fresh=fresh)
        self.transactions = TransactionIndex(CachedFile(cache, f"{stem}.txnindex{suffix}"), base_offset, fresh=fresh)
        self.size = size
        self.created_ms = created_ms
        self.written_ms = created_ms if fresh else _NOT_WRITTEN  # time of the last append by the wall clock
        self.index_full = False  # the next append needs a new segment
        # met by a rebuild of the indexes: where, what, and whether it is a message of an old format
        self._damage: tuple[int, str, bool] | None = None
        self._ragged = False
        self._sealed = not fresh  # the index files are complete
        self._first_timestamp = NO_TIMESTAMP
        self._max_timestamp: int | None = NO_TIMESTAMP if fresh else None  # None: not yet read from the time index
        self._max_timestamp_offset = base_offset
        self._bytes_since_index = 0
        self._positions: dict[int, int] = {base_offset: 0}

    # -- the four files

    def files(self) -> tuple[CachedFile, ...]:
        return self.log, self.offset_index.file, self.time_index.file, self.transactions.file

    def mark_deleted(self) -> None:
        """Take the files out of the folder's set of segments, to be removed later. A failed call may be repeated."""
        for file in self.files():
            if not file.path.endswith(DELETED):
                file.rename(file.free_path(DELETED))

    def change_suffix(self, old: str, new: str) -> None:
        """Rename the files, the log last: the other files count when the log does. A failed call may be repeated."""
        for file in reversed(self.files()):
            if file.path.endswith(old):
                file.rename(file.path.removesuffix(old) + new)

    def discard(self) -> None:
        """Remove files of an interrupted attempt."""
        for file in self.files():
            if file.exists():
                file.remove()
                file.close()

    def sync(self) -> None:
        for file in self.files():
            if file.exists():
                file.handle().sync()

    def move_to(self, directory: str) -> None:
        """Go by the folder's new name."""
        for file in self.files():
            file.path = f"{directory}/{file.path.rpartition('/')[2]}"

    def remove(self) -> None:
        for file in self.files():
            file.remove()

    # -- times

    @property
    def max_timestamp(self) -> int:
        if self._max_timestamp is None:
            timestamp, offset = self.time_index.last()
            try:
                if self.size and (not self._time_entry_holds(timestamp, offset) or self._is_passed(timestamp, offset)):
                    self.rebuild_indexes()
            except DamagedLog:
                self._max_timestamp, self._max_timestamp_offset = timestamp, offset  # from now on the index is believed
                raise
            if self._max_timestamp is None:
                self._max_timestamp, self._max_timestamp_offset = timestamp, offset
            assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def knows_times(self) -> bool:
        """Return whether `max_timestamp` is answered from memory."""
        return self._max_timestamp is not None

    @property
    def largest_timestamp(self) -> int:
        """Return the greatest timestamp; where the records have none, when the segment was last written to."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self.created_ms if self.written_ms == _NOT_WRITTEN else self.written_ms

    @property
    def modified_ms(self) -> int:
        """Return the time of the last write; for batches written before the load, the greatest timestamp."""
        return self.largest_timestamp if self.written_ms == _NOT_WRITTEN else self.written_ms

    @property
    def max_timestamp_offset(self) -> int:
        """Return the last offset of the first batch with the greatest timestamp."""
        return self._max_timestamp_offset if self.max_timestamp != NO_TIMESTAMP else self.base_offset

    # -- append

    def append(self, batch: Buffer, last_offset: int, timestamp: int, config: TopicConfig) -> None:
        """Write a batch with the greatest timestamp `timestamp` at the end."""
        self._write(batch)
        if self.index(len(batch), last_offset, timestamp, config.index_interval_bytes):
            self.note_index_size(config)

    def append_marker(
        self, batch: Buffer, last_offset: int, timestamp: int, aborted: AbortedTransaction | None, config: TopicConfig
    ) -> None:
        """Append a transaction's end marker; the index entry of an abort comes first: no stored marker may lack it."""
        try:
            if aborted is not None:
                self.transactions.append(aborted)
            self.append(batch, last_offset, timestamp, config)
        except (OSError, DamagedLog):
            with contextlib.suppress(OSError):
                self.transactions.truncate_to(last_offset)
            raise

    def run_in(self, data: Buffer, first: BatchHeader, config: TopicConfig) -> tuple[list[BatchHeader], int]:
        """Return the headers of the batches in `data` that one write may append, and the size of all: `first`, and the
        batches of the same epoch behind it for which there is room, up to a marker.
        """
        view = memoryview(data)
        headers, stop, room = [first], first.size, config.segment_bytes - self.size
        while stop < len(view):
            try:
                header = sound_batch_at(view, stop, headers[-1].next_offset)
            except CorruptBatch:
                break  # the damage is found again when its turn comes
            if (
                header is None
                or (header.is_control and header.has_producer_id)
                or header.partition_leader_epoch != first.partition_leader_epoch
                or stop + header.size > room
                or header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            ):
                break
            headers.append(header)
            stop += header.size
        return headers, stop

    def append_run(self, batches: Buffer, headers: list[BatchHeader], config: IndexLimits) -> None:
        """Write many batches at the end, all or none."""
        self._write(batches)
        has_entry = False
        for header in headers:
            last_offset, timestamp = header.last_offset, header.max_timestamp
            has_entry |= self.index(header.size, last_offset, timestamp, config.index_interval_bytes)
        if has_entry:
            self.note_index_size(config)

    def _write(self, data: Buffer) -> None:
        if self._max_timestamp is None:
            _ = self.max_timestamp  # damage shows before anything is written
        handle = self.log.handle() if self.size else self.log.create()
        try:
            handle.write_at(data, self.size)
        except OSError:
            self._ragged = True
            with contextlib.suppress(OSError):
                self._cut_edge()
            raise

    def preallocate(self, size: int) -> None:
        """Take room on disk for coming batches; unused room is given back when the segment is sealed."""
        self._ragged = True
        self.log.create().allocate(size)

    def _cut_edge(self) -> None:
        """Cut the rest of a failed write after the last batch."""
        self.log.handle().truncate(self.size)
        self._ragged = False

    def index(self, size: int, last_offset: int, timestamp: int, interval_bytes: int) -> bool:
        """Take account of a batch at the end of the file, and return whether the batch has got an index entry."""
        position = self.size
        greatest = self._max_timestamp
        if greatest is None:
            greatest = self.max_timestamp
        if timestamp > greatest:
            self._max_timestamp = timestamp
            self._max_timestamp_offset = last_offset
        has_entry = self._bytes_since_index > interval_bytes
        if has_entry:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
            self._bytes_since_index = 0
        self._bytes_since_index += size
        self._sealed = False
        self.size = position + size
        return has_entry

    def note_index_size(self, config: IndexLimits) -> None:
        limit = config.segment_index_bytes
        # the time index keeps room for the entry that sealing adds
        self.index_full = self.offset_index.is_full(limit) or self.time_index.is_full(limit, spare=1)

    @property
    def first_timestamp(self) -> int:
        """Return the greatest timestamp of the first batch, from which the age for rolling counts; -1 for none."""
        if self._first_timestamp == NO_TIMESTAMP and self.size:
            self._first_timestamp = next(self.batches()).max_timestamp
        return self._first_timestamp

    @property
    def is_complete(self) -> bool:
        """Return whether sealing would change nothing of importance."""
        return (self._sealed or not self.size) and not self._ragged

    def seal(self) -> None:
        """Complete the index files: the process will append nothing more."""
        if self._ragged:
            self._cut_edge()
        self.transactions.complete()
        if self._sealed:
            return
        if not self.size:
            self.log.create()
        if self.max_timestamp != NO_TIMESTAMP:
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
        self.offset_index.write_out()
        self.time_index.write_out()
        self._sealed = True

    def clear_indexes(self) -> None:
        """Forget the batches in the file, before each is indexed again."""
        self.size = 0
        self._first_timestamp = self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._bytes_since_index = 0
        self._positions = {self.base_offset: 0}
        self._sealed = self.index_full = False
        for index in (self.offset_index, self.time_index):
            index.file.own()
            index.clear()

    def rebuild_indexes(self, interval_bytes: int = _INDEX_INTERVAL_BYTES) -> None:
        """Rebuild the offset and time index from the batches, because the old entries were wrong.

        Raises:
            DamagedLog: a batch is damaged. The old entries stay: others find what stands behind the damage.
        """
        self._check_headers()
        logger.warning("Rebuilding the indexes of %s", self.log.path)
        size = self.size
        self.clear_indexes()
        try:
            for batch in scan(self.log.handle(), self.log.path, 0, size, verify=False):
                header = batch.header
                self.index(header.size, header.last_offset, header.max_timestamp, interval_bytes)
        finally:
            self.size = size
        self.seal()

    def _check_headers(self) -> None:
        """Look at every header, once: readers may ask for a rebuild again and again. Raises DamagedLog."""
        if self._damage is None:
            try:
                for _ in self.batches():
                    pass
            except DamagedLog as damage:
                self._damage = damage.position, damage.reason, damage.old_format
        if self._damage is not None:
            position, reason, old_format = self._damage
            raise DamagedLog(self.log.path, position, reason, old_format=old_format)

    def copied_to(self, files: FileCache, directory: str) -> LogSegment:
        """Return the segment's copy in another folder."""
        copy = LogSegment(files, directory, self.base_offset, size=self.size, created_ms=self.created_ms, fresh=False)
        copy.written_ms = self.written_ms
        return copy

    def close(self) -> None:
        self.seal()
        for file in self.files():
            file.close()

    def truncate_to(self, offset: int) -> None:
        """Forget records at or above `offset`; a batch with `offset` goes whole."""
        size = self.position_of(offset)
        for file in self.files():
            file.own()
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transactions.truncate_to(offset)
        self.log.handle().truncate(size)
        self.size = size
        self.index_full = self._sealed = False  # the time index may have lost the entry of its end
        self._damage = None
        self._first_timestamp = NO_TIMESTAMP
        self._bytes_since_index = 0
        self._positions = {self.base_offset: 0}
        self._max_timestamp, self._max_timestamp_offset = self.greatest_timestamp()

    def scan(self, position: int = 0, *, verify: bool = False) -> Iterator[ScannedBatch]:
        """Yield every batch from the position on; `verify` checks each CRC. Raises DamagedLog as `scan.scan`."""
        return scan(self.log.handle(), self.log.path, position, self.size, verify=verify)

    def greatest_timestamp(self) -> tuple[int, int]:
        """Find the greatest timestamp, by the time index and the batches after the last entry, and the offset."""
        timestamp, offset = self.time_index.last()
        position = self.start_for(offset)
        for batch in self.scan(position):
            if batch.header.max_timestamp > timestamp:
                timestamp, offset = batch.header.max_timestamp, batch.header.last_offset
        return timestamp, offset

    def must_roll(self, config: TopicConfig, size: int, timestamp: int, last_offset: int, now: int) -> bool:
        """Return whether a batch of the given size, greatest timestamp and last offset needs a new segment.

        By size, by the age of the segment's records, or because an index is full or the offset too far away for it
        (Kafka docs, `segment.bytes`, `segment.ms`, `segment.index.bytes`; Kafka: LogSegment.shouldRoll).

        Args:
            now: wall clock in ms.
        """
        filled = self.size
        if filled > config.segment_bytes - size:
            return True
        if self.index_full or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if not filled:
            return False
        first = self.first_timestamp
        # KIP-33: age is counted in record time where there is one
        age_ms = timestamp - first if first >= 0 else now - self.created_ms
        limit_ms = config.segment_ms
        if config.max_compaction_lag_ms < limit_ms and "compact" in config.cleanup_policy:
            # KIP-354: the cleaner never sees the records of an active segment
            limit_ms = max(1, config.max_compaction_lag_ms)
        if config.segment_jitter_ms:
            limit_ms -= self._jitter_ms(config)
        return age_ms > limit_ms

    def _jitter_ms(self, config: TopicConfig) -> int:
        """Spread the rolls of many partitions; a segment has the same jitter every time."""
        limit = min(config.segment_jitter_ms, config.segment_ms)
        return zlib.crc32(self.log.path.encode()) % limit if limit > 0 else 0

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[BatchPosition]:
        """Yield the positions of batches starting in [position, end), by the headers alone."""
        return _batch_positions(
            self.log.handle(), self.log.path, position, self.size if end is None else end, self.size
        )

    def start_for(self, offset: int) -> int:
        """Return the position from which to look for `offset`."""
        batch = self._indexed_batch(offset)
        return batch.position if batch is not None else 0

    def _indexed_batch(self, offset: int) -> BatchPosition | None:
        """Return the last indexed batch ending at or before `offset`, or None. A wrong index is rebuilt."""
        for _ in range(2):
            entry = self.offset_index.floor(offset)
            if entry is None:
                return None
            batch = self._batch_at(*entry)
            if batch is not None:
                return batch
            self.rebuild_indexes()
        raise DamagedLog(self.log.path, 0, "its offset index, made anew, names no batch")

    def _batch_at(self, offset: int, position: int) -> BatchPosition | None:
        """Return the batch at `position` if it ends by `offset`: releases before 4.0 name the last of several."""
        if not 0 <= position <= self.size - HEADER_SIZE:
            return None
        batch = _batch_position(self.log.handle().read_at(HEADER_SIZE, position), 0, position)
        return batch if batch is not None and self.base_offset <= batch.last_offset <= offset else None

    def _time_entry_holds(self, timestamp: int, offset: int) -> bool:
        if timestamp == NO_TIMESTAMP:
            return self.first_timestamp == NO_TIMESTAMP
        batch = self.batch_of(offset)
        return batch is not None and batch.max_timestamp == timestamp

    def _is_passed(self, timestamp: int, offset: int) -> bool:
        """Return whether a later batch is newer, and the end of the time index is missing.

        A newer batch shows soon, if ever: times mostly rise.
        """
        batch = self.batch_of(offset)
        later = self.batches(batch.end if batch is not None else 0)
        return any(each.max_timestamp > timestamp for each in islice(later, _LOOK_AHEAD))

    def end_offset(self, size: int | None = None) -> int:
        """Return the offset after the last batch, or after the last batch in the first `size` bytes."""
        end, size = self.base_offset, self.size if size is None else size
        for batch in self.batches(self._indexed_before(size - 1), size):
            end = batch.last_offset + 1
        return end

    def last_epoch(self) -> int:
        """Return the leader epoch of the last batch."""
        epoch = -1
        for batch in self.batches(self._indexed_before(self.size)):
            with contextlib.suppress(CorruptBatch):
                epoch = read_header(self.log.handle().read_at(HEADER_SIZE, batch.position)).partition_leader_epoch
        return epoch

    def has_whole_indexes(self) -> bool:
        """Return whether both index files are possible for the segment, entry by entry."""
        for entries in (self.offset_index.entries(), self.time_index.entries()):
            before = (-1, -1)
            for entry in entries:
                if entry[0] <= before[0] or entry[1] <= before[1]:
                    return False
                before = entry[0], entry[1]
        last = self.offset_index.floor_position(self.size)
        return last is None or self._batch_at(*last) is not None

    def _indexed_before(self, position: int) -> int:
        """Return the position of the last indexed batch which starts at or before `position`."""
        entry = self.offset_index.floor_position(position)
        if entry is None:
            return 0
        if self._batch_at(*entry) is None:
            self.rebuild_indexes()
            entry = self.offset_index.floor_position(position)
        return entry[1] if entry is not None else 0

    def time_start_for(self, timestamp: int, start_offset: int) -> int:
        """Return the position from which to look for a record as late as `timestamp`, at or above `start_offset`."""
        for _ in range(2):
            stamp, offset = self.time_index.floor(timestamp)
            if stamp == NO_TIMESTAMP:
                return self.start_for(start_offset)
            batch = self.batch_of(offset)
            if batch is not None and batch.max_timestamp == stamp:
                return batch.position if offset >= start_offset else self.start_for(start_offset)
            self.rebuild_indexes()
        raise DamagedLog(self.log.path, 0, "its time index, made anew, names no batch")

    def batch_of(self, offset: int) -> BatchPosition | None:
        """Return the first batch ending at or above `offset`."""
        near = self._indexed_batch(offset)
        if near is not None and near.last_offset == offset:
            return near
        later = self.batches(near.end if near is not None else 0)
        return next((batch for batch in later if batch.last_offset >= offset), None)

    def position_of(self, offset: int) -> int:
        """Return the position of the first batch ending at or above `offset`; the size for none."""
        known = self._positions.get(offset)
        if known is not None:
            return known
        batch = self.batch_of(offset)
        if batch is None:
            return self.size
        self.remember(offset, batch.position)
        return batch.position

    def remember(self, offset: int, position: int) -> None:
        positions = self._positions
        if offset in positions:
            return
        if len(positions) >= _REMEMBERED:
            del positions[next(iter(positions))]
        positions[offset] = position

    def read(self, offset: int, max_bytes: int, end: int, *, min_one: bool) -> tuple[FileSlice, int | None]:
        """Return whole batches from the batch with `offset` on, none of which starts at `end` or after.

        Returns:
            The batches and the offset after the last of them; None instead of the offset when they end with the
                readable part of the segment.
        """
        start, batch = self._positions.get(offset), None
        if start is None:
            batch = self.batch_of(offset)
            start = batch.position if batch is not None else self.size
        if end - start <= max_bytes:
            return FileSlice(self.log, start, max(0, end - start)), None
        if max_bytes < 0:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka's answer to a negative limit
        if batch is not None and batch.size >= max_bytes:  # no other batch has room
            if batch.size > max_bytes and not min_one:
                return FileSlice(self.log, start, 0), batch.base_offset
            self.remember(batch.last_offset + 1, batch.end)
            return FileSlice(self.log, start, batch.size), batch.last_offset + 1
        return self._read_limited(start, start + max_bytes, end, min_one)

    def _read_limited(self, start: int, limit: int, end: int, min_one: bool) -> tuple[FileSlice, int | None]:
        next_offset, stop = None, start
        with contextlib.suppress(DamagedLog):  # the entry of a damaged batch
            # an indexed batch starts inside the limit, so all batches before it are whole
            stop = max(start, self._indexed_before(limit))
        try:
            for batch in self.batches(stop, end):
                if batch.end > limit and not (min_one and batch.position == start):
                    next_offset = next_offset or batch.base_offset
                    break
                stop = batch.end
                next_offset = batch.last_offset + 1
        except DamagedLog:
            if stop == start:
                raise  # otherwise the batches before the damage are an answer
        if next_offset is not None:
            self.remember(next_offset, stop)
        return FileSlice(self.log, start, stop - start), next_offset
