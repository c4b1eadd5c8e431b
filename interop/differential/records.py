"""Fetched records as plain data. Rule: whole batches only, header and records; a broker may cut the last batch off, and
clients ignore such a rest.
"""

from __future__ import annotations

import struct
from typing import Any, Protocol

from kafka.record import MemoryRecords

HEADER = struct.Struct(">qiibIhiqqqhii")
V2_MAGIC, MAGIC_AT, OVERHEAD = 2, 16, 12
NOW_FROM = 1_700_000_000_000
NAMES = (
    "base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
)  # fmt: skip
CONTROL = 0x20


class Names(Protocol):
    """An object that replaces ids by their names."""

    def plain(self, value: Any, field: str = "") -> Any: ...


def plain_batches(data: Any, names: Names) -> list[Any]:
    found, data = [], bytes(data)
    while len(data) > MAGIC_AT:
        size = OVERHEAD + int.from_bytes(data[8:12], "big")
        if len(data) < size:
            break
        one, data = data[:size], data[size:]
        found.append(_batch(one, names) if one[MAGIC_AT] == V2_MAGIC else _records(one))
    return found


def _batch(data: bytes, names: Names) -> dict[str, Any]:
    header = dict(zip(NAMES, HEADER.unpack_from(data), strict=True))
    stamped = header["max_timestamp"] >= NOW_FROM
    del header["crc"], header["magic"]
    if stamped or header["attributes"] & CONTROL:  # the time is a clock's, so the bytes differ
        header = {
            name: value for name, value in header.items() if name not in ("length", "base_timestamp", "max_timestamp")
        }
    header["producer_id"] = names.plain(header["producer_id"], "producer_id")
    return header | {"records": _records(data)}


def _records(data: bytes) -> Any:
    try:
        found, memory = [], MemoryRecords(data)
        while memory.has_next():
            found += [_record(record) for record in memory.next_batch()]
        return found
    except Exception:  # whatever the reader fails on: both brokers were sent the same bytes
        return "<unreadable>"


def _record(record: Any) -> list[Any]:
    parts = [None if part is None else bytes(part).decode("latin-1") for part in (record.key, record.value)]
    stamp = "<now>" if record.timestamp is not None and record.timestamp >= NOW_FROM else record.timestamp
    return [record.offset, stamp, *parts, [[name, value and value.decode("latin-1")] for name, value in record.headers]]
