"""The indexes of a segment: by offset, by time, and of its aborted transactions.

Rule: an index only speeds things up. What it says is checked against the batches, and it can always be rebuilt from the
log. Entries of the two sparse indexes are appended in memory and written a page at a time, when the segment is flushed,
rolled or closed; an idle index holds no bytes. The first key of each page is remembered from the first search on.

The transaction index (`.txnindex`) has an entry for each transaction whose ABORT marker lies in the segment, in the
order of the markers. `last_stable_offset` of an entry tells from where on a search for aborted transactions may stop. A
file with entries that can't belong to its segment is not used.

Formats (Kafka's): offset index, 8 bytes: relative offset of a batch's last record, position of the batch. Time index,
12 bytes: the greatest timestamp so far, relative offset of the batch that brought it.
"""

from __future__ import annotations

import contextlib
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from pykafka_broker.log.filesystem import CachedFile

_PAGE_BYTES = 4096
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_NO_ENTRY = (-1, -1)
NO_TIMESTAMP = -1
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_TRANSACTION_VERSION = 0


class SparseIndex:
    """Fixed-size entries in ascending order: the first `_written` are in the file, the rest in `_tail`."""

    __slots__ = ("_last", "_page_firsts", "_tail", "_written", "base_offset", "file")
    ENTRY: struct.Struct
    OFFSET_AT: int  # byte of an entry

    def __init__(self, file: CachedFile, base_offset: int, *, fresh: bool) -> None:
        self.file = file
        self.base_offset = base_offset
        self._tail = bytearray()
        self._written = 0 if fresh else -1  # -1: the file was not looked at yet
        self._last: tuple[int, int] | None = None
        self._page_firsts: dict[int, array[int]] = {}  # by the position of the field in an entry

    @property
    def count(self) -> int:
        if self._written < 0:
            self._written = self.file.size() // self.ENTRY.size  # a torn last entry is written over
        return self._written + len(self._tail) // self.ENTRY.size

    def is_full(self, index_bytes: int, spare: int = 0) -> bool:
        return self.count >= index_bytes // self.ENTRY.size - spare

    def _append(self, first: int, second: int) -> None:
        if self._written < 0:
            self._written = self.count
        self._tail += self.ENTRY.pack(first, second)
        self._last = first, second
        if len(self._tail) >= _PAGE_BYTES:
            # The batch is in the log already; sealing tries again, and reports a failure.
            with contextlib.suppress(OSError):
                self.write_out()

    def write_out(self) -> None:
        """Write the rest of the entries to the file, and make a missing file."""
        written = self.count - len(self._tail) // self.ENTRY.size
        if self._tail:
            self.file.create().write_at(self._tail, written * self.ENTRY.size)
            self._written = self.count
            self._tail = bytearray()
        elif not written and not self.file.exists():
            self.file.create()

    def truncate_to(self, offset: int) -> None:
        """Forget entries with an offset at or above `offset`."""
        count = self._floor(offset - self.base_offset - 1, _INT32, self.OFFSET_AT)[0] + 1
        self.write_out()
        if count < self._written:
            self.file.handle().truncate(count * self.ENTRY.size)
            self._written = count
            self._last = None
            self._page_firsts.clear()

    def clear(self) -> None:
        self._page_firsts.clear()
        self._tail = bytearray()
        self._last = None
        self._written = 0
        if self.file.exists():
            self.file.handle().truncate(0)

    def entries(self) -> Iterator[tuple[int, ...]]:
        """Yield every entry as stored."""
        self.write_out()
        if self._written:
            data = self.file.handle().read_at(self._written * self.ENTRY.size, 0)
            yield from self.ENTRY.iter_unpack(data)

    def _floor(self, target: int, key: struct.Struct, shift: int) -> tuple[int, tuple[int, int]]:
        """Return the last entry whose field `key` at `shift` is at most `target`, and its index (-1 without one)."""
        size = self.ENTRY.size
        total = self.count
        written = self._written
        if total > written:
            tail = self._tail
            if not written or key.unpack_from(tail, shift)[0] <= target:
                index, entry = self._floor_in(tail, total - written, target, key, shift)
                return written + index, entry
        if not written:
            return -1, _NO_ENTRY
        page_entries = _PAGE_BYTES // size
        pages = (written + page_entries - 1) // page_entries
        page = 0
        if pages > 1:
            page = max(0, bisect_right(self._firsts(pages, key, shift), target, 0, pages) - 1)
        start = page * page_entries
        here = min(page_entries, written - start)
        index, entry = self._floor_in(self.file.handle().read_at(here * size, start * size), here, target, key, shift)
        return start + index, entry

    def _floor_in(
        self, data: bytes | bytearray, count: int, target: int, key: struct.Struct, shift: int
    ) -> tuple[int, tuple[int, int]]:
        unpack, size = key.unpack_from, self.ENTRY.size
        index = bisect_right(range(count), target, key=lambda index: unpack(data, index * size + shift)[0]) - 1
        if index < 0:
            return -1, _NO_ENTRY
        first, second = self.ENTRY.unpack_from(data, index * size)
        return index, (first, second)

    def _firsts(self, pages: int, key: struct.Struct, shift: int) -> array[int]:
        """Return the field `key` of the first entry of each page."""
        firsts = self._page_firsts.setdefault(shift, array("q"))
        if len(firsts) < pages:
            handle = self.file.handle()
            step = _PAGE_BYTES // self.ENTRY.size * self.ENTRY.size
            for page in range(len(firsts), pages):
                firsts.append(key.unpack(handle.read_at(key.size, page * step + shift))[0])
        return firsts


class OffsetIndex(SparseIndex):
    __slots__ = ()
    ENTRY, OFFSET_AT = _OFFSET_ENTRY, 0

    def append(self, offset: int, position: int) -> None:
        self._append(offset - self.base_offset, position)

    def floor(self, offset: int) -> tuple[int, int] | None:
        """Return the last entry (offset, position) at or before `offset`."""
        return self._absolute(*self._floor(offset - self.base_offset, _INT32, 0))

    def floor_position(self, position: int) -> tuple[int, int] | None:
        """Return the last entry (offset, position) of a batch which starts at or before `position`."""
        return self._absolute(*self._floor(position, _INT32, 4))

    def _absolute(self, index: int, entry: tuple[int, int]) -> tuple[int, int] | None:
        return (self.base_offset + entry[0], entry[1]) if index >= 0 else None


class TimeIndex(SparseIndex):
    __slots__ = ()
    ENTRY, OFFSET_AT = _TIME_ENTRY, 8

    def last(self) -> tuple[int, int]:
        """Return the greatest timestamp and the last offset of the batch; (-1, base offset) when empty."""
        if self._last is None and self.count:
            size = self.ENTRY.size  # appended entries are known, so the last one is in the file
            timestamp, offset = self.ENTRY.unpack(self.file.handle().read_at(size, (self._written - 1) * size))
            self._last = timestamp, offset
        last = self._last
        return (last[0], self.base_offset + last[1]) if last is not None else (NO_TIMESTAMP, self.base_offset)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        if timestamp > self.last()[0]:
            self._append(timestamp, offset - self.base_offset)

    def floor(self, timestamp: int) -> tuple[int, int]:
        """Return the last entry (timestamp, offset) at or before `timestamp`; (-1, base offset) for none."""
        index, (stamp, offset) = self._floor(timestamp, _INT64, 0)
        if index < 0:
            return NO_TIMESTAMP, self.base_offset
        return stamp, self.base_offset + offset


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CorruptTransactionIndex(ValueError):
    """A transaction index with an impossible size, version or entry."""


class TransactionIndex:
    __slots__ = ("_base_offset", "_entries", "_ragged", "file", "unsynced")

    def __init__(self, file: CachedFile, base_offset: int = 0, *, fresh: bool) -> None:
        self.file = file
        self._base_offset = base_offset
        self._entries: list[AbortedTransaction] | None = [] if fresh else None
        self._ragged = False  # the file may have bytes behind the entries
        self.unsynced = not fresh  # an existing file was written to since the last sync

    @property
    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def _load(self) -> list[AbortedTransaction]:
        size = self.file.size()
        if not size:
            return []
        data = self.file.handle().read_at(size, 0)
        if size % _TRANSACTION_ENTRY.size:
            raise CorruptTransactionIndex(f"{self.file.path} has {size} bytes, which are no whole entries")
        rows = list(_TRANSACTION_ENTRY.iter_unpack(data))
        if any(row[0] != _TRANSACTION_VERSION for row in rows):
            raise CorruptTransactionIndex(f"unknown version in {self.file.path}")
        entries = [AbortedTransaction(*row[1:]) for row in rows]
        before = self._base_offset - 1
        for entry in entries:
            if not before < entry.last_offset >= entry.first_offset:
                raise CorruptTransactionIndex(f"{self.file.path} can't have {entry}")
            before = entry.last_offset
        return entries

    def correct(self, entries: list[AbortedTransaction]) -> None:
        """Make the file hold the entries, synced.

        A file that is right already is not touched, since its synced content would be at stake.
        """
        try:
            known = self._load()
        except CorruptTransactionIndex:
            known = None
        self._entries = entries
        if known != entries:
            self.replace(entries)
            self.file.handle().sync()

    def replace(self, entries: list[AbortedTransaction]) -> None:
        """Make the file anew."""
        self.unsynced = True
        handle = self.file.create()
        handle.truncate(0)
        handle.write_at(b"".join(_TRANSACTION_ENTRY.pack(_TRANSACTION_VERSION, *entry) for entry in entries), 0)
        self._entries = entries

    def append(self, transaction: AbortedTransaction) -> None:
        self.complete()
        entries = self.entries
        self._ragged = self.unsynced = True
        self.file.create().write_at(
            _TRANSACTION_ENTRY.pack(_TRANSACTION_VERSION, *transaction), len(entries) * _TRANSACTION_ENTRY.size
        )
        entries.append(transaction)
        self._ragged = False

    def truncate_to(self, offset: int) -> None:
        """Forget transactions ending at or after `offset`."""
        entries = self.entries
        if entries and entries[-1].last_offset >= offset:
            self._entries = [entry for entry in entries if entry.last_offset < offset]
            self._ragged = self.unsynced = True
            self.complete()

    def complete(self) -> None:
        """Cut bytes of a failed write: the file holds the known entries alone then."""
        if self._ragged:
            self.file.create().truncate(len(self.entries) * _TRANSACTION_ENTRY.size)
            self._ragged = False

    def collect(self, first_offset: int, upper_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions in [first_offset, upper_offset), and whether later segments can't have others."""
        found, entries = [], self.entries
        for index in range(bisect_left(entries, first_offset, key=attrgetter("last_offset")), len(entries)):
            entry = entries[index]
            if entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found, True
        return found, False
