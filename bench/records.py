"""The cost of work inside record batches: `python bench/records.py`. Medians of rounds; nothing is asserted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.record.default_records import DefaultRecordBatch

from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.common_form import RecordLimits
from pykafka_broker.records.compression import CODEC_NAMES
from pykafka_broker.records.conversion import from_v2, to_v2
from pykafka_broker.records.header import check_crc, read_header
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.records.validation import RecordCheck
from pykafka_broker.steps import at_once

ROUNDS = 15
BATCH_BYTES = 64 << 10


def seconds(work: Callable[[], Any]) -> float:
    """Return the seconds of one call of `work`; each round is long enough for the clock."""
    start = time.perf_counter()
    work()
    repeats = max(1, int(0.01 / (time.perf_counter() - start)))
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        rounds.append((time.perf_counter() - start) / repeats)
    return statistics.median(rounds)


def read_all(batch: bytes) -> None:
    for _ in iter_records(batch):
        pass


def read_all_with_kafka_python(batch: bytes) -> None:
    for _ in DefaultRecordBatch(batch):
        pass


def check_all(batch: bytes) -> None:
    any_time = RecordLimits(0, (1 << 63) - 1, (1 << 63) - 1, append_time=False, key_required=False)
    for _ in RecordCheck(batch, read_header(batch), any_time).steps():
        pass


def report_records(value_size: int) -> None:
    count = max(1, BATCH_BYTES // value_size)
    records = [BatchRecord(i, 1_700_000_000_000 + i // 50, b"key-%d" % i, bytes(value_size)) for i in range(count)]
    batch = bytes(build_batch(records))
    message_set = at_once(from_v2(batch, 1))
    works: dict[str, Callable[[], Any]] = {
        "iter_records": lambda: read_all(batch),
        "  kafka-python": lambda: read_all_with_kafka_python(batch),
        "RecordCheck": lambda: check_all(batch),
        "build_batch": lambda: build_batch(records),
        "to_v2": lambda: list(to_v2(message_set)),
        "from_v2": lambda: list(from_v2(batch, 1)),
    }
    print(f"{count} records of {value_size} bytes")
    for name, work in works.items():
        print(f"  {name:20} {seconds(work) / count * 1e9:8.0f} ns/record")


def report_compression(value_size: int = 100) -> None:
    text = b"".join(
        b'{"id": %d, "name": "sensor %d", "value": %d}' % (i, i % 40, i * 7919 % 1000) for i in range(4_000)
    )
    values = [text[i : i + value_size] for i in range(0, BATCH_BYTES, value_size)]
    records = [BatchRecord(i, 1_700_000_000_000 + i // 50, None, value) for i, value in enumerate(values)]
    print(f"{len(records)} records of JSON, {value_size} bytes each")
    for codec, name in enumerate(CODEC_NAMES):
        batch = bytes(build_batch(records, codec=codec))
        build = seconds(partial(build_batch, records, codec=codec)) / len(records) * 1e9
        read = seconds(partial(read_all, batch)) / len(records) * 1e9
        print(f"  {name:8} {len(batch):6} bytes, build {build:5.0f} ns/record, read {read:5.0f} ns/record")


def report_batches() -> None:
    for size in (1 << 10, 16 << 10, 1 << 20):
        batch = build_batch([BatchRecord(0, 0, None, bytes(size))])
        duration = seconds(partial(check_crc, batch, read_header(batch)))
        print(f"check_crc of {size >> 10:5} KiB  {size / duration / 1e9:6.1f} GB/s")
    print(f"read_header            {seconds(lambda: read_header(batch)) * 1e9:6.0f} ns")


if __name__ == "__main__":
    report_batches()
    for value_size in (20, 100, 1000):
        report_records(value_size)
    report_compression()
