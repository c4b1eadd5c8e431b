"""Conversion between formats of records. Rule: offsets, keys, values and timestamps stay; only their wrapping changes.

Kafka converted up on Produce v0-v2 and down on Fetch v0-v3 until 3.9 (KIP-896 removed both), with the same results.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

from pykafka_broker.records.builder import BatchBuilder, varint
from pykafka_broker.records.compression import MAX_DECOMPRESSED, NONE, ZSTD, compressed, decompress_in_steps
from pykafka_broker.records.errors import InvalidRecord, TruncatedBatch, UnsupportedCompression
from pykafka_broker.records.header import (
    CODEC_MASK,
    HEADER_SIZE,
    BatchHeader,
    Buffer,
    batch_of,
    iter_batches,
    read_header,
)
from pykafka_broker.records.message_set import build_message_set, iter_entries, messages_and_pauses
from pykafka_broker.records.record import Record, check_room, decode_records, read_varint

_RECORDS_A_STEP = 500


def to_v2(
    message_set: Buffer,
    *,
    codec: int | None = None,
    level: int | None = None,
    log_append_time: int | None = None,
    base_offset: int = 0,
    max_bytes: int = MAX_DECOMPRESSED,
) -> Generator[None, None, bytearray]:
    """Convert a message set of format v0 or v1 to a v2 batch, in steps of about a millisecond.

    Offsets count from `base_offset`. `codec` None keeps the first entry's own, as `compression.type=producer` does.
    Messages of v0 go on without a timestamp, unless `log_append_time` gives them one.
    """
    if codec is None:
        codec = next((entry.codec for entry in iter_entries(message_set)), NONE)
    builder = BatchBuilder(base_offset=base_offset, log_append_time=log_append_time)
    some: list[Record] = []
    for message in messages_and_pauses(message_set, max_bytes=max_bytes):
        if message is not None:
            message.offset = base_offset + builder.count + len(some)
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
    return (yield from with_codec(read_header(batch), memoryview(batch)[HEADER_SIZE:], codec, level))


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
