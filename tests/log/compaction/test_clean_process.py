"""A worker that cleans ends with the broker that started it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from pykafka_broker.log.compaction.cleaner import candidate, make_request
from tests.log.compaction.test_cleaner import fill, started
from tests.log.support import NOW

WITHIN_S = 30


def test_a_worker_does_not_outlive_its_broker(tmp_path: Path) -> None:
    """The kernel closes the pipe of a broker that was killed; the worker is in the middle of a wait of hours then."""
    log = fill(started(tmp_path), "t")
    found = candidate(("t", 0), log, None, NOW)
    assert found is not None
    request = make_request(found, NOW, 1 << 20, bytes_per_second=0.1)
    command = [sys.executable, "-m", "pykafka_broker.log.compaction.clean_process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        worker.stdin.write(pickle.dumps(request))
        worker.stdin.close()
        assert worker.wait(WITHIN_S) == 1
