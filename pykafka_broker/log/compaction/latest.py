"""Which records of the part of a log that is to be cleaned are the last of their key.

Rule: its memory is bounded. When it is full, cleaning goes as far as it got and does the rest another time. A key is
represented by a digest of 128 bits, as Kafka does. The records that were looked at are numbered and marked, a byte
each, so that writing the log anew asks for no key again. Numbers count records, not offsets: a log that was cleaned
before has gaps of any size.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from mmap import mmap
from struct import Struct

from pykafka_broker.log.compaction.spans import Span

# Marks of a record.
GONE = 0  # its key came again, or it has none
VALUE = 1
TOMBSTONE = 2
UNKNOWN = 3  # it stands before that part, in a batch that reaches into it: ask for its key

_SLOT_BYTES = 20  # a digest of 16 bytes and a record's number
_BATCH_BYTES = 12  # a base offset and the number of the first record
_FILL_PERCENT = 75  # of the slots
_SLOTS_PERCENT = 75  # of the memory; the rest is for marks and batches
_HALVES = Struct("<QQ").unpack


class LatestRecords:
    """Told of batches in the order of the log, then asked about them in the same order."""

    def __init__(self, memory_bytes: int, first_offset: int, end_offset: int) -> None:
        self.first_offset = first_offset  # all keys from here on,
        self.latest_offset = first_offset - 1  # up to here are known
        self.dropped_keyless = 0
        slot_bytes = memory_bytes * _SLOTS_PERCENT // 100
        self._mark_bytes = min(memory_bytes - slot_bytes, 0xFFFFFFFF)
        most_records = end_offset - first_offset  # each has an offset of its own
        self._make_slots(min(slot_bytes // _SLOT_BYTES, most_records * 100 // _FILL_PERCENT + 1))
        self._marks = bytearray()
        self._base_offsets = array("q")
        self._first_numbers = array("I")
        self._asked = 0  # of the batches

    def _make_slots(self, count: int) -> None:
        self._slots = max(2, count)
        self._capacity = self._slots * _FILL_PERCENT // 100
        self._keys = 0
        # zeros from the system, which takes memory only for the pages that are written to
        self._lows = memoryview(mmap(-1, 8 * self._slots)).cast("Q")  # 0: free
        self._highs = memoryview(mmap(-1, 8 * self._slots)).cast("Q")
        self._numbers = memoryview(mmap(-1, 4 * self._slots)).cast("I")

    def __len__(self) -> int:
        """How many keys."""
        return self._keys

    def has_room(self, count: int) -> bool:
        """For a batch of so many records. The first one always finds some, or there would be no end to cleaning."""
        if not self._base_offsets:
            if count > self._capacity:
                self._make_slots(count * 100 // _FILL_PERCENT + 2)
            return True
        marks = len(self._marks) + count + _BATCH_BYTES * len(self._base_offsets)
        return self._keys + count <= self._capacity and marks <= self._mark_bytes

    def learn(self, base_offset: int, spans: Iterable[Span]) -> None:
        """The records of one batch for which there is room."""
        marks, lows, highs, numbers, slots = self._marks, self._lows, self._highs, self._numbers, self._slots
        self._base_offsets.append(base_offset)
        self._first_numbers.append(len(marks))
        first_delta = self.first_offset - base_offset
        for _, _, _, offset_delta, _, key, has_value in spans:
            if key is None:
                self.dropped_keyless += 1
                marks.append(GONE)
                continue
            if offset_delta < first_delta:
                marks.append(UNKNOWN)
                continue
            low, high = _digest(key)
            slot = low % slots
            while known := lows[slot]:
                if known == low and highs[slot] == high:
                    marks[numbers[slot]] = GONE
                    break
                slot = slot + 1 if slot + 1 < slots else 0
            else:
                lows[slot], highs[slot] = low, high
                self._keys += 1
            numbers[slot] = len(marks)
            marks.append(VALUE if has_value else TOMBSTONE)

    def __contains__(self, key: bytes) -> bool:
        low, high = _digest(key)
        slot = low % self._slots
        while known := self._lows[slot]:
            if known == low and self._highs[slot] == high:
                return True
            slot = slot + 1 if slot + 1 < self._slots else 0
        return False

    def marks_of(self, base_offset: int) -> bytearray | None:
        """A mark for each record of that batch, None if it was not learned. Batches are asked about in their order."""
        bases = self._base_offsets
        while self._asked < len(bases) and bases[self._asked] < base_offset:
            self._asked += 1
        number = self._asked
        if number == len(bases) or bases[number] != base_offset:
            return None
        firsts = self._first_numbers
        end = firsts[number + 1] if number + 1 < len(firsts) else len(self._marks)
        return self._marks[firsts[number] : end]


def _digest(key: bytes) -> tuple[int, int]:
    low, high = _HALVES(blake2b(key, digest_size=16).digest())
    return low or 1, high
