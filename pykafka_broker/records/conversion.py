"""Records in other forms than the log's: message sets of formats v0 and v1, and batches under another codec.

Rule: message sets are read strictly and written as Kafka 0.8 to 0.10 wrote them. In a conversion offsets, keys, values
and timestamps stay; only their wrapping changes. Kafka converted up on Produce v0-v2 and down on Fetch v0-v3 until 3.9
(KIP-896 removed both), with the same results.

An entry of a set (Kafka docs, "Old Message Format"): offset int64, size int32, crc uint32 (CRC-32 of all that follows
it), magic int8, attributes int8, in v1 timestamp int64, key and value with int32 lengths (-1: null). A compressed set
is the value of a wrapper entry. Inner offsets are absolute in v0; in v1 they count from 0 and the wrapper's offset is
the last record's (KIP-31). A v1 wrapper of type LogAppendTime gives its timestamp to all that is inside (KIP-32).
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from struct import Struct
from typing import NamedTuple

from pykafka_broker.records.builder import BatchBuilder, varint
from pykafka_broker.records.compression import (
    LZ4,
    MAX_DECOMPRESSED,
    NONE,
    ZSTD,
    compress,
    compressed,
    decompress_in_steps,
)
from pykafka_broker.records.errors import CorruptBatch, InvalidRecord, TruncatedBatch, UnsupportedCompression
from pykafka_broker.records.header import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    batch_of,
    iter_batches,
    read_header,
)
from pykafka_broker.records.record import BatchRecord, check_room, decode_records, read_varint

ENTRY_OVERHEAD = 12  # offset and size
_OFFSET_AND_SIZE = Struct(">qi")
_CRC_MAGIC_ATTRIBUTES = Struct(">Ibb")
_MAGIC_ATTRIBUTES = Struct(">bb")
_SIZES_A_STEP = 3_000
_RECORDS_A_STEP = 500
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_SMALLEST = {0: 14, 1: 22}
_CRC_SIZE = 4


class MessageEntry(NamedTuple):
    """A message, or a wrapper around a compressed set."""

    offset: int
    magic: int
    attributes: int
    timestamp: int  # NO_TIMESTAMP in v0
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME_BIT)


def iter_entries(buffer: Buffer) -> Iterator[MessageEntry]:
    """Yield the entries of a set with checked CRCs, wrappers unopened.

    Raises:
        TruncatedBatch: the last entry is cut short.
    """
    view = memoryview(buffer)
    position, stop = 0, len(view)
    while position < stop:
        if stop - position < ENTRY_OVERHEAD:
            raise TruncatedBatch(f"{stop - position} bytes at byte {position}, an entry begins with {ENTRY_OVERHEAD}")
        offset, size = _OFFSET_AND_SIZE.unpack_from(view, position)
        position += ENTRY_OVERHEAD
        if size < _SMALLEST[0]:
            raise CorruptBatch(f"message size {size} at byte {position}")
        if size > stop - position:
            raise TruncatedBatch(f"{stop - position} bytes at byte {position} of a message of {size}")
        yield _read_message(offset, view[position : position + size])
        position += size


def _read_message(offset: int, message: memoryview) -> MessageEntry:
    crc, magic, attributes = _CRC_MAGIC_ATTRIBUTES.unpack_from(message)
    if magic not in _SMALLEST:
        raise CorruptBatch(f"magic {magic} of the message at offset {offset}")
    if len(message) < _SMALLEST[magic]:
        raise CorruptBatch(f"message size {len(message)} at offset {offset}")
    found = zlib.crc32(message[_CRC_SIZE:])
    if found != crc:
        raise CorruptBatch(f"crc of the message at offset {offset} is {found:#010x}, it says {crc:#010x}")
    position = _CRC_MAGIC_ATTRIBUTES.size
    timestamp = NO_TIMESTAMP
    if magic:
        timestamp = _INT64.unpack_from(message, position)[0]
        position += _INT64.size
    key, position = _read_bytes(message, position)
    value, position = _read_bytes(message, position)
    if position != len(message):
        raise InvalidRecord(f"{len(message) - position} bytes follow the value of the message at offset {offset}")
    return MessageEntry(offset, magic, attributes, timestamp, key, value)


def _read_bytes(message: memoryview, position: int) -> tuple[bytes | None, int]:
    start = position + _INT32.size
    if start > len(message):
        raise InvalidRecord("a message's value is missing")
    size: int = _INT32.unpack_from(message, position)[0]
    if size == -1:
        return None, start
    if not 0 <= size <= len(message) - start:
        raise InvalidRecord(f"a field of {size} bytes with {len(message) - start} left in its message")
    return bytes(message[start : start + size]), start + size


def iter_messages(buffer: Buffer) -> Iterator[BatchRecord]:
    """Yield every message of a set, compressed or not, at the absolute offset."""
    return (message for message in messages_and_pauses(buffer, MAX_DECOMPRESSED) if message is not None)


def messages_and_pauses(buffer: Buffer, max_bytes: int) -> Iterator[BatchRecord | None]:
    """Yield messages, and None after each millisecond without one; `max_bytes` bounds the content of all wrappers."""
    for entry in iter_entries(buffer):
        if entry.codec == NONE:
            yield BatchRecord(entry.offset, entry.timestamp, entry.key, entry.value)
        else:
            inner = yield from _open_wrapper(entry, max_bytes)
            max_bytes -= len(inner)
            yield from _inner_messages(entry, inner)


def _open_wrapper(wrapper: MessageEntry, max_bytes: int) -> Generator[None, None, bytes]:
    if wrapper.codec == ZSTD:
        raise UnsupportedCompression(f"zstd in a message of format v{wrapper.magic}")
    if wrapper.value is None:
        raise InvalidRecord(f"the compressed message at offset {wrapper.offset} has no value")
    return (
        yield from decompress_in_steps(wrapper.codec, wrapper.value, max_bytes, broken_lz4_checksum=wrapper.magic == 0)
    )


def _inner_messages(wrapper: MessageEntry, inner: bytes) -> Iterator[BatchRecord | None]:
    if not inner:
        raise InvalidRecord(f"the compressed message at offset {wrapper.offset} is empty")
    base = wrapper.offset - (yield from _last_offset(inner)) if wrapper.magic else 0
    for entry in iter_entries(inner):
        if entry.magic != wrapper.magic or entry.codec != NONE:
            raise InvalidRecord(
                f"a message of format v{entry.magic} and codec {entry.codec} in a wrapper of format v{wrapper.magic}"
            )
        timestamp = wrapper.timestamp if wrapper.log_append_time else entry.timestamp
        yield BatchRecord(base + entry.offset, timestamp, entry.key, entry.value)


def _last_offset(inner: bytes) -> Generator[None, None, int]:
    """Return the offset of the last entry, found by sizes alone; faults of entries show when the entries are read."""
    position = offset = seen = 0
    while position <= len(inner) - ENTRY_OVERHEAD:
        offset, size = _OFFSET_AND_SIZE.unpack_from(inner, position)
        position += ENTRY_OVERHEAD + max(size, 0)
        seen += 1
        if seen % _SIZES_A_STEP == 0:
            yield
    return offset


def build_message_set(
    records: Iterable[BatchRecord],
    magic: int,
    *,
    codec: int = NONE,
    log_append_time: int | None = None,
) -> Generator[None, None, bytes]:
    """Build a set of format v0 or v1, without headers, in a wrapper if compressed; in steps of about a millisecond."""
    if codec == ZSTD:
        raise UnsupportedCompression(f"zstd in a message of format v{magic}")
    attributes = LOG_APPEND_TIME_BIT if magic and log_append_time is not None else 0
    relative = magic > 0 and codec != NONE
    base = last = None
    max_timestamp = NO_TIMESTAMP
    messages = bytearray()
    for number, record in enumerate(records, 1):
        last = record.offset
        if base is None:
            base = last if relative else 0
        timestamp = record.timestamp if log_append_time is None else log_append_time
        max_timestamp = max(max_timestamp, timestamp)
        messages += _entry(last - base, magic, attributes, timestamp, record.key, record.value)
        if number % _RECORDS_A_STEP == 0:
            yield
    if codec == NONE or last is None:
        return bytes(messages)
    if codec == LZ4 and magic == 0:
        value = compress(codec, messages, broken_lz4_checksum=True)
    else:
        pieces = []
        for piece in compressed(codec, messages):
            pieces.append(piece)
            yield
        value = b"".join(pieces)
    return _entry(last, magic, attributes | codec, max_timestamp, None, value)


def _entry(offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"".join(
        (
            _MAGIC_ATTRIBUTES.pack(magic, attributes),
            _INT64.pack(timestamp) if magic else b"",
            _INT32.pack(-1 if key is None else len(key)),
            key or b"",
            _INT32.pack(-1 if value is None else len(value)),
            value or b"",
        )
    )
    return b"".join(
        (_OFFSET_AND_SIZE.pack(offset, _CRC_SIZE + len(body)), zlib.crc32(body).to_bytes(_CRC_SIZE, "big"), body)
    )


# -- conversions


def to_v2(message_set: Buffer, *, max_bytes: int = MAX_DECOMPRESSED) -> Generator[None, None, bytearray]:
    """Convert a message set of format v0 or v1 to a v2 batch from offset 0 on, in steps of about a millisecond.

    The batch has the codec of the first entry. Messages of v0 stay without a timestamp.
    """
    codec = next((entry.codec for entry in iter_entries(message_set)), NONE)
    builder = BatchBuilder()
    some: list[BatchRecord] = []
    for message in messages_and_pauses(message_set, max_bytes):
        if message is not None:
            message.offset = builder.count + len(some)
            some.append(message)
        if message is None or len(some) == _RECORDS_A_STEP:
            builder.extend(some)
            some.clear()
            yield
    builder.extend(some)
    if not builder.count:
        raise InvalidRecord("a message set without a message")
    batch = builder.build()
    if codec == NONE:
        return batch
    return (yield from with_codec(read_header(batch), memoryview(batch)[HEADER_SIZE:], codec))


def from_v2(
    batches: Buffer, magic: int, *, first_offset: int = -1, max_bytes: int = MAX_DECOMPRESSED
) -> Generator[None, None, bytes]:
    """Convert v2 batches to a message set of format v0 or v1, in steps of about a millisecond.

    Headers and control records are left out. A batch cut short at the end is left out, as it would be by the client.
    zstd, which older clients can't read (KIP-110), ends the set. Records below `first_offset` are left out where
    nothing is compressed.

    Raises:
        UnsupportedCompression: the first batch is compressed with zstd.
    """
    pieces: list[bytes] = []
    for header, batch in _whole_batches(batches):
        if header.is_control:
            continue
        if header.codec == ZSTD:
            if pieces:
                break
            raise UnsupportedCompression(f"the batch at offset {header.base_offset} is compressed with zstd")
        payload = memoryview(batch)[HEADER_SIZE : header.size]
        data = yield from decompress_in_steps(header.codec, payload, max_bytes)
        check_room(header, len(data))
        records = decode_records(data, 0, len(data), header)
        if header.codec == NONE:
            records = (record for record in records if record.offset >= first_offset)
        append_time = header.max_timestamp if header.log_append_time else None
        piece = yield from build_message_set(records, magic, codec=header.codec, log_append_time=append_time)
        pieces.append(piece)
        yield
    return b"".join(pieces)


def _whole_batches(batches: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    try:
        yield from iter_batches(batches)
    except TruncatedBatch:
        return


def with_codec(
    header: BatchHeader, data: Buffer, codec: int, level: int | None = None, *, renumber: bool = False
) -> Generator[None, None, bytearray]:
    """Build the batch of a header and checked records under another codec, in steps of about a millisecond.

    `renumber`: their offset deltas become the numbers from 0 on.
    """
    if renumber:
        data = yield from _renumbered(data, header.count)
    records = bytearray()
    for piece in compressed(codec, data, level):
        records += piece
        yield
    return batch_of(replace(header, attributes=header.attributes & ~CODEC_MASK | codec), records)


def _renumbered(data: Buffer, count: int) -> Generator[None, None, bytearray]:
    """Renumber fully written records: the offset delta of each becomes the index."""
    source = bytes(data)
    result = bytearray()
    position = 0
    for number in range(count):
        size, start = read_varint(source, position)
        position = start + size
        _, at = read_varint(source, start + 1, 64)
        _, rest = read_varint(source, at)
        delta = varint(number)
        result += varint(size + len(delta) - (rest - at)) + source[start:at] + delta + source[rest:position]
        if not number % _RECORDS_A_STEP:
            yield
    return result
