"""The records of the dirty part of a log, and which of them are the last of their key (Kafka: OffsetMap).

Rule: the memory is bounded. When it is full, the cleaning goes as far as it got and does the rest another time. A key
is represented by a digest of 128 bits, as Kafka does. The records are numbered and marked, a byte each, so that writing
the log anew asks for no key again. Numbers count records, not offsets: a log that was cleaned before has gaps of any
size.

Compaction keeps or drops records and never changes one. So a record is a place in its batch's bytes: the offset delta,
the key and whether there is a value are read, the rest is copied as it stands.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from mmap import mmap
from struct import Struct

from pykafka_broker.log.filesystem import Buffer
from pykafka_broker.records.compression import MAX_DECOMPRESSED, NONE, decompress
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader
from pykafka_broker.records.record import read_varint

# start of the length, end of the timestamp delta, end, offset delta, timestamp delta, key, whether there is a value
Span = tuple[int, int, int, int, int, bytes | None, bool]
# the part of a span that copying takes: start of the length, end of the timestamp delta, end, timestamp delta
Place = tuple[int, int, int, int]
LEAST_RECORD_BYTES = 7  # a byte for each field, all of them empty
# Marks of a record.
GONE = 0  # a later record has its key, or it has none
VALUE = 1
TOMBSTONE = 2
UNKNOWN = 3  # before the dirty part, in a batch that reaches into it: look the key up
_SLOT_BYTES = 20  # a digest of 16 bytes and a record's number
_BATCH_BYTES = 12  # a base offset and the number of the first record
_FILL_PERCENT = 75  # of the slots
_SLOTS_PERCENT = 75  # of the memory; the rest is for marks and batches
_HALVES = Struct("<QQ").unpack


def records_bytes(batch: Buffer, header: BatchHeader, max_bytes: int = MAX_DECOMPRESSED) -> bytes:
    """Return the records, uncompressed."""
    if header.codec == NONE:
        return bytes(memoryview(batch)[HEADER_SIZE : header.size])
    return decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size], max_bytes)


def iter_spans(data: bytes, count: int) -> Iterator[Span]:
    """Yield `count` records from the start of `data`.

    Varints of one and two bytes are decoded in place, as in `records.record`: a call for each would double the time.

    Raises:
        InvalidRecord: the data holds no such records.
    """
    position, limit = 0, len(data)
    try:
        for _ in range(count):
            start = position
            value = data[position]
            position += 1
            if value > 127:
                value, position = _long(data, position, value)
            end = position + (value >> 1)
            if value & 1 or end > limit:
                raise InvalidRecord(f"a record ends at byte {end} of {limit}")
            value = data[position + 1]  # behind the attributes, which are not used
            position += 2
            if value < 128:
                timestamp_delta = value >> 1 ^ -(value & 1)
            else:
                timestamp_delta, position = read_varint(data, position - 1, 64)
            body = position
            value = data[position]
            position += 1
            if value > 127:
                value, position = _long(data, position, value)
            offset_delta = value >> 1
            value = data[position]
            position += 1
            key = None
            if value > 127:
                value, position = _long(data, position, value)
            if not value & 1:
                key = data[position : position + (value >> 1)]
                position += value >> 1
            if position >= end:
                raise InvalidRecord(f"a record ends at byte {end}, its value has yet to come at {position}")
            # a null value is the varint -1, which is the byte 1; any other length has another first byte
            yield start, body, end, offset_delta, timestamp_delta, key, data[position] != 1
            position = end
    except IndexError:
        raise InvalidRecord("the records end too early") from None


def marked_places(data: bytes, marks: bytes | bytearray) -> list[Place]:
    """Return the records with a mark other than 0. All records were read before, so the data is sound."""
    places = []
    position = 0
    for mark in marks.rstrip(b"\0"):
        start = position
        value = data[position]
        position += 1
        if value > 127:
            value, position = _long(data, position, value)
        end = position + (value >> 1)
        if mark:
            value = data[position + 1]
            if value < 128:
                places.append((start, position + 2, end, value >> 1 ^ -(value & 1)))
            else:
                timestamp_delta, body = read_varint(data, position + 1, 64)
                places.append((start, body, end, timestamp_delta))
        position = end
    return places


def _long(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Return the value of a longer varint with the first byte `first`, still in zigzag form."""
    second = data[position]
    if second < 128:
        return first & 0x7F | second << 7, position + 1
    value, position = read_varint(data, position - 1)
    return (value << 1 ^ value >> 31) & 0xFFFFFFFF, position


class LatestRecords:
    """The latest record of each key. Batches are learned in the order of the log, then asked about in the same
    order.
    """

    def __init__(self, memory_bytes: int, first_offset: int, end_offset: int) -> None:
        self.first_offset = first_offset  # all keys from this offset on
        self.latest_offset = first_offset - 1  # up to this offset are known
        self.dropped_keyless = 0
        slot_bytes = memory_bytes * _SLOTS_PERCENT // 100
        self._mark_bytes = min(memory_bytes - slot_bytes, 0xFFFFFFFF)
        most_records = end_offset - first_offset  # no two records have the same offset
        self._make_slots(min(slot_bytes // _SLOT_BYTES, most_records * 100 // _FILL_PERCENT + 1))
        self._marks = bytearray()
        self._base_offsets = array("q")
        self._first_numbers = array("I")
        self._asked = 0  # index of the next batch to be asked about

    def _make_slots(self, count: int) -> None:
        self._slots = max(2, count)
        self._capacity = self._slots * _FILL_PERCENT // 100
        self._keys = 0
        # zero pages of the system, which take memory only once they are written to
        self._lows = memoryview(mmap(-1, 8 * self._slots)).cast("Q")  # 0: free
        self._highs = memoryview(mmap(-1, 8 * self._slots)).cast("Q")
        self._numbers = memoryview(mmap(-1, 4 * self._slots)).cast("I")

    def __len__(self) -> int:
        """Return the number of keys."""
        return self._keys

    def has_room(self, count: int) -> bool:
        """Return whether a batch of so many records finds room. The first batch always does, or cleaning would never
        end.
        """
        if not self._base_offsets:
            if count > self._capacity:
                self._make_slots(count * 100 // _FILL_PERCENT + 2)
            return True
        marks = len(self._marks) + count + _BATCH_BYTES * len(self._base_offsets)
        return self._keys + count <= self._capacity and marks <= self._mark_bytes

    def learn(self, base_offset: int, spans: Iterable[Span]) -> None:
        """Learn a batch's records; `has_room` comes first."""
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
        """Return a mark for each record of a batch, None for a batch not learned. Batches are asked about in order."""
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
