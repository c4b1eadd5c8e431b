"""Folders of new partitions: made and named beside the loop, and always before there is a record in them."""

from __future__ import annotations

import errno
import sys
import threading
from pathlib import Path

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import read_partition_metadata
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.uncreated_logs import CreateFoldersJob
from pykafka_broker.protocol.errors import ErrorCode
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


def test_folders_are_made_and_named_beside_the_loop(logs: LogManager, jobs: list[Job], tmp_path: Path) -> None:
    for number in range(3):
        logs.make("t", number, TOPIC_ID, NOW)
    assert not list(tmp_path.glob("logs/t-*"))
    assert list(logs.partitions()) == [("t", number) for number in range(3)]
    assert logs.size_of(("t", 0)) == 0
    assert len(jobs) == 1
    run(jobs)
    assert [topic_id(path) for path in tmp_path.glob("logs/t-*")] == [TOPIC_ID] * 3
    logs.make("t", 3, TOPIC_ID, NOW)
    assert len(jobs) == 1


def test_many_are_made_some_at_a_time(logs: LogManager, jobs: list[Job], tmp_path: Path) -> None:
    """A job makes only some of many folders, so that other jobs have their turn in between."""
    made = []
    for number in range(450):
        logs.make("t", number, TOPIC_ID, NOW)
    while jobs:
        run_inline(jobs.pop())
        made.append(len(list(tmp_path.glob("logs/t-*"))))
    assert made == [200, 400, 450]


def test_a_log_that_is_asked_for_is_named_first(logs: LogManager, jobs: list[Job], tmp_path: Path) -> None:
    logs.make("t", 0, TOPIC_ID, NOW)
    log = logs.get("t", 0)
    assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 0)
    assert topic_id(tmp_path / "logs" / "t-0") == TOPIC_ID
    log.append(batch(1), NOW)
    run(jobs)
    assert topic_id(tmp_path / "logs" / "t-0") == TOPIC_ID


def test_where_the_job_is_declined_only_the_first_use_of_a_log_makes_its_folder(
    logs: LogManager, jobs: list[Job], tmp_path: Path
) -> None:
    logs.make("t", 0, TOPIC_ID, NOW)
    (job,) = jobs
    assert isinstance(job, CreateFoldersJob)
    job.decline()
    for number in (1, 2):
        logs.make("t", number, TOPIC_ID, NOW)
    assert jobs == [job]
    logs.get("t", 1).append(batch(1), NOW)
    logs.delete("t", 2, NOW)
    logs.shutdown(NOW)
    assert [path.name for path in tmp_path.glob("logs/t-*")] == ["t-1"]
    assert topic_id(tmp_path / "logs" / "t-1") == TOPIC_ID


def test_the_first_record_needs_no_look_at_the_folder(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.start(NOW)
    logs.make("t", 0, TOPIC_ID, NOW)
    fs.calls.clear()
    assert logs.get("t", 0).topic_id == TOPIC_ID
    assert fs.calls == []


def write_of_id(path: Path, number: int) -> str:
    return f"write {path}/logs/t-{number}/partition.metadata"


def waits(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is threading.Condition.wait.__code__


def test_one_that_is_just_being_made_is_waited_for(tmp_path: Path) -> None:
    """A log whose folder is just being made is waited for: else it would be loaded, or synced, without its id."""
    logs: LogManager
    asking = threading.Thread(target=lambda: logs.get("t", 0))
    waited = False

    class HeldUp(FailingFileSystem):
        def _check(self, operation: str, path: str) -> None:
            nonlocal waited
            if f"{operation} {path}" == write_of_id(tmp_path, 0):
                asking.start()
                while asking.is_alive() and not waits(asking):
                    asking.join(0.001)
                waited = asking.is_alive()

    logs = manager(tmp_path, HeldUp())
    logs.start(NOW)
    logs.make("t", 0, TOPIC_ID, NOW)
    asking.join()
    assert waited
    assert logs.get("t", 0).topic_id == TOPIC_ID


def test_nobody_waits_for_the_folder_of_another(tmp_path: Path, jobs: list[Job]) -> None:
    ends: list[int] = []

    class Asking(FailingFileSystem):
        def _check(self, operation: str, path: str) -> None:
            if f"{operation} {path}" == write_of_id(tmp_path, 0):
                ends.append(managed.get("t", 1).append(batch(1), NOW).last_offset)

    managed = manager(tmp_path, Asking())
    managed.start(NOW)
    managed.submit = jobs.append
    for number in range(2):
        managed.make("t", number, TOPIC_ID, NOW)
    run(jobs)
    assert ends == [0]
    assert [topic_id(path) for path in tmp_path.glob("logs/t-*")] == [TOPIC_ID] * 2


def test_one_that_is_deleted_before_its_turn_is_not_made(logs: LogManager, jobs: list[Job], tmp_path: Path) -> None:
    logs.make("t", 0, TOPIC_ID, NOW)
    logs.delete("t", 0, NOW)
    run(jobs)
    assert not list(tmp_path.glob("logs/t-*"))
    assert logs.directories[0].online


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
    """A partition folder without a topic id, which a crash leaves, gets its id when the log is created."""
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


def test_a_directory_that_fails_does_not_keep_others_waiting(tmp_path: Path, jobs: list[Job]) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    logs.start(NOW)
    logs.submit = jobs.append
    for number in range(4):
        logs.make("t", number, TOPIC_ID, NOW)
    fs.failures = {"open /a/t-": errno.EIO}
    run(jobs)
    assert [directory.online for directory in logs.directories] == [False, True]
    assert [topic_id(path) for path in tmp_path.glob("b/t-*")] == [TOPIC_ID] * 2
    logs.make("u", 0, TOPIC_ID, NOW)
    fs.failures = {"write partition.metadata": errno.EIO}
    logs.shutdown(NOW)
    assert not logs.directories[1].online


def test_nothing_more_is_made_in_a_directory_that_has_failed(tmp_path: Path, jobs: list[Job]) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    logs.start(NOW)
    logs.submit = jobs.append
    for number in range(4):
        logs.make("t", number, TOPIC_ID, NOW)
    logs.take_offline(logs.directories[0], OSError("gone"))
    run(jobs)
    logs.shutdown(NOW)
    assert [path.parent.name for path in tmp_path.glob("?/t-*")] == ["b", "b"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("failing", ["make_directory t-0", "write partition.metadata"])
def test_without_room_the_log_is_refused_and_made_when_there_is_some(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, failing: str, number: int
) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.start(NOW)
    fs.failures = {failing: number}
    logs.make("t", 0, TOPIC_ID, NOW)
    assert "/t-0 of a new partition yet, and 0 others: " in caplog.text
    for _ in range(2):
        with pytest.raises(ApiError) as caught:
            logs.get("t", 0)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.directories[0].online
    fs.failures = {}
    assert logs.get("t", 0).append(batch(1), NOW).base_offset == 0
    assert topic_id(tmp_path / "logs/t-0") == TOPIC_ID


def test_a_full_disk_leaves_no_empty_name_and_later_a_whole_one(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.start(NOW)
    fs.failures = {"write partition.metadata": errno.ENOSPC}
    logs.make("t", 0, TOPIC_ID, NOW)
    assert list((tmp_path / "logs/t-0").iterdir()) == []
    assert logs.directories[0].online
    fs.failures = {}
    logs.shutdown(NOW)
    assert topic_id(tmp_path / "logs/t-0") == TOPIC_ID
