"""Leaving a directory with many logs that were written to."""

from __future__ import annotations

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pykafka_broker.log import filesystem
from pykafka_broker.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, read_offsets
from pykafka_broker.log.filesystem import FileStat, OsFileSystem
from pykafka_broker.log.manager import LogListener, LogManager
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from tests.log.support import NOW, TOPIC_ID, FailingFileSystem, batch, manager

MANY = 100


def written(logs: LogManager, count: int) -> None:
    logs.start(NOW)
    for number in range(count):
        logs.create("t", number, TOPIC_ID, NOW).append(batch(), NOW)
        logs.create("idle", number, TOPIC_ID, NOW)


def test_many_logs_share_one_sync(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    written(logs, MANY)
    fs.calls.clear()
    logs.shutdown(NOW)
    partitions = [call for call in fs.calls if call.startswith("sync ") and f"{tmp_path}/logs/t-" in call]
    assert partitions == []
    assert fs.calls.count(f"sync_all {tmp_path}/logs") == 1
    assert fs.calls.index(f"sync_all {tmp_path}/logs") > max(
        number for number, call in enumerate(fs.calls) if call.startswith("write") and f"{tmp_path}/logs/t-" in call
    )
    root = tmp_path / "logs"
    assert (root / CLEAN_SHUTDOWN).exists()
    assert read_offsets(OsFileSystem(), str(root / RECOVERY_POINTS))["t", MANY - 1] == 1
    names = sorted(os.listdir(root / "t-0"))
    stem = f"{0:020d}"
    of_segment = [f"{stem}.index", f"{stem}.log", f"{stem}.timeindex"]
    assert names == [*of_segment, "leader-epoch-checkpoint", "partition.metadata"]


@pytest.mark.parametrize("count", [3, MANY])
def test_nobody_hears_of_syncs_at_a_stop(tmp_path: Path, count: int) -> None:
    """The syncs run in threads, and a listener belongs to the loop."""
    logs = manager(tmp_path, FailingFileSystem(), log_flush_interval_messages="1000")
    logs.thread_pool = ThreadPoolExecutor
    heard: list[PartitionLog] = []

    class Listener(LogListener):
        def synced(self, log: PartitionLog) -> None:
            heard.append(log)

    logs.listener = Listener()
    written(logs, count)
    logs.shutdown(NOW)
    assert heard == []


def test_many_logs_have_snapshots_where_there_were_producers_or_there_is_much_to_read(tmp_path: Path) -> None:
    logs = manager(tmp_path, OsFileSystem())
    written(logs, MANY)
    logs.get("t", 1).append(batch(size=100 << 10), NOW)
    logs.get("t", 2).append(batch(producer_id=7, epoch=0, sequence=0), NOW)
    logs.shutdown(NOW)
    root = tmp_path / "logs"
    found = [[name for name in os.listdir(root / f"t-{number}") if name.endswith(".snapshot")] for number in range(4)]
    assert found == [[], [f"{2:020d}.snapshot"], [f"{2:020d}.snapshot"], []]
    again = manager(tmp_path, OsFileSystem())
    again.start(NOW)
    assert [again.get("t", number).log_end_offset for number in range(4)] == [1, 2, 2, 1]
    assert [*again.get("t", 2).producers.entries] == [7]
    assert not again.get("t", 0).producers.entries


def test_few_logs_and_idle_ones_are_synced_as_ever(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    written(logs, MANY - 1)
    fs.calls.clear()
    logs.shutdown(NOW)
    assert not [call for call in fs.calls if call.startswith("sync_all")]
    assert len([call for call in fs.calls if call.startswith("sync ") and call.endswith(".log")]) == MANY - 1
    assert not [call for call in fs.calls if call.startswith(("sync ", "write")) and f"{tmp_path}/logs/idle-" in call]


def test_where_the_system_can_not_sync_all_each_log_is_synced(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    fs.syncs_all = False
    logs = manager(tmp_path, fs)
    written(logs, MANY)
    fs.calls.clear()
    logs.shutdown(NOW)
    assert len([call for call in fs.calls if call.startswith("sync ") and call.endswith(".log")]) == MANY
    assert (tmp_path / "logs" / CLEAN_SHUTDOWN).exists()


def test_a_log_on_another_disk_is_synced_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    written(logs, MANY)
    stat = fs.stat
    monkeypatch.setattr(fs, "stat", lambda path: FileStat(*stat(path)[:2], 99) if path.endswith("/t-7") else stat(path))
    fs.calls.clear()
    logs.shutdown(NOW)
    assert {call.split("/")[-2] for call in fs.calls if call.startswith("sync ") and call.endswith(".log")} == {"t-7"}


def test_if_the_sync_fails_the_directory_is_not_clean(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    written(logs, MANY)
    fs.failures["sync_all"] = errno.EIO
    logs.shutdown(NOW)
    assert not (tmp_path / "logs" / CLEAN_SHUTDOWN).exists()
    again = manager(tmp_path)
    again.start(NOW)
    assert again.get("t", MANY - 1).log_end_offset == 1


def test_nothing_is_lost_by_a_power_cut_after_the_stop() -> None:
    fs = CrashFileSystem()
    logs = manager(Path("/data"), fs)
    written(logs, MANY)
    logs.shutdown(NOW)
    disk = fs.after_crash()
    again = manager(Path("/data"), disk)
    again.start(NOW)
    assert again.online()[0].clean
    assert [again.get("t", number).log_end_offset for number in range(MANY)] == [1] * MANY


# -- the system call


def test_what_tells_of_errors_is_synced_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "file_system_type", lambda device: "ext4")
    (tmp_path / "file").write_bytes(b"x")
    assert filesystem.sync_file_system(str(tmp_path)) is (sys.platform == "linux")


@pytest.mark.parametrize("kind", ["overlay", "nfs4", None])
def test_other_file_systems_are_synced_file_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None
) -> None:
    monkeypatch.setattr(filesystem, "file_system_type", lambda device: kind)
    assert filesystem.sync_file_system(str(tmp_path)) is False


@pytest.mark.linux("numbers of devices")
def test_the_type_is_found_by_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    )
    monkeypatch.setattr(filesystem, "_MOUNTS", str(mounts))
    assert filesystem.file_system_type(os.makedev(254, 0)) == "ext4"
    assert filesystem.file_system_type(os.makedev(254, 1)) is None
    monkeypatch.setattr(filesystem, "_MOUNTS", str(tmp_path / "missing"))
    assert filesystem.file_system_type(os.makedev(254, 0)) is None
