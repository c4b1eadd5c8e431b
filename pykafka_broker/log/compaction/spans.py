"""The records of a batch as places in its bytes.

Rule: compaction keeps or drops records and never changes one, so it looks at the offset delta, the key and whether
there is a value, and copies the rest as it stands. Headers are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pykafka_broker.log.filesystem import Buffer
from pykafka_broker.records.compression import NONE, decompress
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader
from pykafka_broker.records.record import read_varint


class Span(NamedTuple):
    start: int  # of the record's length
    body: int  # after its timestamp delta
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


def records_bytes(batch: Buffer, header: BatchHeader) -> bytes:
    """The records, uncompressed."""
    if header.codec == NONE:
        return bytes(memoryview(batch)[HEADER_SIZE : header.size])
    return decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size])


def iter_spans(data: bytes, count: int) -> Iterator[Span]:
    """`count` records from the start of `data`; `InvalidRecord` where they can't be what they claim.

    Varints of one and two bytes are decoded in place, as in `records.record`: a call for each would double the time.
    """
    position, limit = 0, len(data)
    try:
        for _ in range(count):
            start = position
            length, position = _varint(data, position)
            end = position + length
            if length < 0 or end > limit:
                raise InvalidRecord(f"a record of {length} bytes at byte {start} of {limit}")
            position += 1  # attributes, unused
            byte = data[position]
            if byte < 128:
                timestamp_delta = byte >> 1 ^ -(byte & 1)
                position += 1
            else:
                timestamp_delta, position = read_varint(data, position, 64)
            body = position
            byte = data[position]
            if byte < 128:
                offset_delta = byte >> 1 ^ -(byte & 1)
                position += 1
            else:
                offset_delta, position = _varint(data, position)
            byte = data[position]
            if byte < 128:
                key_length = byte >> 1 ^ -(byte & 1)
                position += 1
            else:
                key_length, position = _varint(data, position)
            key = None
            if key_length >= 0:
                key = data[position : position + key_length]
                position += key_length
            if position >= end:
                raise InvalidRecord(f"a record ends at byte {end}, its value has yet to come at {position}")
            # a null value is the varint -1, which is the byte 1; any other length has another first byte
            yield Span(start, body, end, offset_delta, timestamp_delta, key, data[position] != 1)
            position = end
    except IndexError:
        raise InvalidRecord("the records end too early") from None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    low = data[position]
    if low < 128:
        return low >> 1 ^ -(low & 1), position + 1
    high = data[position + 1]
    if high < 128:
        value = low & 0x7F | high << 7
        return value >> 1 ^ -(value & 1), position + 2
    return read_varint(data, position)
