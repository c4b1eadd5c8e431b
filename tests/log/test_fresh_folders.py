"""Folders of new partitions: made at once, named beside the loop, and always before there is a record in them."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import read_partition_metadata
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.log.manager import LogManager
from tests.log.support import NOW, TOPIC_ID, FailingFileSystem, batch, manager, topic_config

OTHER_ID = b"o" * 16


@pytest.fixture
def jobs() -> list[Job]:
    return []


@pytest.fixture
def logs(tmp_path: Path, jobs: list[Job]) -> LogManager:
    made = manager(tmp_path)
    made.start(NOW)
    made.submit = jobs.append
    return made


def topic_id(path: Path) -> bytes | None:
    return read_partition_metadata(OsFileSystem(), f"{path}/partition.metadata")


def run(jobs: list[Job]) -> None:
    while jobs:
        run_inline(jobs.pop(0))


def test_folders_are_named_beside_the_loop(logs: LogManager, jobs: list[Job], tmp_path: Path) -> None:
    for number in range(3):
        logs.make("t", number, TOPIC_ID, NOW)
    logs.name_folders()
    assert [list(path.iterdir()) for path in sorted(tmp_path.glob("logs/t-*"))] == [[], [], []]
    assert len(jobs) == 1
    run(jobs)
    assert [topic_id(path) for path in tmp_path.glob("logs/t-*")] == [TOPIC_ID] * 3
    logs.name_folders()
    assert not jobs


def test_a_log_that_is_asked_for_is_named_first(logs: LogManager, jobs: list[Job], tmp_path: Path) -> None:
    logs.make("t", 0, TOPIC_ID, NOW)
    logs.name_folders()
    log = logs.get("t", 0)
    assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 0)
    assert topic_id(tmp_path / "logs" / "t-0") == TOPIC_ID
    log.append(batch(1), NOW)
    run(jobs)
    assert topic_id(tmp_path / "logs" / "t-0") == TOPIC_ID


def test_one_that_is_just_being_named_is_waited_for(tmp_path: Path) -> None:
    """Else its log would be loaded, and perhaps synced, without its id."""
    asking = threading.Thread(target=lambda: logs.get("t", 0))
    waited = False

    class HeldUp(FailingFileSystem):
        def _check(self, operation: str, path: str) -> None:
            nonlocal waited
            if f"{operation} {path}" == f"write {tmp_path}/logs/t-0/partition.metadata":
                asking.start()
                asking.join(0.05)
                waited = asking.is_alive()

    logs = manager(tmp_path, HeldUp())
    logs.start(NOW)
    logs.make("t", 0, TOPIC_ID, NOW)
    logs.name_folders()
    asking.join()
    assert waited
    assert logs.get("t", 0).topic_id == TOPIC_ID


def test_a_name_given_later_is_synced_with_the_next_record(logs: LogManager, jobs: list[Job], tmp_path: Path) -> None:
    (tmp_path / "logs" / "t-0").mkdir()
    fs = FailingFileSystem()
    again = manager(tmp_path, fs)
    again.start(NOW)
    log = again.get("t", 0)
    log.append(batch(1), NOW)
    again.flush(log, NOW)  # before anybody has said whose it is
    again.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(1), NOW)
    fs.calls.clear()
    again.flush(log, NOW)
    synced = [call for call in fs.calls if call.startswith("sync")]
    assert f"sync {tmp_path}/logs/t-0/partition.metadata" in synced
    assert synced[-2:] == [f"sync_directory {tmp_path}/logs/t-0", f"sync_directory {tmp_path}/logs"]


def test_a_topic_made_again_gets_its_own_id(logs: LogManager, jobs: list[Job], tmp_path: Path) -> None:
    logs.make("t", 0, TOPIC_ID, NOW)
    logs.name_folders()
    logs.delete("t", 0, NOW)
    logs.make("t", 0, OTHER_ID, NOW)
    run(jobs)
    assert topic_id(tmp_path / "logs" / "t-0") == OTHER_ID
    assert logs.get("t", 0).topic_id == OTHER_ID


def test_made_again_after_the_naming_too(logs: LogManager, jobs: list[Job]) -> None:
    logs.make("t", 0, TOPIC_ID, NOW)
    logs.make("t", 0, TOPIC_ID, NOW)
    assert logs.get("t", 0).topic_id == TOPIC_ID
    logs.make("t", 0, OTHER_ID, NOW)
    assert logs.get("t", 0).topic_id == OTHER_ID


def test_a_clean_stop_leaves_none_without_a_name(logs: LogManager, tmp_path: Path) -> None:
    logs.make("t", 0, TOPIC_ID, NOW)
    logs.shutdown(NOW)
    assert topic_id(tmp_path / "logs" / "t-0") == TOPIC_ID


def test_a_folder_without_a_name_is_given_it_by_who_knows(logs: LogManager, tmp_path: Path) -> None:
    """What a crash leaves behind."""
    (tmp_path / "logs" / "t-0").mkdir()
    again = manager(tmp_path)
    again.start(NOW)
    assert again.create("t", 0, TOPIC_ID, NOW).topic_id == TOPIC_ID
    assert topic_id(tmp_path / "logs" / "t-0") == TOPIC_ID


def test_room_is_taken_at_once_where_that_is_wanted(logs: LogManager, tmp_path: Path) -> None:
    config = topic_config(preallocate=True, segment_bytes=5000)
    logs.topic_config = lambda topic: config
    logs.make("t", 0, TOPIC_ID, NOW)
    assert (tmp_path / "logs" / "t-0" / f"{0:020d}.log").stat().st_size == 5000


def test_a_directory_that_fails_does_not_keep_others_waiting(tmp_path: Path) -> None:
    fs, jobs = FailingFileSystem(), []
    logs = manager(tmp_path, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    logs.start(NOW)
    logs.submit = jobs.append
    for number in range(4):
        logs.make("t", number, TOPIC_ID, NOW)
    logs.name_folders()
    fs.failures = {"open /a/t-": errno.EIO}
    run(jobs)
    assert [directory.online for directory in logs.directories] == [False, True]
    assert [topic_id(path) for path in tmp_path.glob("b/t-*")] == [TOPIC_ID] * 2
    logs.make("u", 0, TOPIC_ID, NOW)
    fs.failures = {"make_directory": errno.ENOSPC}
    with pytest.raises(ApiError, match="No space left"):
        logs.make("u", 1, TOPIC_ID, NOW)
    assert not logs.exists("u", 1)
    fs.failures = {"write partition.metadata": errno.EIO}
    logs.shutdown(NOW)
    assert not logs.directories[1].online


def test_a_full_disk_leaves_no_empty_name_and_later_a_whole_one(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.start(NOW)
    fs.failures = {"write partition.metadata": errno.ENOSPC}
    logs.make("t", 0, TOPIC_ID, NOW)
    logs.name_folders()
    assert list((tmp_path / "logs/t-0").iterdir()) == []
    assert logs.directories[0].online
    fs.failures = {}
    logs.shutdown(NOW)
    assert topic_id(tmp_path / "logs/t-0") == TOPIC_ID
