"""Whatever happens to leaders and lines: what was committed stays, and replicas end equal."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.broker.replication.replicating import WAIT_MS, Cluster

NODES = (1, 2, 3)
STEPS = 40
LAG_MS = 30_000


class History:
    """One run. `committed` is what a reader may have seen by now: bytes from the log's start."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = Cluster(directory, min_insync_replicas=str(self.random.choice((1, 2))))
        self.cluster.topic(*NODES)
        self.cluster.settle()
        self.committed = b""
        self.leader = 1

    def produce(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.cluster.produce(self.leader, count=self.random.randint(1, 5))

    def silence(self) -> None:
        silent = self.cluster.network.silent
        silent ^= {self.random.choice(NODES)}

    def wait(self) -> None:
        self.cluster.wait(self.random.choice((1, 20, WAIT_MS, 1_000, LAG_MS)))

    def elect(self) -> None:
        """As a controller does: the leader is fenced, one of the others in sync leads."""
        isr = [each for each in self.cluster.replica(1).isr if each != self.leader]
        if isr:
            self.leader = self.random.choice(isr)
            self.cluster.change("t", leader=self.leader, isr=isr)

    def settle(self) -> None:
        self.cluster.settle()

    def look(self) -> None:
        """Nothing that was committed has changed, wherever it is committed now."""
        for node in NODES:
            log = self.cluster.partition_log(node)
            read = log.read(0, 1 << 30, log.high_watermark)
            content = b"" if read is None else read.records.read()
            shorter = min(len(content), len(self.committed))
            assert content[:shorter] == self.committed[:shorter]
            if len(content) > len(self.committed):
                self.committed = content
        assert self.cluster.content(self.leader).startswith(self.committed), "the leader has all that is committed"

    def run(self) -> None:
        steps = (self.produce, self.produce, self.silence, self.wait, self.wait, self.settle, self.elect)
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.look()
        self.cluster.network.silent = set()
        for _ in range(4):
            self.cluster.wait(1_000)
        self.look()

    def end(self) -> None:
        logs = [self.cluster.partition_log(node) for node in NODES]
        assert sorted(self.cluster.replica(1).isr) == list(NODES)
        assert len({log.high_watermark for log in logs}) == 1
        assert logs[0].high_watermark == logs[0].log_end_offset
        assert len({self.cluster.content(node) for node in NODES}) == 1
        assert len({tuple(log.epochs.entries) for log in logs}) == 1


# 120: a leader without a record of its own epoch, asked for an epoch between; 207: a high watermark that was told
# beside the place where histories part.
@pytest.mark.parametrize("seed", [*range(12), 120, 207])
def test_what_is_committed_stays_and_replicas_end_equal(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    history.run()
    history.end()
