"""A broker's check of a producer's records, and the search for a record by its time.

Rule: records that Kafka refuses are refused, and records that Kafka takes are taken. Kafka reads uncompressed records
in full: each has the length that it names, and its header keys are there; offset deltas are not looked at. In a batch
that stays compressed Kafka passes over keys, values and headers by their own lengths and never looks at the record's
length; but offset deltas have to be the numbers from 0 on. Where the codec changes Kafka reads in full too, and numbers
the records anew. Lengths below zero mean null.

A step of a check or a search takes about a millisecond and little memory, however much comes out of the compressed
bytes.

Records of the common form are passed over many in a row (`common_form.py`); the others are read here, one by one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from pykafka_broker.records.common_form import (
    LOOKS_A_STEP,
    NEVER,
    NO_TIME,
    Bytes,
    RecordLimits,
    common_times,
    pass_common,
)
from pykafka_broker.records.compression import ANY_SIZE, NONE, decompressed
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord
from pykafka_broker.records.header import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, Buffer
from pykafka_broker.records.record import read_varint, wrap_int64

Steps = Generator[None, None, None]
_LOOKS_OF_ONE = 8  # for a record of another form, or a header
_BYTES_A_STEP = 256 << 10
_AHEAD = 32  # bytes in which the varints between two fields have room
_SMALLEST_RECORD = 7
_MOST_REFUSED = 100_000  # refused records that are reported
_NO_ROOM = (1 << 31) - 2  # too large for an array of Java
WITHOUT_KEY, OUT_OF_TIME, WRONG_TYPE = range(3)


class RefusedRecord(NamedTuple):
    """A sound record refused by the topic's limits."""

    batch_index: int  # of the record in the batch
    reason: int
    timestamp: int


class RecordCheck:
    """A check of a batch; `steps` raises `InvalidRecord`, or `CorruptBatch` where Kafka stumbles."""

    def __init__(self, batch: Buffer, header: BatchHeader, limits: RecordLimits, *, in_full: bool = False) -> None:
        """Copy the content of `batch`. `in_full`: the codec will change, so records are read in full."""
        payload = bytes(memoryview(batch)[HEADER_SIZE : header.size])
        self._header = header
        self._limits = limits
        self._in_full = in_full or header.codec == NONE
        self.refused: list[RefusedRecord] = []
        self.max_timestamp = NO_TIMESTAMP
        self.misnumbered = False  # an offset delta is not the record's index
        self.data: Bytes = b""
        self._position = 0
        self._index = 0
        self._end = header.count
        self._pieces: Iterator[bytes] = iter(())
        if header.codec == NONE:
            self.data = payload
        else:
            self._pieces = decompressed(header.codec, payload)
        self._times = common_times(header, limits)

    def steps(self, most_bytes: int = 0) -> Steps:
        """Look at all records, in steps of about a millisecond. `most_bytes`: more data, held at once, is refused."""
        if self._in_full:
            yield from self._collect(most_bytes)
            if not 0 <= self._header.count * _SMALLEST_RECORD <= len(self.data):
                next(self._pieces, None)  # raises the damage that cut the data short
                raise InvalidRecord(f"{self._header.count} records can't stand in {len(self.data)} bytes")
        yield from self._records()
        if self._position != len(self.data):
            raise InvalidRecord(f"{len(self.data) - self._position} bytes follow the {self._header.count} records")
        for piece in self._pieces:
            if piece:
                raise InvalidRecord("bytes follow the records")
            yield
        if self.misnumbered and not self.refused and not self._in_full:
            raise CorruptBatch("offset deltas are not the numbers of the records")

    def _records(self) -> Steps:
        header, keyed = self._header, self._limits.key_required
        high = NEVER
        looks, read = LOOKS_A_STEP, 0
        each = header.codec != NONE and self._limits.max_record_bytes < ANY_SIZE  # also the size of each common record
        while self._index < self._end:
            if not each:
                self._position, self._index, high, looks = pass_common(
                    self.data,
                    self._position,
                    self._index,
                    self._end,
                    self._times,
                    high,
                    looks,
                    keyed=keyed,
                    counted=not self.misnumbered,
                )
            if self._index < self._end and looks > 0:
                read += yield from self._one()
                looks -= _LOOKS_OF_ONE
            if looks <= 0 or read >= _BYTES_A_STEP:
                looks, read = LOOKS_A_STEP, 0
                yield
        if high != NEVER:
            timestamp = header.max_timestamp if header.log_append_time else header.base_timestamp + high
            self.max_timestamp = max(self.max_timestamp, timestamp)

    # -- one record

    def _one(self) -> Generator[None, None, int]:
        """Look at the record at the position. Returns how many bytes were read anew."""
        header = self._header
        seen = yield from self._refill(self._position)
        try:
            size, start = self._read_size()
            delta, position = read_varint(self.data, start + 1, 64)  # after the attributes
            offset, position = read_varint(self.data, position)
            key, position = read_varint(self.data, position)
            position += max(key, 0)
            if position + _AHEAD > len(self.data):
                seen += yield from self._refill(position)
                position = self._position
            value, position = read_varint(self.data, position)
            seen += yield from self._refill(position + max(value, 0))
            seen += yield from self._headers()
        except IndexError:
            raise InvalidRecord(f"the records are cut short in number {self._index}") from None
        if self._in_full and self._position != start + size:
            raise InvalidRecord(f"record {self._index} ends at byte {start + size}, its fields at {self._position}")
        if offset != self._index:
            self.misnumbered = True
        timestamp = header.max_timestamp if header.log_append_time else wrap_int64(header.base_timestamp + delta)
        self._judge(timestamp, offset, key >= 0)
        self._index += 1
        return seen

    def _read_size(self) -> tuple[int, int]:
        """Return the length claimed by a record, and the record's begin."""
        plain = self._header.codec == NONE
        try:
            size, start = read_varint(self.data, self._position)
        except InvalidRecord as error:
            if plain:
                raise CorruptBatch(str(error)) from None
            raise
        if not plain and not self._limits.takes_any_size and not 0 <= size <= self._limits.max_record_bytes:
            raise InvalidRecord(f"record {self._index} has {size} bytes, more than max.decompressed.message.bytes")
        if self._in_full and not 0 <= size <= len(self.data) - start:
            if size >= _NO_ROOM and not plain:
                raise CorruptBatch(f"a record of {size} bytes")
            next(self._pieces, None)
            raise InvalidRecord(f"record {self._index} of {size} bytes with {len(self.data) - start} left")
        return size, start

    def _headers(self) -> Generator[None, None, int]:
        count, position = read_varint(self.data, self._position)
        if count < 0 or (self._in_full and count > len(self.data) - position):
            raise InvalidRecord(f"{count} headers in record {self._index}")
        seen = 0
        for number in range(1, count + 1):
            size, position = read_varint(self.data, position)
            if size < 0:
                raise InvalidRecord("a header's key is null")
            seen += yield from self._refill(position + size)
            size, position = read_varint(self.data, self._position)
            seen += yield from self._refill(position + max(size, 0))
            position = self._position
            if not number % (LOOKS_A_STEP // _LOOKS_OF_ONE):
                yield
        self._position = position
        return seen

    def _refill(self, position: int) -> Generator[None, None, int]:
        """Go to `position`, maybe beyond the held bytes, and hold enough bytes for the next varints, if any are left.

        What is passed over is not kept.
        """
        seen = held = 0
        while position + _AHEAD > len(self.data):
            piece = next(self._pieces, None)
            if piece is None:
                if position > len(self.data):
                    raise InvalidRecord(f"the records are cut short in number {self._index}")
                break
            rest = self.data[position:]
            position = max(position - len(self.data), 0)
            self.data = rest + piece if rest else piece
            seen += len(piece)
            held += len(piece) or _BYTES_A_STEP // 10
            if held >= _BYTES_A_STEP:
                held = 0
                yield
        self._position = position
        return seen

    def _judge(self, timestamp: int, offset_delta: int, has_key: bool) -> None:
        limits = self._limits
        if limits.key_required and not has_key:
            reason = WITHOUT_KEY
        elif not limits.allow(timestamp):
            reason = OUT_OF_TIME
        elif self._header.log_append_time and (limits.append_time or timestamp == NO_TIMESTAMP):
            reason = WRONG_TYPE
        else:
            self.max_timestamp = max(self.max_timestamp, timestamp)
            return
        if len(self.refused) < _MOST_REFUSED:
            self.refused.append(RefusedRecord(self._index, reason, timestamp))

    # -- all at once

    def _collect(self, most_bytes: int) -> Steps:
        if self._header.codec == NONE:
            return
        self.data = data = bytearray()
        try:
            for piece in self._pieces:
                before = len(data) // _BYTES_A_STEP
                data += piece
                if len(data) > most_bytes:
                    raise CorruptBatch(f"records grow beyond {most_bytes} bytes")
                if not piece or len(data) // _BYTES_A_STEP != before:
                    yield
        except CorruptBatch as damage:
            self._pieces = _damaged(damage.with_traceback(None))  # its frames lead back to the data


def _damaged(damage: CorruptBatch) -> Iterator[bytes]:
    """Yield nothing and raise the damage behind the last sound piece."""
    try:
        raise damage
    finally:
        del damage  # the error knows this frame, and must not lead back to itself
    yield b""


# -- search by time

_NOTHING_ASKED = RecordLimits(0, (1 << 63) - 1, (1 << 63) - 1, append_time=False, key_required=False)


class TimeSearch(RecordCheck):
    """A search for the first record, from `start_offset` on, with at least the given timestamp.

    A decompressed record of more than `max_record_bytes` ends the search if it comes before the one that is found.
    """

    def __init__(
        self, batch: Buffer, header: BatchHeader, timestamp: int, start_offset: int, max_record_bytes: int = ANY_SIZE
    ) -> None:
        super().__init__(batch, header, _NOTHING_ASKED._replace(max_record_bytes=max_record_bytes))
        self._timestamp = timestamp
        self._first_delta = start_offset - header.base_offset
        self._found: tuple[int, int] | None = None
        self._times = NO_TIME if header.log_append_time else (NEVER, timestamp - 1 - header.base_timestamp)

    def search(self) -> Generator[None, None, tuple[int, int] | None]:
        """Return the record's timestamp and offset, or None.

        Raises:
            InvalidRecord, CorruptBatch: the records can't be read.
        """
        yield from self._records()
        return self._found

    def _judge(self, timestamp: int, offset_delta: int, has_key: bool) -> None:
        if timestamp >= self._timestamp and offset_delta >= self._first_delta:
            self._found = timestamp, self._header.base_offset + offset_delta
            self._end = 0  # no further
