"""A log on Windows: what is open stands in the way of a rename, and of nothing else for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import PartitionLog
from tests.log.support import NOW, TOPIC_ID, batch, manager, topic_config
from tests.log.windows_files import WindowsFiles

SECOND, MINUTE = 1_000, 60_000


@pytest.fixture
def fs() -> WindowsFiles:
    return WindowsFiles()


@pytest.fixture
def logs(tmp_path: Path, fs: WindowsFiles) -> LogManager:
    return started(tmp_path, fs)


def started(path: Path, fs: WindowsFiles) -> LogManager:
    made = manager(path, fs, log_dirs=f"{path}/a,{path}/b")
    made.topic_config = lambda topic: topic_config(segment_bytes=20_000, retention_bytes=40_000)
    made.start(NOW)
    return made


def filled(logs: LogManager, topic_id: bytes = TOPIC_ID) -> PartitionLog:
    log = logs.create("t", 0, topic_id, NOW, directory_id=logs.directories[0].id)
    for number in range(100):
        log.append(batch(1, 1_000, timestamp=NOW + number), NOW)
    return log


def test_a_topic_is_deleted_and_made_anew(logs: LogManager, fs: WindowsFiles, tmp_path: Path) -> None:
    filled(logs)
    logs.delete("t", 0, NOW)
    assert fs.refusals == []
    assert filled(logs, b"o" * 16).log_end_offset == 100
    logs.on_deadline(NOW + MINUTE)
    assert [each.name for each in tmp_path.glob("a/t-0*")] == ["t-0"]


def test_who_reads_keeps_the_old_name_for_a_moment(logs: LogManager, fs: WindowsFiles, tmp_path: Path) -> None:
    log = filled(logs)
    read = log.read(0, 1 << 20, log.high_watermark)
    assert read is not None
    assert read.records.fileno() > 0  # on its way to a client
    logs.delete("t", 0, NOW)
    logs.on_deadline(NOW + SECOND)
    assert len(fs.refusals) >= 1
    assert logs.directories[0].online
    assert not logs.exists("t", 0)
    del read
    logs.on_deadline(NOW + 2 * SECOND)
    assert not (tmp_path / "a/t-0").exists()
    logs.on_deadline(NOW + 2 * SECOND + MINUTE)
    assert list(tmp_path.glob("a/t-0*")) == []


def test_old_segments_go_while_they_are_read(logs: LogManager, fs: WindowsFiles, tmp_path: Path) -> None:
    log = filled(logs)
    read = log.read(0, 1_000, log.high_watermark)
    assert read is not None
    content = read.records.read()
    logs.on_deadline(NOW + 10 * MINUTE)
    assert log.log_start_offset > 0
    logs.on_deadline(NOW + 12 * MINUTE)
    assert read.records.read() == content
    assert logs.directories[0].online


def test_a_partition_moves_to_another_directory(logs: LogManager, tmp_path: Path) -> None:
    log = filled(logs)
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.moves.start(("t", 0), logs.directories[1])
    while jobs:
        run_inline(jobs.pop(0))
    assert ("t", 0) not in logs.moves
    assert (tmp_path / "b/t-0").is_dir()
    assert logs.get("t", 0).log_end_offset == log.log_end_offset == 100


def test_it_stops_and_starts(logs: LogManager, fs: WindowsFiles, tmp_path: Path) -> None:
    end = filled(logs).log_end_offset
    logs.shutdown(NOW)
    again = started(tmp_path, fs)
    assert again.get("t", 0).log_end_offset == end
    assert fs.refusals == []
