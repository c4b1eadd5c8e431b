"""Power cuts after every single operation of a busy broker: what was promised is there, and nothing is made up."""

from __future__ import annotations

import contextlib
import zlib
from random import Random

from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.records.header import check_crc, iter_batches, read_header
from tests.log.crash.simulator import CrashFileSystem
from tests.log.support import NOW, batch, marker, topic_config

Key = tuple[str, int]

SEEDS = 6


def topic_id(topic: str) -> bytes:
    return topic.encode().ljust(16, b".")


class Promises:
    """What the workload was told: which batches it appended, and which of them are on disk for certain."""

    def __init__(self) -> None:
        self.appended: dict[Key, dict[int, bytes]] = {}  # by base offset, as they lie in the log
        self.synced: dict[Key, int] = {}  # end of what was acknowledged after a sync
        self.start: dict[Key, int] = {}  # below it nothing need be there
        self.gone: set[Key] = set()  # being deleted: may be there or not


class Workload:
    """A broker on a simulated disk, and somebody who uses it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.fs = CrashFileSystem()
        self.logs = open_manager(self.fs)
        self.promises = Promises()
        self.now = NOW
        self.sequences: dict[Key, int] = {}

    def run(self, steps: int) -> None:
        self.logs.start(self.now)
        for _ in range(steps):
            self.now += 1000
            self.random.choice(
                [
                    *[self.produce] * 4,
                    *[self.flush] * 2,
                    *(self.transaction, self.create, self.delete_topic, self.delete_records),
                    *(self.roll, self.upkeep, self.restart),
                ]
            )()

    def log(self) -> tuple[Key, PartitionLog] | None:
        if not self.logs.loaded:
            self.create()
        key = self.random.choice(sorted(self.logs.loaded))
        return key, self.logs.loaded[key]

    def produce(self) -> None:
        key, log = self.log()
        for _ in range(self.random.randrange(1, 6)):
            count = self.random.randrange(1, 4)
            sequence = self.sequences.get(key, 0)
            data = batch(
                count, self.random.randrange(400), timestamp=self.now, producer_id=1, epoch=0, sequence=sequence
            )
            self.append(key, log, data)
            self.sequences[key] = sequence + count

    def append(self, key: Key, log: PartitionLog, data: bytearray, origin: Origin = Origin.CLIENT) -> None:
        # known before it is written: a crash in the middle of the append may leave it whole
        expected = bytearray(data)
        expected[0:8] = log.log_end_offset.to_bytes(8, "big")
        expected[12:16] = bytes(4)
        self.promises.appended.setdefault(key, {})[log.log_end_offset] = bytes(expected)
        log.append(data, self.now, origin=origin)

    def transaction(self) -> None:
        key, log = self.log()
        self.append(
            key, log, batch(2, 50, timestamp=self.now, producer_id=2, epoch=0, transactional=True), Origin.COORDINATOR
        )
        commit = self.random.random() < 0.5
        self.append(key, log, marker(2, 0, commit=commit, timestamp=self.now), Origin.COORDINATOR)

    def flush(self) -> None:
        key, log = self.log()
        end = log.log_end_offset

        def done(error: OSError | None) -> None:
            assert error is None
            self.promises.synced[key] = max(end, self.promises.synced.get(key, 0))

        self.logs.flush(log, self.now, done)

    def create(self) -> None:
        key = self.random.choice("abc"), self.random.randrange(2)
        if not self.logs.exists(*key):
            self.promises.gone.discard(key)
            self.logs.create(*key, topic_id(key[0]), self.now)

    def delete_topic(self) -> None:
        if self.random.random() < 0.5:
            return
        key, _ = self.log()
        self.promises.gone.add(key)
        self.promises.synced.pop(key, None)
        self.promises.start.pop(key, None)
        self.sequences.pop(key, None)
        self.logs.delete(*key, self.now)
        self.promises.appended.pop(key, None)

    def delete_records(self) -> None:
        key, log = self.log()
        if log.log_end_offset > log.log_start_offset:
            target = self.random.randrange(log.log_start_offset, log.log_end_offset + 1)
            self.promises.start[key] = target
            log.delete_records_before(target)
            log.retain(self.now)

    def roll(self) -> None:
        _, log = self.log()
        log.roll(self.now)

    def upkeep(self) -> None:
        self.now += self.random.choice([6_000, 70_000])
        self.logs.on_deadline(self.now)

    def restart(self) -> None:
        self.logs.shutdown(self.now)
        for key, log_end in ((key, log.log_end_offset) for key, log in self.logs.loaded.items()):
            self.promises.synced[key] = log_end
        self.logs = open_manager(self.fs)
        self.logs.start(self.now)
        for key in sorted(self.logs.partitions()):
            self.logs.get(*key)


def open_manager(fs: CrashFileSystem) -> LogManager:
    numbers = iter(range(1, 1 << 16))
    config = topic_config(segment_bytes=1500, index_interval_bytes=200)
    settings = BrokerConfig({"log.dirs": "/data/logs"})
    return LogManager(
        fs, settings, new_uuid=lambda: next(numbers).to_bytes(16, "big"), topic_config=lambda topic: config
    )


def check(fs: CrashFileSystem, promises: Promises) -> None:
    """Start on what the crash left, and compare with the promises."""
    logs = open_manager(fs)
    logs.start(NOW)
    found = set(logs.partitions())
    for key, end in promises.synced.items():
        assert key in found or promises.start.get(key, 0) >= end, f"{key} is lost"
    for key in sorted(found - promises.gone):
        log = logs.get(*key)
        start = promises.start.get(key, 0)
        synced = promises.synced.get(key, 0)
        assert log.log_start_offset <= max(start, synced), f"{key} starts at {log.log_start_offset}"
        assert log.log_end_offset >= synced, f"{key} ends at {log.log_end_offset}, but was synced up to {synced}"
        read_back(log, promises.appended.get(key, {}), start, synced)
        goes_on(log)
    for directory in logs.directories:
        assert directory.online


def read_back(log: PartitionLog, appended: dict[int, bytes], start: int, synced: int) -> None:
    """Every batch is one that was appended there; gaps only where a whole tail of a segment was not synced."""
    offset = log.log_start_offset
    bases = {segment.base_offset for segment in log.segments}
    while (read := log.read(offset, 1 << 20, log.high_watermark)) is not None:
        for header, data in iter_batches(read.records.read()):
            check_crc(data, header)
            assert bytes(data) == appended[header.base_offset], f"{log}: made up at {header.base_offset}"
            gap = header.base_offset > offset
            assert not gap or (offset >= synced and header.base_offset in bases), f"{log}: a gap from {offset}"
            offset = header.next_offset
    assert offset == log.log_end_offset or (offset >= synced and log.log_end_offset in bases)
    for wanted in range(max(start, log.log_start_offset), synced):
        read = log.read(wanted, 1, log.high_watermark)
        assert read is not None
        header = read_header(read.records.read())
        assert header.base_offset <= wanted <= header.last_offset


def goes_on(log: PartitionLog) -> None:
    """The producers' state is that of the log: the next batch fits, the last one is known."""
    entry = log.producers.entries.get(1)
    if entry is not None and entry.batches:
        last = entry.batches[-1]
        again = batch(last.offset_delta + 1, producer_id=1, epoch=0, sequence=last.first_sequence)
        assert log.append(again, NOW).duplicate
        log.append(batch(producer_id=1, epoch=0, sequence=last.last_sequence + 1), NOW)
    assert log.last_stable_offset == log.high_watermark or log.producers.first_unstable_offset is not None


class PowerCut(BaseException):
    """The recovery itself is interrupted."""


def interrupt(fs: CrashFileSystem, operations: int, seed: int) -> CrashFileSystem:
    """What is left when the power fails again while the first crash is being recovered from."""

    def count(what: str) -> None:
        nonlocal operations
        operations -= 1
        if operations < 0:
            raise PowerCut

    fs.on_operation = count
    with contextlib.suppress(PowerCut):
        open_manager(fs).start(NOW)
    fs.on_operation = None
    return fs.after_crash(seed)


def test_a_crash_after_every_operation(crash_seed: int) -> None:
    workload = Workload(crash_seed)
    checked = 0

    def crash(what: str) -> None:
        nonlocal checked
        checked += 1
        for variant in (None, zlib.crc32(what.encode()) + checked):
            check(workload.fs.after_crash(variant), workload.promises)
        if checked % 5 == 0:
            check(workload.fs.after_crash(keep=True), workload.promises)
            again = interrupt(workload.fs.after_crash(checked), workload.random.randrange(20), checked)
            check(again, workload.promises)

    workload.fs.on_operation = crash
    workload.run(40)
    assert checked > 200
