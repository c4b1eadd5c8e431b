"""A worker that cleans ends with the broker that started it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from pykafka_broker.log.compaction.clean import CleaningProcesses
from pykafka_broker.log.compaction.cleaner import candidate, make_request
from pykafka_broker.log.compaction.request import CleanRequest, CleanResult
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.records.compression import GZIP
from tests.log.compaction.test_clean import put
from tests.log.compaction.test_cleaner import fill, started
from tests.log.support import NOW, TOPIC_ID, manager, topic_config

WITHIN_S = 30


def test_a_worker_does_not_outlive_its_broker(tmp_path: Path) -> None:
    """The kernel closes the pipe of a broker that was killed; the worker is in the middle of a wait of hours then."""
    log = fill(started(tmp_path), "t")
    found = candidate(("t", 0), log, None, NOW)
    assert found is not None
    request = make_request(found, NOW, 1 << 20, bytes_per_second=0.1)
    command = [sys.executable, "-m", "pykafka_broker.log.compaction.clean"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        worker.stdin.write(pickle.dumps(request))
        worker.stdin.close()
        assert worker.wait(WITHIN_S) == 1


def test_what_is_small_and_unpacks_to_much_is_cleaned_in_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = manager(tmp_path, OsFileSystem())
    settings = {"segment_bytes": 10_000, "cleanup_policy": ["compact"], "min_cleanable_dirty_ratio": 0.01}
    logs.topic_config = lambda topic: topic_config(**settings)
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for key in "aaab":
        put(log, (key, "v" * (9 << 20)), codec=GZIP, level=9)
    processes, beside = CleaningProcesses(), list[CleanRequest]()
    cleaned_beside = processes._clean_beside

    def noted(request: CleanRequest) -> CleanResult:
        beside.append(request)
        return cleaned_beside(request)

    monkeypatch.setattr(processes, "_clean_beside", noted)
    found = candidate(("t", 0), log, None, NOW)
    assert found is not None
    result = processes(logs.fs, make_request(found, NOW, 1 << 20, 1e300))
    assert len(beside) == 1
    assert result.keys == 1
    assert sum(segment.size for segment in result.segments) < 2 * log.segments.active.size

    def nowhere(request: CleanRequest) -> NoReturn:
        raise AssertionError("not worth a process")

    monkeypatch.setattr(processes, "_clean_beside", nowhere)
    small = fill(logs, "small", 120)
    found = candidate(("small", 0), small, None, NOW)
    assert found is not None
    assert processes(logs.fs, make_request(found, NOW, 1 << 20, 1e300)).keys == 4
