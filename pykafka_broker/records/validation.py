"""What a broker asks of a producer's records. Rule: they must agree with their header, which was checked before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pykafka_broker.records.compression import MAX_DECOMPRESSED
from pykafka_broker.records.crc import Buffer
from pykafka_broker.records.errors import InvalidRecord
from pykafka_broker.records.header import BatchHeader, read_header
from pykafka_broker.records.record import Record, iter_records, read_varint, records_data

_MAX_NULL_KEYS = 1_000


class RecordsInfo(NamedTuple):
    """Kafka writes the true max timestamp into a header that names another: see `set_max_timestamp`."""

    min_timestamp: int
    max_timestamp: int
    offset_of_max_timestamp: int  # the first one that has it
    null_keys: list[int]  # the first thousand, as indexes in the batch


def validate_records(
    batch: Buffer,
    header: BatchHeader | None = None,
    *,
    key_required: bool = False,
    max_bytes: int = MAX_DECOMPRESSED,
) -> RecordsInfo:
    """Read all records of the batch at the start of `batch`; raise `InvalidRecord` where Kafka refuses them.

    There are as many as the header says and nothing after them, and their offsets follow each other from the base
    offset to the last one. With `key_required` (compacted topics) none may lack its key.
    """
    if header is None:
        header = read_header(batch)
    return validate_decoded(iter_records(batch, header, max_bytes=max_bytes), header, key_required=key_required)


def validate_decoded(records: Iterable[Record], header: BatchHeader, *, key_required: bool = False) -> RecordsInfo:
    """`validate_records` for records that are being decoded already."""
    if header.count <= 0 or header.count != header.last_offset_delta + 1:
        raise InvalidRecord(f"{header.count} records with a last offset delta of {header.last_offset_delta}")
    low = high = offset_of_high = None
    null_keys: list[int] = []
    expected = header.base_offset
    for record in records:
        if record.offset != expected:
            raise InvalidRecord(
                f"offset delta {record.offset - header.base_offset} of record {expected - header.base_offset}"
            )
        timestamp = record.timestamp
        if high is None or timestamp > high:
            high, offset_of_high = timestamp, expected
        if low is None or timestamp < low:
            low = timestamp
        if record.key is None and len(null_keys) < _MAX_NULL_KEYS:
            null_keys.append(expected - header.base_offset)
        expected += 1
    if key_required and null_keys:
        raise InvalidRecord(f"records {null_keys[:10]} of the batch have no key")
    assert low is not None
    assert high is not None
    assert offset_of_high is not None
    return RecordsInfo(low, high, offset_of_high, null_keys)


def has_null_key(batch: Buffer, header: BatchHeader | None = None, *, max_bytes: int = MAX_DECOMPRESSED) -> bool:
    """Whether a record of the batch lacks its key. Steps from record to record and looks at nothing else in them."""
    if header is None:
        header = read_header(batch)
    data, position, stop = records_data(batch, header, max_bytes)
    try:
        for _ in range(header.count):
            size = data[position]
            if size < 128 and not size & 1:
                start = position + 2  # after the attributes
                position += 1 + (size >> 1)
            else:
                size, start = read_varint(data, position)
                position = start + size
                start += 1
            if not start < position <= stop:
                raise InvalidRecord(f"a record ends at byte {position} of {stop}")
            start = start + 1 if data[start] < 128 else read_varint(data, start, 64)[1]
            start = start + 1 if data[start] < 128 else read_varint(data, start)[1]
            if data[start] == 1:  # the varint -1
                return True
    except IndexError:
        raise InvalidRecord(f"the records are cut short at byte {stop}") from None
    return False
