"""Writing v2 batches. Rule: the bytes are those of Kafka's own builder for the same records and fields.

The base timestamp is the first record's, the max timestamp the greatest one, or with LogAppendTime the broker's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict, Unpack

from pykafka_broker.protocol.runtime import varint_bytes
from pykafka_broker.records.compression import NONE, compress
from pykafka_broker.records.header import (
    ATTRIBUTES_OFFSET,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    HEADER_UNDER_CRC,
    HEADER_UP_TO_CRC,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc32c,
    write_crc,
)
from pykafka_broker.records.record import BatchRecord, Headers, wrap_int64

_NULL = b"\x01"  # the varint -1
_MAX_DELTA = (1 << 31) - 1


_UNSIGNED = [varint_bytes(value) for value in range(4096)]
# the varints of 0 to 2047, then those of -2048 to -1, where Python's negative indexes find them
_SMALL = _UNSIGNED[::2] + _UNSIGNED[::-2]


def varint(value: int) -> bytes:
    """Return the zigzag varint of an int64."""
    return _SMALL[value] if -2048 <= value < 2048 else varint_bytes(value << 1 ^ value >> 63)


class BatchBuilder:
    """A batch being built from records; `build` may be called once."""

    def __init__(
        self,
        *,
        base_offset: int = 0,
        codec: int = NONE,
        level: int | None = None,
        log_append_time: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        partition_leader_epoch: int = -1,
    ) -> None:
        self.base_offset = base_offset
        self.codec = codec
        self.level = level
        self.log_append_time = log_append_time
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.partition_leader_epoch = partition_leader_epoch
        self.attributes = (
            (LOG_APPEND_TIME_BIT if log_append_time is not None else 0)
            | (TRANSACTIONAL_BIT if transactional else 0)
            | (CONTROL_BIT if control else 0)
        )
        self.count = 0
        self.last_offset_delta = -1
        self.max_timestamp = NO_TIMESTAMP
        self._base_timestamp: int | None = None
        self._buffer = bytearray(HEADER_SIZE)

    @property
    def size(self) -> int:
        """Return the size of the batch so far in bytes, before compression."""
        return len(self._buffer)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None = None,
        offset: int | None = None,
    ) -> None:
        """Add a record at `offset`, by default after the last record."""
        if offset is None:
            offset = self.base_offset + self.last_offset_delta + 1
        self.extend((BatchRecord(offset, timestamp, key, value, headers or []),))

    def extend(self, records: Iterable[BatchRecord]) -> None:
        """Add records at rising offsets from the base offset on."""
        buffer, small, join = self._buffer, _SMALL, b"".join
        base_offset, last_delta, max_timestamp = self.base_offset, self.last_offset_delta, self.max_timestamp
        base_timestamp = self._base_timestamp
        count = self.count
        for record in records:
            timestamp, key, value, headers = record.timestamp, record.key, record.value, record.headers
            offset_delta = record.offset - base_offset
            if not last_delta < offset_delta <= _MAX_DELTA:
                raise ValueError(f"offset {record.offset} in a batch of {base_offset} to {base_offset + last_delta}")
            if base_timestamp is None:
                base_timestamp = timestamp
            if timestamp > max_timestamp:
                max_timestamp = timestamp
            delta = timestamp - base_timestamp
            key_size = -1 if key is None else len(key)
            value_size = -1 if value is None else len(value)
            body = join(
                (
                    b"\0",
                    small[delta] if -2048 <= delta < 2048 else varint(wrap_int64(delta)),
                    small[offset_delta] if offset_delta < 2048 else varint(offset_delta),
                    small[key_size] if key_size < 2048 else varint(key_size),
                    key or b"",
                    small[value_size] if value_size < 2048 else varint(value_size),
                    value or b"",
                    _encode_headers(headers) if headers else b"\0",
                )
            )
            size = len(body)
            buffer += small[size] if size < 2048 else varint(size)
            buffer += body
            last_delta = offset_delta
            count += 1
        self.last_offset_delta, self.max_timestamp, self.count = last_delta, max_timestamp, count
        self._base_timestamp = base_timestamp

    def build(self) -> bytearray:
        batch = self._buffer
        if self.codec != NONE and self.count:
            batch = bytearray(HEADER_SIZE)
            batch += compress(self.codec, memoryview(self._buffer)[HEADER_SIZE:], self.level)
        HEADER.pack_into(
            batch,
            0,
            self.base_offset,
            len(batch) - LENGTH_OVERHEAD,
            self.partition_leader_epoch,
            2,
            0,
            self.attributes | (self.codec if self.count else NONE),
            self.last_offset_delta,
            NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            self.max_timestamp if self.log_append_time is None else self.log_append_time,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        )
        write_crc(batch)
        return batch


class BatchFields(TypedDict, total=False):
    """The arguments of `BatchBuilder` apart from the base offset."""

    codec: int
    level: int | None
    log_append_time: int | None
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    partition_leader_epoch: int


def build_batch(
    records: Iterable[BatchRecord], *, base_offset: int | None = None, **fields: Unpack[BatchFields]
) -> bytearray:
    """Build a batch of `records`; the base offset is by default the first record's."""
    if base_offset is None:
        records = list(records)
        base_offset = records[0].offset
    builder = BatchBuilder(base_offset=base_offset, **fields)
    builder.extend(records)
    return builder.build()


def build_keyed_batch(
    records: Iterable[tuple[bytes, bytes | None]],
    timestamp: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
) -> tuple[bytearray, BatchHeader]:
    """Build a batch of keys and values with the same time, from offset 0 on, and return batch and header.

    The batch is transactional if a producer is named. The result is that of `build_batch`, in a third of the time.
    """
    small, count = _SMALL, 0
    pieces = [b""]
    for key, value in records:
        key_size = len(key)
        value_size = -1 if value is None else len(value)
        body = (
            b"\0\0"
            + (small[count] if count < 2048 else varint(count))
            + (small[key_size] if key_size < 2048 else varint(key_size))
            + key
            + (small[value_size] if value_size < 2048 else varint(value_size))
            + (value or b"")
            + b"\0"
        )
        size = len(body)
        pieces += (small[size] if size < 2048 else varint(size), body)
        count += 1
    attributes = 0 if producer_id == NO_PRODUCER_ID else TRANSACTIONAL_BIT
    fields = (attributes, count - 1, timestamp, timestamp, producer_id, producer_epoch, NO_SEQUENCE, count)
    pieces[0] = HEADER_UNDER_CRC.pack(*fields)
    checked = b"".join(pieces)
    start = (0, len(checked) + ATTRIBUTES_OFFSET - LENGTH_OVERHEAD, -1, 2, crc32c(checked))
    return bytearray(HEADER_UP_TO_CRC.pack(*start) + checked), BatchHeader(*start, *fields)


def _encode_headers(headers: Headers) -> bytes:
    pieces = [varint(len(headers))]
    for key, value in headers:
        name = key.encode("utf-8", "surrogateescape")
        pieces += (varint(len(name)), name)
        pieces += (_NULL,) if value is None else (varint(len(value)), value)
    return b"".join(pieces)
