"""Power cuts around a cleaning: of every key the last synced value is there; what was overwritten never comes back."""

from __future__ import annotations

import zlib
from random import Random
from typing import Any

import pytest

from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.records.builder import build_batch
from pykafka_broker.records.header import check_crc, iter_batches
from pykafka_broker.records.record import BatchRecord, iter_records
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from tests.log.crash.seen import Seen
from tests.log.support import NOW, TOPIC_ID, ClockedLogs, topic_config

Row = tuple[bytes, bytes | None]

SEEDS = 2


def open_manager(fs: CrashFileSystem) -> LogManager:
    numbers = iter(range(1, 1 << 16))
    config = topic_config(
        segment_bytes=900,
        index_interval_bytes=200,
        cleanup_policy=["compact"],
        min_cleanable_dirty_ratio=0.01,
        delete_retention_ms=20_000,
        retention_ms=-1,
    )
    settings = BrokerConfig({"log.dirs": "/data/logs"})
    return ClockedLogs(
        fs, settings, new_uuid=lambda: next(numbers).to_bytes(16, "big"), topic_config=lambda topic: config
    )


class Workload:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.fs = CrashFileSystem()
        self.appended: dict[int, Row] = {}
        self.synced = 0
        self.cleaned = 0
        self.now = NOW
        self.log: Any = None  # a PartitionLog, except before a start

    def run(self, steps: int) -> None:
        self.start()
        for _ in range(steps):
            self.now += 1000
            usual = [*[self.produce] * 4, self.flush, self.clean, self.clean, self.wait]
            self.random.choice([*usual, self.restart, self.power_cut])()

    def start(self) -> None:
        self.logs = open_manager(self.fs)
        self.logs.start(self.now)
        self.log = self.logs.create("t", 0, TOPIC_ID, self.now)

    def produce(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            base = self.log.log_end_offset
            rows = []
            for number in range(self.random.randrange(1, 4)):
                key = b"k%d" % self.random.randrange(8)
                value = None if self.random.random() < 0.2 else self.random.randbytes(self.random.randrange(80))
                self.appended[base + number] = key, value
                rows.append(BatchRecord(number, self.now, key, value))
            self.log.append(build_batch(rows), self.now)

    def flush(self) -> None:
        end = self.log.log_end_offset

        def done(error: OSError | None) -> None:
            assert error is None
            self.synced = max(self.synced, end)

        self.logs.flush(self.log, self.now, done)

    def clean(self) -> None:
        before = self.log.segments.size_bytes
        self.logs.cleaner.on_deadline(self.now + 20_000)
        self.now += 20_000
        self.cleaned += self.log.segments.size_bytes < before

    def wait(self) -> None:
        self.now += 61_000
        self.logs.on_deadline(self.now)

    def restart(self) -> None:
        self.logs.shutdown(self.now)
        self.synced = self.log.log_end_offset
        self.start()

    def power_cut(self) -> None:
        """Cut the power and go on with what is left on the disk."""
        fs = self.fs.after_crash(self.random.randrange(1 << 30))
        fs.on_operation, self.fs.on_operation = self.fs.on_operation, None
        self.fs, self.log = fs, None
        self.start()
        for offset in [offset for offset in self.appended if offset >= self.log.log_end_offset]:
            del self.appended[offset]


def check(fs: CrashFileSystem, workload: Workload) -> None:
    logs = open_manager(fs)
    logs.start(NOW)
    if not logs.exists("t", 0):
        assert workload.synced == 0
        return
    log = logs.get("t", 0)
    assert log.log_end_offset >= workload.synced
    present = read_back(log, workload.appended)
    newest: dict[bytes, int] = {}
    for offset in range(workload.synced):
        newest[workload.appended[offset][0]] = offset
    for key, offset in newest.items():
        here = [each for each, (other, _) in present.items() if other == key]
        is_tombstone = workload.appended[offset][1] is None
        assert (is_tombstone and not here) or max(here, default=-1) >= offset, f"{key!r} of {offset} is lost"


def read_back(log: PartitionLog, appended: dict[int, Row]) -> dict[int, Row]:
    present: dict[int, Row] = {}
    offset = log.log_start_offset
    while (read := log.read(offset, 1 << 20, log.high_watermark)) is not None:
        for header, data in iter_batches(read.records.read()):
            check_crc(data, header)
            assert header.last_offset >= offset
            for record in iter_records(data, header):
                assert record.offset not in present
                present[record.offset] = record.key or b"", record.value
                assert present[record.offset] == appended[record.offset]
            offset = header.next_offset
    for wanted in present:
        read = log.read(wanted, 1, log.high_watermark)
        assert read is not None
        assert next(iter_batches(read.records.read()))[0].last_offset >= wanted
    return present


@pytest.mark.whole
def test_a_crash_after_every_operation(crash_seed: int) -> None:
    workload = Workload(crash_seed)
    checked = 0
    seen = Seen()

    def look(fs: CrashFileSystem) -> None:
        if seen.is_new(fs, (workload.synced, tuple(workload.appended.items()))):
            check(fs, workload)

    def crash(what: str) -> None:
        nonlocal checked
        checked += 1
        if workload.log is not None:
            workload.synced = max(workload.synced, workload.log.recovery_point)
        for variant in (None, zlib.crc32(what.encode()) + checked):
            look(workload.fs.after_crash(variant))
        if checked % 5 == 0:
            look(workload.fs.after_crash(keep=True))

    workload.fs.on_operation = crash
    workload.run(50)
    assert workload.cleaned
    assert checked > 200
