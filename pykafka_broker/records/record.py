"""Records inside v2 batches. Rule: sound records are read as they stand, and impossible ones are refused.

Layout of a record (Kafka docs, "Record"): length varint, attributes int8 (unused), timestamp delta varlong, offset
delta varint, key length varint (-1: null), key, value length varint (-1: null), value, header count varint, and for
each header key length, key, value length, value. Varints are zigzag. Deltas count from the batch's base timestamp and
base offset. Offsets may have gaps, which compaction leaves.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError

from pykafka_broker.records.compression import MAX_DECOMPRESSED, NONE, decompress, decompress_in_steps
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import HEADER_SIZE, BatchHeader, Buffer, read_header, require_whole

Headers = list[tuple[str, bytes | None]]

_SMALLEST_RECORD = 7
_FOUR_BYTES = Struct("4B").unpack_from
_ZIGZAG = [value >> 1 ^ -(value & 1) for value in range(128)]
_SAFE_TIMESTAMP = 1 << 62  # a delta of one byte added to less than this stays an int64


@dataclass(slots=True)
class BatchRecord:
    """A record of a batch (Kafka: DefaultRecord). A header key outside UTF-8 has lone surrogates (PEP 383)."""

    offset: int = 0
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = field(default_factory=list)


def header_name(header: str) -> str:
    """Return the name of a header, with replacement characters for bytes other than UTF-8."""
    return header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def iter_records(
    batch: Buffer, header: BatchHeader | None = None, *, max_bytes: int = MAX_DECOMPRESSED
) -> Iterator[BatchRecord]:
    """Yield the records of the batch at the start of `batch`, in order; the CRC is not checked.

    A bad header or compressed block raises at the call, a bad record when its turn comes.
    """
    if header is None:
        header = read_header(batch)
    return decode_records(*records_data(batch, header, max_bytes), header)


def iter_records_in_steps(
    batch: Buffer, header: BatchHeader
) -> Generator[None, None, tuple[int, Iterator[BatchRecord]]]:
    """Decompress a batch in steps of about a millisecond.

    Returns:
        The size of the uncompressed records, and what `iter_records` returns.
    """
    if header.codec == NONE:
        return header.size - HEADER_SIZE, iter_records(batch, header)
    packed = memoryview(batch)[HEADER_SIZE : require_whole(batch, header)]
    data = yield from decompress_in_steps(header.codec, packed, MAX_DECOMPRESSED)
    check_room(header, len(data))
    return len(data), decode_records(data, 0, len(data), header)


def records_data(batch: Buffer, header: BatchHeader, max_bytes: int = MAX_DECOMPRESSED) -> tuple[bytes, int, int]:
    """Return uncompressed bytes with a batch's records, and where the records begin and end."""
    stop = require_whole(batch, header)
    if header.codec != NONE:
        data = decompress(header.codec, memoryview(batch)[HEADER_SIZE:stop], max_bytes)
        position, stop = 0, len(data)
    elif isinstance(batch, bytes) and stop == len(batch):
        data, position = batch, HEADER_SIZE
    else:
        data = bytes(memoryview(batch)[HEADER_SIZE:stop])
        position, stop = 0, len(data)
    check_room(header, stop - position)
    return data, position, stop


def check_room(header: BatchHeader, size: int) -> None:
    """Check whether so many records may stand in uncompressed data of the size."""
    if not 0 <= header.count * _SMALLEST_RECORD <= size:
        raise InvalidRecord(f"{header.count} records can't stand in {size} bytes")
    if header.base_offset + (1 << 31) >= 1 << 63:
        raise InvalidRecord(f"base offset {header.base_offset} leaves no room for the records' offsets")


def decode_records(data: bytes, position: int, stop: int, header: BatchHeader) -> Iterator[BatchRecord]:
    """Yield every record of data ending at `stop`. The common form is decoded in the loop, any other by `_read_record`.

    That form has one byte for the timestamp delta and the key's length, at most two for the record's length, the offset
    delta and the value's length, and no headers. A call for each varint would take three times as long.
    """
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.log_append_time else None
    limit = 128 if -_SAFE_TIMESTAMP < base_timestamp < _SAFE_TIMESTAMP else 0
    new, cls, four_bytes, zigzag = BatchRecord.__new__, BatchRecord, _FOUR_BYTES, _ZIGZAG
    try:
        for _ in range(header.count):
            start = position
            odd = length = data[position]
            if length < 128:
                last = position + (length >> 1)  # the record's last byte, which counts its headers
                position += 2
            else:
                length = data[position + 1]
                last = position + 1 + (length << 6) + (odd >> 1 & 63)
                position += 3
            delta, offset, size, after = four_bytes(data, position)
            if offset < 128:
                position += 3
            else:
                offset += (size << 7) - 128
                length |= size
                size = after
                position += 4
            if delta | length | size < limit and not (odd | offset) & 1:
                record = new(cls)
                record.offset = base_offset + (offset >> 1)
                record.timestamp = base_timestamp + zigzag[delta] if append_time is None else append_time
                if size & 1:
                    record.key = None
                    if size > 1:
                        last = -1  # a negative length is not of the common form
                else:
                    record.key = data[position : (position := position + (size >> 1))]
                size = data[position]
                position += 1
                if size > 127:
                    size += (data[position] << 7) - 128
                    position += 1
                    if size > 16383:
                        last = -1
                if size & 1:
                    record.value = None
                    if size > 1:
                        last = -1
                else:
                    record.value = data[position : (position := position + (size >> 1))]
                if position == last and not data[position]:
                    record.headers = []
                    position += 1
                    yield record
                    continue
            record, position = _read_record(data, start, stop, header)
            yield record
    except (IndexError, StructError):
        raise InvalidRecord(f"the records are cut short at byte {stop}") from None
    if position != stop:
        raise InvalidRecord(f"{stop - position} bytes follow the {header.count} records")


def _read_record(data: bytes, position: int, stop: int, header: BatchHeader) -> tuple[BatchRecord, int]:
    """Return the record at `position`, in any form, and the record's end."""
    size, position = read_varint(data, position)
    end = position + size
    if not 0 <= size <= stop - position:
        raise InvalidRecord(f"a record of {size} bytes with {stop - position} left")
    timestamp_delta, position = read_varint(data, position + 1, 64)  # after the attributes
    offset_delta, position = read_varint(data, position)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    headers, position = _read_headers(data, position, end)
    if position != end:
        raise InvalidRecord(f"a record that ends at byte {end} has fields up to byte {position}")
    timestamp = header.max_timestamp if header.log_append_time else header.base_timestamp + timestamp_delta
    return BatchRecord(header.base_offset + offset_delta, wrap_int64(timestamp), key, value, headers), end


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    if size > end - position:
        raise InvalidRecord(f"a field of {size} bytes with {end - position} left in its record")
    return data[position : position + size], position + size


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if not 0 <= count <= max(end - position, 0) // 2:
        raise InvalidRecord(f"{count} headers with {end - position} bytes left in their record")
    headers: Headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise InvalidRecord("a header's key is null")
        value, position = _read_bytes(data, position, end)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return headers, position


def read_varint(data: bytes | bytearray, position: int, bits: int = 32) -> tuple[int, int]:
    """Return a zigzag varint of up to `bits` bits and the position behind; further bits are dropped, as in Java.

    Raises:
        IndexError: the data ends within the varint.
    """
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            break
    if byte > 0x7F:
        raise InvalidRecord(f"a varint of more than {bits} bits ends at byte {position}")
    result &= (1 << bits) - 1
    return (result >> 1) ^ -(result & 1), position


def wrap_int64(value: int) -> int:
    """Wrap a number as int64 arithmetic does, for deltas of timestamps far apart."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
