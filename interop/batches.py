"""Record batches and message sets for raw requests. Rule: kafka-python's builder makes them and its reader reads them,
so that our own code never judges itself.
"""

import struct
from dataclasses import dataclass
from typing import Any

import crc32c
from kafka.record import MemoryRecords, MemoryRecordsBuilder

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True)
class Rec:
    """One record, as written and as read."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = 1_600_000_000_000
    offset: int | None = None


def batch(
    *values: bytes | Rec,
    magic: int = 2,
    codec: str = "none",
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
) -> bytes:
    """Return one batch (message set for `magic` 0 and 1); `producer` is its id, epoch and first sequence number."""
    builder = MemoryRecordsBuilder(magic, CODECS[codec], 100_000_000)
    if producer is not None:
        builder.set_producer_state(*producer, transactional)
    for value in values:
        record = value if isinstance(value, Rec) else Rec(value)
        builder.append(record.timestamp if magic else None, record.key, record.value, *([[]] if magic > 1 else []))
    builder.close()
    return bytes(builder.buffer())


def records(data: Any) -> list[Rec]:
    """Return the records of a fetched buffer, whose last record a broker may cut off."""
    found, memory = [], MemoryRecords(bytes(data))
    while memory.has_next():
        for record in memory.next_batch():
            found.append(Rec(record.value, record.key, record.timestamp, record.offset))
    return found


# Where the fields of a batch header stand (Kafka docs, "Record Batch"), for `patched`.
FIELDS = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "count": (57, ">i"),
}


def patched(data: bytes, **values: int) -> bytes:
    """Return the batch with header fields changed; its CRC is made right again unless it is among them."""
    changed = bytearray(data)
    for name, value in values.items():
        at, code = FIELDS[name]
        struct.pack_into(code, changed, at, value)
    if "crc" not in values:
        struct.pack_into(">I", changed, 17, crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)
