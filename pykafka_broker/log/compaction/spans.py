"""The records of a batch as places in its bytes.

Rule: compaction keeps or drops records and never changes one, so it looks at the offset delta, the key and whether
there is a value, and copies the rest as it stands. Headers are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykafka_broker.log.filesystem import Buffer
from pykafka_broker.records.compression import MAX_DECOMPRESSED, NONE, decompress
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader
from pykafka_broker.records.record import read_varint

# start of the length, end of the timestamp delta, end, offset delta, timestamp delta, key, whether there is a value
Span = tuple[int, int, int, int, int, bytes | None, bool]
# of these, what it takes to copy a record: start of the length, end of the timestamp delta, end, timestamp delta
Place = tuple[int, int, int, int]
LEAST_RECORD_BYTES = 7  # a byte for each field, and nothing in them


def records_bytes(batch: Buffer, header: BatchHeader, max_bytes: int = MAX_DECOMPRESSED) -> bytes:
    """The records, uncompressed."""
    if header.codec == NONE:
        return bytes(memoryview(batch)[HEADER_SIZE : header.size])
    return decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size], max_bytes)


def iter_spans(data: bytes, count: int) -> Iterator[Span]:
    """`count` records from the start of `data`; `InvalidRecord` where they can't be what they claim.

    Varints of one and two bytes are decoded in place, as in `records.record`: a call for each would double the time.
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
            value = data[position + 1]  # after the attributes, which nothing uses
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
    """The records with a mark other than 0. All of them were read once before, so the data is what it claims."""
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
    """The rest of a varint whose first byte is `first`, still in zigzag form."""
    second = data[position]
    if second < 128:
        return first & 0x7F | second << 7, position + 1
    value, position = read_varint(data, position - 1)
    return (value << 1 ^ value >> 31) & 0xFFFFFFFF, position
