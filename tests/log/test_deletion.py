"""Deleted partitions whose folders the disk won't rename are gone all the same, and never taken for a later topic's;
files are removed at their time, and a file that can't be removed does not keep others.
"""

from __future__ import annotations

import errno
import logging
import os
from functools import partial
from pathlib import Path

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log.deletion import Remover
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.jobs import run_inline
from pykafka_broker.log.manager import LogManager
from pykafka_broker.protocol.errors import ErrorCode
from tests.log.support import NOW, TOPIC_ID, Deferred, FailingFileSystem, batch, manager, new_log

OTHER_ID = b"o" * 16
MINUTE = 60_000


def test_one_that_fails_does_not_keep_the_others() -> None:
    done: list[int] = []
    errors: list[OSError] = []

    def refuse() -> None:
        raise OSError(errno.EACCES, "no")

    def missing() -> None:
        raise FileNotFoundError(errno.ENOENT, "gone")

    remover = Remover(OsFileSystem(), run_inline, errors.append)
    for due, removal in ((5, lambda: done.append(1)), (6, refuse), (7, missing), (8, lambda: done.append(2))):
        remover.later(due, removal)
    assert remover.next_deadline() == 5
    remover.on_deadline(4)
    assert done == []
    remover.on_deadline(10)
    assert (done, [error.errno for error in errors]) == ([1, 2], [errno.EACCES])
    assert remover.next_deadline() is None


def test_what_is_refused_for_the_moment_is_tried_again() -> None:
    done: list[int] = []
    errors: list[OSError] = []

    def refuse_once() -> None:
        if not errors:
            raise OSError(errno.EMFILE, "too many")
        done.append(1)

    remover = Remover(OsFileSystem(), run_inline, errors.append)
    remover.later(5, refuse_once)
    remover.on_deadline(6)
    assert (done, [error.errno for error in errors]) == ([], [errno.EMFILE])
    assert remover.next_deadline() == 10_006
    remover.on_deadline(10_006)
    assert done == [1]
    assert remover.next_deadline() is None


@pytest.mark.linux("counts descriptors in /proc")
def test_a_log_that_goes_is_not_open_all_at_once(tmp_path: Path) -> None:
    class Counting(FailingFileSystem):
        most = 0

        def remove(self, path: str) -> None:
            self.most = max(self.most, len(os.listdir("/proc/self/fd")))
            super().remove(path)

    fs = Counting()
    log = new_log(tmp_path, fs, segment_bytes=200)
    for _ in range(30):
        log.append(batch(1, 100), NOW)
    log.close()
    remover = Remover(fs, run_inline, lambda error: pytest.fail(str(error)))
    fs.rename(log.directory, f"{log.directory}.gone")
    remover.log_later(5, f"{log.directory}.gone", log)
    del log
    before = len(os.listdir("/proc/self/fd"))
    remover.on_deadline(5)
    assert not list(tmp_path.iterdir())
    assert fs.most < before + 20


@pytest.fixture
def fs() -> FailingFileSystem:
    return FailingFileSystem()


@pytest.fixture
def logs(tmp_path: Path, fs: FailingFileSystem) -> LogManager:
    """A log manager with one record in t-0, whose deletion finds no room on the disk."""
    made = manager(tmp_path, fs)
    made.start(NOW)
    made.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    fs.failures = {"rename t-0": errno.ENOSPC}
    return made


def test_it_is_gone_at_once_and_its_folder_is_renamed_when_there_is_room(
    logs: LogManager, fs: FailingFileSystem, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs.delete("t", 0, NOW)
    assert "t-0 is deleted, its folder is renamed later" in caplog.text
    assert logs.directories[0].online
    assert not logs.exists("t", 0)
    assert list(logs.partitions()) == []
    with pytest.raises(ApiError) as caught:
        logs.get("t", 0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert logs.next_deadline() == NOW + 1000
    logs.on_deadline(NOW + 1000)
    assert logs.next_deadline() == NOW + 2000
    assert (tmp_path / "logs/t-0").exists()
    fs.failures = {}
    logs.on_deadline(NOW + 2000)
    (folder,) = tmp_path.glob("logs/t-0*")
    assert folder.name.endswith("-delete")
    logs.on_deadline(NOW + 2000 + MINUTE)
    assert not folder.exists()


@pytest.mark.parametrize("way", ["create", "make"])
def test_no_log_of_that_name_is_made_while_the_old_folder_stands(
    logs: LogManager, fs: FailingFileSystem, tmp_path: Path, way: str
) -> None:
    logs.delete("t", 0, NOW)
    for _ in range(2):
        with pytest.raises(ApiError) as caught:
            getattr(logs, way)("t", 0, OTHER_ID, NOW)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert not logs.exists("t", 0)
    logs.create("t", 1, OTHER_ID, NOW)
    fs.failures = {}
    getattr(logs, way)("t", 0, OTHER_ID, NOW)
    log = logs.get("t", 0)
    assert (log.topic_id, log.log_end_offset) == (OTHER_ID, 0)
    logs.on_deadline(NOW + 1000)  # nothing is left to be tried again
    assert len(list(tmp_path.glob("logs/t-0.*-delete"))) == 1
    assert logs.get("t", 0) is log


def test_an_earlier_topic_that_can_not_be_put_away_is_not_served(logs: LogManager) -> None:
    with pytest.raises(ApiError) as caught:
        logs.create("t", 0, OTHER_ID, NOW)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not logs.exists("t", 0)


def test_other_deletions_go_on(logs: LogManager, tmp_path: Path) -> None:
    logs.create("u", 0, OTHER_ID, NOW)
    logs.delete("t", 0, NOW)
    logs.delete("u", 0, NOW)
    assert not logs.exists("u", 0)
    assert [each.name for each in tmp_path.glob("logs/[tu]-0")] == ["t-0"]


def test_a_disk_that_fails_for_good_takes_its_directory_offline(
    tmp_path: Path, fs: FailingFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    logs = manager(tmp_path, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    logs.start(NOW)
    logs.create("t", 0, TOPIC_ID, NOW)
    fs.failures = {"rename /a/t-0": errno.EIO}
    logs.delete("t", 0, NOW)
    assert [each.online for each in logs.directories] == [False, True]
    assert not logs.exists("t", 0)
    assert logs.create("t", 0, OTHER_ID, NOW).directory == f"{tmp_path}/b/t-0"


def test_a_directory_that_fails_later_is_not_tried_again(logs: LogManager, fs: FailingFileSystem) -> None:
    logs.delete("t", 0, NOW)
    logs.take_offline(logs.directories[0], OSError("gone"))
    fs.calls.clear()
    logs.on_deadline(NOW + 1000)
    assert not [call for call in fs.calls if call.startswith("rename")]


def test_the_end_of_the_broker_is_the_last_try(logs: LogManager, fs: FailingFileSystem, tmp_path: Path) -> None:
    logs.delete("t", 0, NOW)
    fs.failures = {}
    logs.shutdown(NOW)
    assert [each.name.endswith("-delete") for each in tmp_path.glob("logs/t-0*")] == [True]


def test_many_deletions_share_a_sync(tmp_path: Path, fs: FailingFileSystem) -> None:
    deferred = Deferred()
    logs = manager(tmp_path, fs)
    logs.start(NOW)
    for number in range(5):
        logs.create("t", number, TOPIC_ID, NOW)
    logs.submit = deferred.submit

    def syncs() -> list[str]:
        deferred.run()
        return [call for call in fs.calls if call.startswith("sync_directory")]

    fs.calls.clear()
    for number in range(4):
        logs.delete("t", number, NOW)
    assert syncs() == [f"sync_directory {tmp_path}/logs"]
    logs.delete("t", 4, NOW)
    assert syncs() == [f"sync_directory {tmp_path}/logs"] * 2


# -- topics of very many partitions


def renames(fs: FailingFileSystem) -> int:
    return len([call for call in fs.calls if call.startswith("rename") and "/big-" in call])


@pytest.fixture
def big(tmp_path: Path, fs: FailingFileSystem) -> LogManager:
    """A log manager of a topic whose 250 partitions were all just deleted."""
    logs = manager(tmp_path, fs)
    logs.start(NOW)
    for number in range(250):
        logs.create("big", number, TOPIC_ID, NOW)
    fs.calls.clear()
    for number in range(250):
        logs.delete("big", number, NOW)
    return logs


def test_the_folders_of_a_large_topic_are_renamed_some_at_a_time(
    big: LogManager, fs: FailingFileSystem, tmp_path: Path
) -> None:
    assert list(big.partitions()) == []
    seen = renames(fs)
    assert seen == 100
    while big.next_deadline() == NOW:
        big.on_deadline(NOW)
        assert 0 < renames(fs) - seen <= 100
        seen = renames(fs)
    assert seen == 250
    assert {path.name[-7:] for path in tmp_path.glob("logs/big-*")} == {"-delete"}


def test_a_new_log_does_not_find_the_folder_that_waits_for_its_other_name(big: LogManager, tmp_path: Path) -> None:
    assert (tmp_path / "logs/big-200").exists()
    for way, number in (("create", 200), ("make", 201)):
        getattr(big, way)("big", number, OTHER_ID, NOW)
        assert big.get("big", number).topic_id == OTHER_ID
    while big.next_deadline() == NOW:
        big.on_deadline(NOW)
    assert sorted(path.name for path in tmp_path.glob("logs/big-*") if not path.name.endswith("-delete")) == [
        "big-200",
        "big-201",
    ]


def test_the_checkpoints_of_a_new_log_are_its_own(big: LogManager, tmp_path: Path) -> None:
    big.directories[0].recovery_points["big", 200] = 7
    log = big.create("big", 200, OTHER_ID, NOW)
    assert ("big", 200) not in big.directories[0].recovery_points
    while big.next_deadline() == NOW:
        big.on_deadline(NOW)
    big.directories[0].recovery_points["big", 200] = 1
    assert big.get("big", 200) is log
    big.on_deadline(NOW + 1)
    assert big.directories[0].recovery_points["big", 200] == 1


def test_the_end_of_the_broker_renames_what_waits(big: LogManager, fs: FailingFileSystem) -> None:
    big.shutdown(NOW)
    assert renames(fs) == 250


def test_what_is_removed_in_the_end_goes_some_at_a_time(tmp_path: Path, fs: FailingFileSystem) -> None:
    deferred = Deferred()
    remover = Remover(fs, deferred.submit, lambda error: None)
    removed: list[int] = []
    for number in range(2500):
        remover.later(NOW, partial(removed.append, number))
    remover.on_deadline(NOW)
    assert remover.next_deadline() == NOW
    deferred.run()
    assert removed == list(range(1000))
    for _ in range(2):
        remover.on_deadline(NOW)
    deferred.run()
    assert removed == list(range(2500))
    assert remover.next_deadline() is None
