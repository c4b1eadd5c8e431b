"""Batches, logs and file systems for the tests of the log."""

from __future__ import annotations

import errno
import logging
import os
import struct
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.config import BrokerConfig, TopicConfig
from pykafka_broker.log.filesystem import (
    Buffer,
    DiskUsage,
    FileCache,
    FileHandle,
    FileLock,
    FileStat,
    FileSystem,
    OsFileSystem,
)
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.log.loading import Offsets, create_log, load_log
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.scan import DamagedLog
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.records.builder import BatchBuilder
from pykafka_broker.records.control import build_end_transaction_marker

DATA = Path(__file__).parent / "data"
JAVA, KAFKA_JARS = os.environ.get("JAVA", "java"), os.environ.get("KAFKA_JARS", "")
needs_kafka = pytest.mark.skipif(not KAFKA_JARS, reason="needs Kafka's jars and a Java runtime")
TOPIC_ID = bytes(range(16))
NOW = 1_700_000_000_000


def kafkas_dump(*arguments: str) -> str:
    """Return the output of kafka-dump-log.sh."""
    tool = "org.apache.kafka.tools.DumpLogSegments"
    command = [JAVA, "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{KAFKA_JARS}/*", tool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def batch(
    count: int = 1,
    size: int = 10,
    *,
    timestamp: int = NOW,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    keys: list[bytes] | None = None,
) -> bytearray:
    """Build a batch as a client sends it; record `n` is stamped `timestamp + n`."""
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )
    for number in range(count):
        builder.append(keys[number] if keys else None, b"v" * size, timestamp + number)
    return builder.build()


def fetched(base_offset: int, count: int = 1, size: int = 10) -> bytearray:
    """Build a batch as a leader has it: with its base offset and its leader epoch."""
    data = batch(count, size)
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, 12, 0)
    return data


def marker(
    producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0, timestamp: int = NOW
) -> bytearray:
    return build_end_transaction_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
    )


def topic_config(**overrides: object) -> TopicConfig:
    """Return a topic's config with overrides, such as `segment_bytes=1000`, which may be smaller than a user's."""
    config = TopicConfig.resolve(BrokerConfig({}), {"file.delete.delay.ms": "60000"})
    copy = TopicConfig.__new__(TopicConfig)
    for name in TopicConfig.__annotations__:
        setattr(copy, name, overrides.get(name, getattr(config, name)))
    return copy


class Keeper:
    """A keeper that remembers what its log told it."""

    def __init__(self) -> None:
        self.errors: list[OSError] = []
        self.rolls = self.truncations = self.must_syncs = 0
        self.deleted: list[LogSegment] = []
        self.syncs: list[int] = []

    def storage_failed(self, log: PartitionLog, error: OSError) -> None:
        self.errors.append(error)

    def damaged_log(self, log: PartitionLog, damage: DamagedLog) -> None:
        raise damage

    def can_spare(self, log: PartitionLog) -> bool:
        return False

    def rolled(self, log: PartitionLog) -> None:
        self.rolls += 1

    def must_sync(self, log: PartitionLog) -> None:
        self.must_syncs += 1

    def synced(self, log: PartitionLog) -> None:
        self.syncs.append(log.recovery_point)

    def sync_failed(self, log: PartitionLog, error: OSError) -> None:
        self.errors.append(error)

    def truncating(self, log: PartitionLog, offset: int) -> None:
        self.truncations += 1

    def segment_deleted(self, log: PartitionLog, segment: LogSegment) -> None:
        self.deleted.append(segment)


def new_log(path: Path, fs: FileSystem | None = None, **overrides: object) -> PartitionLog:
    files = FileCache(fs or OsFileSystem())
    return create_log(files, str(path / "t-0"), "t", 0, TOPIC_ID, topic_config(**overrides), Clock(NOW), Keeper())


def reopen(log: PartitionLog) -> PartitionLog:
    """Close a log and load it again as after a clean shutdown."""
    offsets = Offsets(log.log_start_offset, log.log_end_offset)
    log.close()
    files = FileCache(log.segments.files.fs)
    return load_log(files, log.directory, log.topic, log.partition, log.config, offsets, Clock(NOW), Keeper())


class ClockedLogs(LogManager):
    """A manager whose clock shows the time of the last call."""

    def __init__(self, fs: FileSystem, config: BrokerConfig, **options: Any) -> None:
        super().__init__(fs, config, clock=Clock(), **options)

    def start(self, now: int, *, with_metadata: bool = False) -> None:
        self.clock.set(now)
        super().start(now, with_metadata=with_metadata)

    def on_deadline(self, now: int) -> None:
        self.clock.set(now)
        super().on_deadline(now)


def manager(path: Path, fs: FileSystem | None = None, **keys: str) -> LogManager:
    """Make a log manager over `path/logs`; config keys have underscores for dots."""
    settings = {"log.dirs": str(path / "logs")} | {name.replace("_", "."): value for name, value in keys.items()}
    numbers = iter(range(1, 1 << 16))
    return ClockedLogs(fs or OsFileSystem(), BrokerConfig(settings), new_uuid=lambda: next(numbers).to_bytes(16, "big"))


def kafka_data(path: Path) -> Path:
    """Unpack a data directory that a real 4.4.0 broker left after a clean shutdown (see data/make.py)."""
    with tarfile.open(DATA / "kafka.tar.gz") as archive:
        archive.extractall(path, filter="data")
    return path


class Deferred:
    """Jobs that are kept until the test runs them."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def run(self) -> int:
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            run_inline(job)
        return len(jobs)


Rule = Callable[[str, str], OSError | None]


class FailingFile:
    def __init__(self, inner: FileHandle, path: str, check: Callable[[str, str], None]) -> None:
        self._inner = inner
        self._path = path
        self._check = check

    def fileno(self) -> int:
        return self._inner.fileno()

    def read_at(self, length: int, position: int) -> bytes:
        self._check("read", self._path)
        return self._inner.read_at(length, position)

    def write_at(self, data: Buffer, position: int) -> None:
        try:
            self._check("write", self._path)
        except OSError:
            self._inner.write_at(memoryview(data)[: len(data) // 2], position)  # as a full disk does
            raise
        self._inner.write_at(data, position)

    def size(self) -> int:
        return self._inner.size()

    def truncate(self, size: int) -> None:
        self._check("truncate", self._path)
        self._inner.truncate(size)

    def allocate(self, size: int) -> None:
        self._check("allocate", self._path)
        self._inner.allocate(size)

    def sync(self) -> None:
        self._check("sync", self._path)
        self._inner.sync()


class FailingFileSystem:
    """The real file system, except that operations named in `failures` raise: {"write .log": errno.ENOSPC}.

    Rule: a failure names a piece of the path below the test's own folder. What the folders above are called is the
    machine's affair: `pytest-0` is the first one of a new machine.
    """

    root = ""  # the test's own folder (conftest.py)
    holds_folders = False

    def __init__(self) -> None:
        self._inner = OsFileSystem()
        self.syncs_all = True
        self.failures: dict[str, int] = {}
        self.calls: list[str] = []

    def _check(self, operation: str, path: str) -> None:
        self.calls.append(f"{operation} {path}")
        for failing, number in self.failures.items():
            wanted, _, part = failing.partition(" ")
            if operation == wanted and part in path.removeprefix(self.root):
                raise OSError(number, os.strerror(number), path)

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> FileHandle:
        self._check("open", path)
        return FailingFile(self._inner.open(path, create=create, writable=writable), path, self._check)

    def stat(self, path: str) -> FileStat:
        self._check("stat", path)
        return self._inner.stat(path)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def rename(self, source: str, target: str) -> None:
        self._check("rename", source)
        self._inner.rename(source, target)

    def remove(self, path: str) -> None:
        self._check("remove", path)
        self._inner.remove(path)

    def remove_tree(self, path: str) -> None:
        self._check("remove_tree", path)
        self._inner.remove_tree(path)

    def make_directory(self, path: str) -> None:
        self._check("make_directory", path)
        self._inner.make_directory(path)

    def list_directory(self, path: str) -> list[str]:
        self._check("list_directory", path)
        return self._inner.list_directory(path)

    def list_folders(self, path: str) -> list[str]:
        self._check("list_folders", path)
        return self._inner.list_folders(path)

    def sync_directory(self, path: str) -> None:
        self._check("sync_directory", path)
        self._inner.sync_directory(path)

    def sync_all(self, path: str) -> bool:
        self._check("sync_all", path)
        return self.syncs_all

    def disk_usage(self, path: str) -> DiskUsage:
        return self._inner.disk_usage(path)

    def lock(self, path: str) -> FileLock:
        return self._inner.lock(path)


class SweptFileSystem(FailingFileSystem):
    """A file system whose n-th call (of those that begin with given words) fails: once, or with every later call, as
    for a process that dies there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._failing_at = 0  # 0: never
        self._errno = errno.EIO
        self._dies = False
        self._counted = ""
        self.failed = ""  # the call that did

    def fail_at(self, nth: int, number: int, counted: str = "") -> None:
        self.count, self._failing_at, self._errno, self._dies, self._counted = 0, nth, number, False, counted

    def die_at(self, nth: int) -> None:
        self.count, self._failing_at, self._errno, self._dies, self._counted = 0, nth, errno.EIO, True, ""

    def live(self) -> None:
        self._failing_at = 0

    @property
    def has_failed(self) -> bool:
        return 0 < self._failing_at <= self.count

    def _check(self, operation: str, path: str) -> None:
        super()._check(operation, path)
        if not f"{operation} {path}".startswith(self._counted):
            return
        self.count += 1
        if self.count == self._failing_at or (self._dies and self.has_failed):
            self.failed = self.failed or f"{operation} {path}"
            raise OSError(self._errno, os.strerror(self._errno), path)


class _Noting(logging.Handler):
    """A handler that keeps the messages of errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def errors_of(logger: logging.Logger) -> Iterator[list[str]]:
    """Yield the list of what is logged as an error meanwhile."""
    handler = _Noting()
    logger.addHandler(handler)
    try:
        yield handler.messages
    finally:
        logger.removeHandler(handler)
