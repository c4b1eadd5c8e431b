"""`log.flush.interval.messages=1`: the same answers, each of them after the syncs that it rests on."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path

import pytest

from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.log.jobs import Job, run_inline
from tests.broker.frames import joined
from tests.scenarios.transactions.client import Client
from tests.scenarios.transactions.in_process import InProcess
from tests.scenarios.transactions.scripts import SCENARIOS

ANSWERS = json.loads(Path(__file__).with_name("answers.json").read_text())


class Synced(InProcess):
    """A broker whose syncs run one by one while a request waits for its answer; the others run after the answer."""

    def __init__(self, directory: Path, **config: str) -> None:
        self.jobs: deque[Job] = deque()
        self.waited = 0
        super().__init__(directory, **config, log_flush_interval_messages="1")
        self._sync()

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def _sync(self) -> None:
        while self.jobs:
            run_inline(self.jobs.popleft())

    def exchange(self, frame: bytes) -> bytes:
        pieces = self.broker.dispatch(self.connection, memoryview(bytearray(frame)), self.now)
        assert pieces is not None
        if isinstance(pieces, PendingReply):
            self.waited += 1
            while not pieces.future.done:
                run_inline(self.jobs.popleft())
            pieces = pieces.pieces()
        self.broker.settle(self.now)
        self._sync()
        return joined(pieces)[4:]

    def wait(self, milliseconds: int) -> None:
        super().wait(milliseconds)
        self._sync()


@pytest.mark.parametrize("name", SCENARIOS)
def test_answers(name: str, tmp_path: Path) -> None:
    wire = Synced(tmp_path, transaction_abort_timed_out_transaction_cleanup_interval_ms="500")
    client = Client(wire, name)
    SCENARIOS[name](client)
    assert client.lines == ANSWERS[name]
