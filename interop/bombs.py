"""Batches that unpack to far more than arrived. Rule: headers and CRCs are right, so that a broker which looks into the
records has to unpack them.
"""

import gzip
from collections.abc import Iterator

import lz4.frame
import snappy
import zstandard

from interop.answers.requests import BY_NAME
from interop.batches import CODECS, batch, patched
from interop.giants import PARTITIONS, TOPIC, Giant
from interop.raw import request_bytes
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.runtime import uvarint

HEADER_BYTES = 61  # the offset in a batch at which its records begin
LENGTH_AFTER = 12  # the bytes that a batch's length does not count
BATCH_BYTES = 240_000  # below `max.message.bytes`; a batch for each partition makes two megabytes
ZEROS = bytes(16 << 20)
LONG_VALUE_BYTES = 256 << 20


def sealed(codec: str, packed: bytes) -> bytes:
    """Return a batch whose header announces one record and whose records are these bytes."""
    header = batch(b"one")[:HEADER_BYTES]
    return patched(header + packed, length=HEADER_BYTES - LENGTH_AFTER + len(packed), attributes=CODECS[codec])


def filled_with(piece: bytes) -> bytes:
    """Repeat the piece as often as a batch may hold it: frames and members of these codecs can follow each other."""
    return piece * (BATCH_BYTES // len(piece))


def record_of_zeros() -> Iterator[bytes]:
    """Yield a valid record whose value is long."""
    value_length = varint(LONG_VALUE_BYTES)
    body = b"\0\0\0\x01" + value_length  # attributes, deltas, no key
    yield varint(len(body) + LONG_VALUE_BYTES + 1) + body
    for _ in range(LONG_VALUE_BYTES // len(ZEROS)):
        yield ZEROS
    yield b"\0"  # no headers


def varint(number: int) -> bytes:
    """Return a number of 0 or more as a zigzag varint, the format of numbers in records."""
    return uvarint(2 * number)


def bombs() -> Iterator[Giant]:
    """Yield produce requests with a bomb for every partition, and then a look-up by time that has to unpack them."""
    zstd, lz4_frame = zstandard.ZstdCompressor(level=1), lz4.frame.compress(ZEROS[: 4 << 20])
    kinds = {
        "zstd of zeros": ("zstd", filled_with(zstd.compress(ZEROS * 8))),
        "gzip of zeros": ("gzip", filled_with(gzip.compress(ZEROS))),
        "empty gzip members": ("gzip", filled_with(gzip.compress(b""))),
        "empty zstd frames": ("zstd", filled_with(zstd.compress(b""))),
        "empty lz4 frames": ("lz4", filled_with(lz4.frame.compress(b""))),
        "lz4 of zeros": ("lz4", filled_with(lz4_frame)),
        "snappy of zeros": ("snappy", snappy.compress(ZEROS[: BATCH_BYTES * 20])),
        "a zstd record": ("zstd", zstd.compress(b"".join(record_of_zeros()))),
        "a gzip record": ("gzip", gzip.compress(b"".join(record_of_zeros()), 1)),
    }
    for name, (codec, packed) in kinds.items():
        body = request_bytes(_produced(sealed(codec, packed)), BY_NAME)
        yield Giant(f"Produce: {name}", body, PARTITIONS)
    yield Giant("ListOffsets by time", request_bytes(_looked_up(), 7), PARTITIONS)


def _produced(data: bytes) -> ProduceRequest:
    partitions = [PartitionProduceData(number, data) for number in range(PARTITIONS)]
    return ProduceRequest(None, -1, 10_000, [TopicProduceData(TOPIC, partition_data=partitions)])


def _looked_up() -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(number, timestamp=when) for number in range(PARTITIONS) for when in (1, -3)]
    return ListOffsetsRequest(-1, topics=[ListOffsetsTopic(TOPIC, asked)])
