"""The records of the dirty part of a log, and which of them are the last of their key (Kafka: OffsetMap).

Rule: the memory is bounded. When it is full, the cleaning goes as far as it got and does the rest another time. While
all keys find room as they are, a dictionary has them, whose `update` learns a batch in one call; where they are too
many, a digest of 128 bits stands for each, as in Kafka. The records are numbered and marked, a byte each, so that
writing the log anew asks for no key again. Numbers count records, not offsets: a log that was cleaned before has gaps
of any size.

Compaction keeps or drops records and never changes one. So a record is a place in its batch's bytes: the offset delta,
the key and whether there is a value are read, the rest is copied as it stands.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import compress
from mmap import mmap
from struct import Struct
from typing import Any, NamedTuple

from pykafka_broker.log.compaction.request import UnpackingLimits
from pykafka_broker.log.filesystem import Buffer
from pykafka_broker.log.scan import ScannedBatch
from pykafka_broker.records.compression import NONE, decompress
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader
from pykafka_broker.records.record import read_varint

# start of the length, end, offset delta, timestamp delta, key, whether there is a value
Span = tuple[int, int, int, int, bytes | None, bool]
LEAST_RECORD_BYTES = 7  # a byte for each field, all of them empty
# Marks of a record.
GONE = 0  # a later record has its key, or it has none
VALUE = 1
TOMBSTONE = 2
UNKNOWN = 3  # before the dirty part, in a batch that reaches into it: look the key up
_SHORT_KEY_BYTES = 63
_DIGEST_BYTES = 64
_PLAIN_KEY_BYTES = (
    140  # of a key's entry in a dictionary, with the objects of key and number, the bytes of the key apart
)
_SLOT_BYTES = 20  # a digest of 16 bytes and a record's number
_BATCH_BYTES = 12  # a base offset and the number of the first record
_FILL_PERCENT = 75  # of the slots
_SLOTS_PERCENT = 75  # of the memory; the rest is for marks and batches
_GOES_ON = bytes(128) + b"\1" * 128  # by byte of a varint: whether another one follows
_FEW_ALIKE = 8
_MOST_ALIKE = 512  # records looked at together: where sizes alternate, more would be looked at in vain again and again
_DELTAS = [zigzag >> 1 ^ -(zigzag & 1) for zigzag in range(128)]  # by varint of one byte
_HALVES = Struct("<QQ").unpack
_NO_LIMITS = UnpackingLimits()


class KeptRecords(NamedTuple):
    """Records of a batch, each in its bytes, and their timestamp deltas."""

    records: list[bytes]
    timestamp_deltas: list[int]


def records_bytes(batch: Buffer, header: BatchHeader, limits: UnpackingLimits = _NO_LIMITS) -> bytes:
    """Return the records, uncompressed.

    Raises:
        GrowsTooLarge: all records together are larger than the limit.
        InvalidRecord: one of them is.
    """
    if header.codec == NONE:
        return bytes(memoryview(batch)[HEADER_SIZE : header.size])
    data = decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size], limits.batch_bytes)
    if len(data) > limits.record_bytes:
        _check_sizes(data, header.count, limits.record_bytes)
    return data


def _check_sizes(data: bytes, count: int, most: int) -> None:
    position = 0
    try:
        for index in range(count):
            size, position = read_varint(data, position)
            if size > most:
                raise InvalidRecord(f"record {index} has {size} bytes, more than max.decompressed.message.bytes")
            position += max(size, 0)
    except IndexError:
        raise InvalidRecord("the records end too early") from None


def records_place(batch: ScannedBatch, limits: UnpackingLimits) -> tuple[bytes, int, int]:
    """Return bytes with the records, uncompressed, and where the records begin and end: plain ones are not copied."""
    header, at = batch.header, batch.at
    if header.codec == NONE:
        return batch.piece, at + HEADER_SIZE, at + header.size
    data = records_bytes(batch.data, header, limits)
    return data, 0, len(data)


def kept_spans(data: bytes, spans: Iterable[Span]) -> KeptRecords:
    """Return the records at these places."""
    spans = [*spans]
    return KeptRecords([data[each[0] : each[1]] for each in spans], [each[3] for each in spans])


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
            yield start, end, offset_delta, timestamp_delta, key, data[position] != 1
            position = end
    except IndexError:
        raise InvalidRecord("the records end too early") from None


def keys_of(data: bytes, count: int, begin: int, limit: int) -> tuple[list[Any], bytearray]:
    """Return the key of each of `count` records in [begin, limit), or None, and a mark: GONE without a key.

    `iter_spans` in a shorter form: all records are asked for their keys, few for anything else. Records of one size
    often follow each other, and are then looked at together.

    Raises:
        InvalidRecord: the data holds no such records.
    """
    keys: list[Any] = []
    marks = bytearray()
    end = begin
    next_look = 0
    try:
        while len(keys) < count:
            start = end
            first = data[start]
            if first < 128:
                position = start + 1
                end = position + (first >> 1)
            else:
                value, position = _long(data, start + 1, first)
                end = position + (value >> 1)
            if first & 1 or end > limit:
                raise InvalidRecord(f"a record ends at byte {end} of {limit}")
            attributes = position
            position += 1
            if data[position] < 128:
                position += 1
            else:
                _, position = read_varint(data, position, 64)
            if data[position] < 128:
                position += 1
            else:
                _, position = _long(data, position + 1, data[position])
            key_length = position
            value = data[position]
            position += 1
            if value > 127:
                value, position = _long(data, position, value)
            key_begin = position
            if not value & 1:
                position += value >> 1
            if position >= end:
                raise InvalidRecord(f"a record ends at byte {end}, its value has yet to come at {position}")
            keys.append(None if value & 1 else data[key_begin:position])
            # a null value is the varint -1, which is the byte 1; any other length has another first byte
            marks.append(GONE if value & 1 else VALUE if data[position] != 1 else TOMBSTONE)
            if end < limit and data[end] == first and next_look <= len(keys) < count:
                form = (start, attributes, key_length, key_begin, position, end)
                alike = _records_alike(data, form, min(count - len(keys), (limit - end) // (end - start)))
                next_look = _next_look(len(keys), alike)
                stride, more = end - start, alike * (end - start)
                if value & 1:
                    keys += [None] * alike
                else:
                    length, next_key = position - key_begin, key_begin + stride
                    keys += [data[at : at + length] for at in range(next_key, next_key + more, stride)]
                marks += marks[-1:] * alike
                end += more
    except IndexError:
        raise InvalidRecord("the records end too early") from None
    return keys, marks


def _records_alike(data: bytes, form: tuple[int, ...], most: int) -> int:
    """Return how many records behind a record are as long and have fields of the same lengths, headers apart.

    Args:
        form: the positions of the record, its attributes, the key's length, the key, the value's length, and its end.
        most: how many records there may be.
    """
    start, attributes, key_length, key, value_length, end = form
    same = (*range(start, attributes), *range(key_length, key), value_length)
    return _count_alike(data, end - start, most, same, range(attributes + 1, key_length))


def _count_alike(data: bytes, stride: int, most: int, same: Iterable[int], varints: Iterable[int]) -> int:
    """Return how many of the next records, `stride` bytes apart, are like a record.

    Args:
        most: how many records there may be; it looks at no more than `_MOST_ALIKE`.
        same: positions of the record's bytes that the others must have too.
        varints: positions of the record's bytes in varints: those of the others must go on or end there too.
    """
    most = min(most, _MOST_ALIKE)
    for at in same:
        column = data[at + stride : at + stride * most + 1 : stride]
        most = len(column) - len(column.lstrip(data[at : at + 1]))
        if not most:
            return 0
    for at in varints:
        column = data[at + stride : at + stride * most + 1 : stride].translate(_GOES_ON)
        most = len(column) - len(column.lstrip(data[at : at + 1].translate(_GOES_ON)))
    return most


def _next_look(index: int, alike: int) -> int:
    """Return the index of the record behind which the next look for alike records is worth its time."""
    return index if alike >= _FEW_ALIKE else index + _FEW_ALIKE


def marked_records(data: bytes, marks: bytes | bytearray, begin: int = 0) -> KeptRecords:
    """Return the records with a mark other than 0, as they stand.

    All were read before, so the data is sound. As in `keys_of`, records of one size are looked at together.

    Args:
        begin: where the first record is.
    """
    records: list[bytes] = []
    deltas: list[int] = []
    index, count = 0, len(marks.rstrip(b"\0"))
    next_look = 0
    end = begin
    while index < count:
        start, first = end, data[end]
        attributes = start + 1
        if first < 128:
            end = attributes + (first >> 1)
        else:
            length, attributes = _long(data, attributes, first)
            end = attributes + (length >> 1)
        stamp = data[attributes + 1]
        if marks[index]:
            records.append(data[start:end])
            deltas.append(_DELTAS[stamp] if stamp < 128 else read_varint(data, attributes + 1, 64)[0])
        index += 1
        if index >= next_look and stamp < 128 and index < count and data[end] == first:
            stride = end - start
            alike = _count_alike(data, stride, count - index, range(start, attributes), (attributes + 1,))
            next_look = _next_look(index, alike)
            more = alike * stride
            chosen = marks[index : index + alike]
            records += [data[at : at + stride] for at in compress(range(end, end + more, stride), chosen)]
            stamp_at = attributes + 1 + stride
            deltas += map(_DELTAS.__getitem__, compress(data[stamp_at : stamp_at + more : stride], chosen))
            index += alike
            end += more
    return KeptRecords(records, deltas)


def _long(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Return the value of a longer varint with the first byte `first`, still in zigzag form."""
    second = data[position]
    if second < 128:
        return first & 0x7F | second << 7, position + 1
    value, position = read_varint(data, position - 1)
    return (value << 1 ^ value >> 31) & 0xFFFFFFFF, position


class LatestRecords:
    """The latest record of each key. Batches are learned, and then asked about, in the order of the log."""

    def __init__(self, memory_bytes: int, first_offset: int, end_offset: int) -> None:
        self.first_offset = first_offset  # all keys from this offset on
        self.latest_offset = first_offset - 1  # up to this offset are known
        self.dropped_keyless = 0
        self._slot_bytes = memory_bytes * _SLOTS_PERCENT // 100
        self._mark_bytes = min(memory_bytes - self._slot_bytes, 0xFFFFFFFF)
        most_records = end_offset - first_offset  # no two records have the same offset
        self._slots = max(2, min(self._slot_bytes // _SLOT_BYTES, most_records * 100 // _FILL_PERCENT + 1))
        self._plain: dict[bytes, int] = {}  # the number of the latest record, by key, until that takes too much memory
        self._plain_bytes = 0
        self._digests: DigestTable | None = None
        self._marks = bytearray()
        self._early = 0  # records before `first_offset`
        self._base_offsets = array("q")
        self._first_numbers = array("I")
        self._settled = False  # all batches were learned
        self._asked = 0  # index of the next batch to be asked about

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._plain) if self._digests is None else len(self._digests)

    def __contains__(self, key: bytes) -> bool:
        return _short(key) in (self._plain if self._digests is None else self._digests)

    def has_room(self, count: int) -> bool:
        """Return whether a batch of so many records finds room; the first one always does, so that cleaning ends."""
        capacity = self._slots * _FILL_PERCENT // 100
        if not self._base_offsets:
            if count > capacity:
                self._slots = count * 100 // _FILL_PERCENT + 2
            return True
        marks = len(self._marks) + count + _BATCH_BYTES * len(self._base_offsets)
        return len(self) + count <= capacity and marks <= self._mark_bytes

    def learn(self, base_offset: int, data: bytes, count: int, begin: int, end: int) -> None:
        """Learn a batch's records, which stand in [begin, end) of `data`; `has_room` comes first.

        Raises:
            InvalidRecord: the data holds no such records.
        """
        keys, marks = keys_of(data, count, begin, end)
        number = len(self._marks)
        self._base_offsets.append(base_offset)
        self._first_numbers.append(number)
        self._marks += marks
        early = 0
        if base_offset < self.first_offset:
            early = sum(base_offset + span[2] < self.first_offset for span in iter_spans(data[begin:end], count))
            self._early = number + early
            self._marks[number : number + early] = bytes(mark and UNKNOWN for mark in marks[:early])
        if GONE in marks:
            self.dropped_keyless += marks.count(GONE)
        numbers: Sequence[int] = range(number + early, number + count)
        if early:
            keys = keys[early:]
        if GONE in marks:
            numbers = [each for each, key in zip(numbers, keys, strict=True) if key is not None]
            keys = [key for key in keys if key is not None]
        self._note(keys, numbers)

    def _note(self, keys: list[bytes], numbers: Sequence[int]) -> None:
        """Take the records with these numbers for the latest of their keys."""
        if not keys:
            return
        longest = max(map(len, keys))
        if longest > _SHORT_KEY_BYTES:
            keys = [*map(_short, keys)]
        numbered = zip(keys, numbers, strict=True)
        if self._digests is not None:
            self._digests.update(numbered, self._marks)
            return
        known = len(self._plain)
        self._plain.update(numbered)
        self._plain_bytes += (len(self._plain) - known) * (_PLAIN_KEY_BYTES + min(_DIGEST_BYTES, longest))
        if self._plain_bytes > self._slot_bytes:
            self._to_digests()

    def _to_digests(self) -> None:
        """Go on with digests instead of keys, which take a seventh of the memory."""
        self._mark_gone()
        self._digests = DigestTable(self._slots)
        while self._plain:
            self._digests.update([self._plain.popitem()], self._marks)

    def _mark_gone(self) -> None:
        """Mark all records but the latest of each key as GONE; with digests, records are marked as they are learned."""
        marks, self._marks = self._marks, bytearray(len(self._marks))
        self._marks[: self._early] = marks[: self._early]
        for number in self._plain.values():
            self._marks[number] = marks[number]

    def marks_of(self, base_offset: int) -> bytearray | None:
        """Return a mark for each record of a batch, None for a batch not learned.

        Batches are asked about in order, when all are learned.
        """
        if not self._settled:
            self._settled = True
            if self._digests is None:
                self._mark_gone()
        bases = self._base_offsets
        while self._asked < len(bases) and bases[self._asked] < base_offset:
            self._asked += 1
        number = self._asked
        if number == len(bases) or bases[number] != base_offset:
            return None
        firsts = self._first_numbers
        end = firsts[number + 1] if number + 1 < len(firsts) else len(self._marks)
        return self._marks[firsts[number] : end]


class DigestTable:
    """Numbers by digests of keys, in memory that is taken as it is written to. Twenty bytes a key."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._keys = 0
        # zero pages of the system, which take memory only once they are written to
        self._lows = memoryview(mmap(-1, 8 * slots)).cast("Q")  # 0: free
        self._highs = memoryview(mmap(-1, 8 * slots)).cast("Q")
        self._numbers = memoryview(mmap(-1, 4 * slots)).cast("I")

    def __len__(self) -> int:
        return self._keys

    def __contains__(self, key: bytes) -> bool:
        return self._lows[self._slot(*_digest(key))] != 0

    def update(self, numbered: Iterable[tuple[bytes, int]], marks: bytearray) -> None:
        """Set the numbers of keys, and mark the records that had them as GONE."""
        lows, highs, numbers = self._lows, self._highs, self._numbers
        for key, number in numbered:
            low, high = _digest(key)
            slot = self._slot(low, high)
            if lows[slot]:
                marks[numbers[slot]] = GONE
            else:
                lows[slot], highs[slot] = low, high
                self._keys += 1
            numbers[slot] = number

    def _slot(self, low: int, high: int) -> int:
        """Return the slot of a digest, or the free slot for it."""
        lows, slots = self._lows, self._slots
        slot = low % slots
        while known := lows[slot]:
            if known == low and self._highs[slot] == high:
                break
            slot = slot + 1 if slot + 1 < slots else 0
        return slot


def _short(key: bytes) -> bytes:
    """Return a short key as it is, and a digest for a long key: a digest is longer than every short key."""
    return key if len(key) <= _SHORT_KEY_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


def _digest(key: bytes) -> tuple[int, int]:
    low, high = _HALVES(blake2b(key, digest_size=16).digest())
    return low or 1, high
