"""A broker with `log.flush.interval.messages=1` whose syncs take place only when somebody looks for an answer.

Rule: whatever is answered must have been held back until then, and must be what is answered without any sync.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any, TypeVar

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.log.jobs import Job, run_inline
from tests.broker.driven import DrivenBroker
from tests.scenarios.groups.local import LocalWire, LocalWorld
from tests.scenarios.groups.stage import Stage
from tests.scenarios.scripts import Scripts

S = TypeVar("S", bound=Stage)


class Syncs:
    """A broker's jobs, which run only when the test says so, in order."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque()
        self.needed = 0  # how many answers came only after the jobs had run

    def run(self, broker: DrivenBroker, now: int) -> None:
        while self.jobs:
            run_inline(self.jobs.popleft())
            broker.settle(now)


class SyncedWorld(LocalWorld):
    def __init__(self, directory: Path, name: str, config: dict[str, str]) -> None:
        self.syncs = Syncs()
        super().__init__(directory, name, {**config, "log.flush.interval.messages": "1"})

    def submit(self, job: Job) -> None:
        self.syncs.jobs.append(job)

    def connect(self, client_id: str) -> LocalWire:
        connection = ConnectionContext(next(self._connections), "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50_000))
        return SyncedWire(self, connection, client_id)

    def wait(self, ms: int) -> None:
        self.syncs.run(self.broker, self.now)
        super().wait(ms)
        self.syncs.run(self.broker, self.now)


class SyncedWire(LocalWire):
    _world: SyncedWorld

    def receive(self) -> Any:
        if not self._answers:
            self._world.syncs.run(self._world.broker, self._world.now)
            self._world.syncs.needed += bool(self._answers)
        return super().receive()

    def is_quiet(self) -> bool:
        self._world.syncs.run(self._world.broker, self._world.now)
        return super().is_quiet()


def check_synced(
    scripts: Scripts[S], stage: type[S], answers: Path, name: str, log_dir: Path, config: dict[str, str]
) -> int:
    """Play a scenario, compare every answer with Kafka's, and return how many answers had to wait for a sync."""
    world = SyncedWorld(log_dir, f"{name}-000000", config)
    on_stage = stage(world)
    on_stage.ready()
    scripts[name](on_stage)
    assert on_stage.lines == json.loads((answers / f"{name}.json").read_text())
    return world.syncs.needed
