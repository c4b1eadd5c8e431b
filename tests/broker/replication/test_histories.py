"""Whatever happens to leaders and lines: what was committed stays, and replicas end equal."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import Buffer, OsFile
from pykafka_broker.records.header import HEADER_SIZE
from tests.broker.api.real_broker import UnsyncedFile, UnsyncedFileSystem
from tests.broker.replication.replicating import WAIT_MS, Cluster

NODES = (1, 2, 3)
STEPS = 40
LAG_MS = 30_000


class Disk(UnsyncedFileSystem):
    """The disk of a node's logs, which may be full: it has room for small files, and for no batch."""

    full = False

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> OsFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return FileOnDisk(os.open(path, flags), self)


class FileOnDisk(UnsyncedFile):
    def __init__(self, fd: int, disk: Disk) -> None:
        super().__init__(fd)
        self._disk = disk

    def write_at(self, data: Buffer, position: int) -> None:
        if self._disk.full and len(data) >= HEADER_SIZE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write_at(data, position)


class History:
    """A random run of a cluster. `committed`: the bytes from the log's start that a reader may have seen by now."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = Cluster(directory, min_insync_replicas=str(self.random.choice((1, 2))))
        self.disks = [Disk() for _ in NODES]
        for node, disk in zip(NODES, self.disks, strict=True):
            self.cluster[node].logs.files.fs = disk
        self.cluster.topic(*NODES)
        self.cluster.settle()
        self.committed = b""
        self.leader = 1

    def produce(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            count = self.random.randint(1, 5)
            with suppress(ApiError) if any(disk.full for disk in self.disks) else nullcontext():
                self.cluster.produce(self.leader, count=count)

    def fill(self) -> None:
        """Leave a node's disk with room for small files and for no batch, or give it room again."""
        self.random.choice(self.disks).full ^= True

    def silence(self) -> None:
        silent = self.cluster.network.silent
        silent ^= {self.random.choice(NODES)}

    def wait(self) -> None:
        self.cluster.wait(self.random.choice((1, 20, WAIT_MS, 1_000, LAG_MS)))

    def elect(self) -> None:
        """Let another broker of the ISR lead and drop the old leader from the ISR, like a controller that fences it."""
        isr = [each for each in self.cluster.replica(1).isr if each != self.leader]
        if isr:
            self.leader = self.random.choice(isr)
            self.cluster.change("t", leader=self.leader, isr=isr)

    def settle(self) -> None:
        self.cluster.settle()

    def look(self) -> None:
        """Assert that no committed record has changed, on whichever node it is committed now."""
        for node in NODES:
            log = self.cluster.partition_log(node)
            read = log.read(0, 1 << 30, log.high_watermark)
            content = b"" if read is None else read.records.read()
            shorter = min(len(content), len(self.committed))
            assert content[:shorter] == self.committed[:shorter]
            if len(content) > len(self.committed):
                self.committed = content
        assert self.cluster.content(self.leader).startswith(self.committed), "the leader has all that is committed"

    def run(self, *more: Callable[[], None]) -> None:
        steps = (self.produce, self.produce, self.silence, self.wait, self.wait, self.settle, self.elect, *more)
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.look()
        self.cluster.network.silent = set()
        for disk in self.disks:
            disk.full = False
        for _ in range(4):
            self.cluster.wait(1_000)
        self.look()

    def end(self) -> None:
        logs = [self.cluster.partition_log(node) for node in NODES]
        assert sorted(self.cluster.replica(1).isr) == list(NODES)
        assert len({log.high_watermark for log in logs}) == 1
        assert logs[0].high_watermark == logs[0].log_end_offset
        assert len({self.cluster.content(node) for node in NODES}) == 1
        # where a disk was full, an epoch may have begun without a record
        assert len({tuple(each for each in log.epochs.entries if each[1] < log.log_end_offset) for log in logs}) == 1


# 120: a leader without a record of its own epoch, asked for an epoch between; 207: a high watermark that was told
# beside the place where histories part.
@pytest.mark.parametrize("seed", [*range(12), 120, 207])
def test_what_is_committed_stays_and_replicas_end_equal(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    history.run()
    history.end()


@pytest.mark.parametrize("seed", [300, 345, 360, 362, 364, 366])
def test_disks_without_room_leave_no_replica_behind(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    history.run(history.fill, history.fill, history.elect)
    history.end()
