"""Directories, creation and deletion, checkpoints, shutdown, and disks that fail."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileLock
from pykafka_broker.log.jobs import run_inline
from pykafka_broker.log.log_directory import LogDirectoryError, aside_name
from pykafka_broker.log.manager import LogManager
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.header import HEADER_SIZE
from tests.log.support import NOW, TOPIC_ID, Deferred, FailingFileSystem, batch, manager, marker, topic_config

MINUTE = 60_000


def started(path: Path, fs: FailingFileSystem | None = None, **keys: str) -> LogManager:
    logs = manager(path, fs, **keys)
    logs.start(NOW)
    return logs


def test_a_new_directory_gets_an_identity_that_it_keeps(tmp_path: Path) -> None:
    first = started(tmp_path, node_id="7")
    first.shutdown(NOW)
    again = started(tmp_path, node_id="7")
    assert again.cluster_id == first.cluster_id
    assert again.directories[0].id == first.directories[0].id
    again.shutdown(NOW)
    text = (tmp_path / "logs/meta.properties").read_text()
    assert f"cluster.id={first.cluster_id}\n" in text
    assert "version=1\n" in text
    assert "node.id=7\n" in text
    with pytest.raises(LogDirectoryError, match=r"is of node 7, but node\.id is 8"):
        started(tmp_path, node_id="8")


def test_directories_have_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    logs = manager(tmp_path, log_dirs=f"one,./two/,{tmp_path}/three", cordoned_log_dirs="one,./two/")
    logs.start(NOW)
    assert [each.path for each in logs.directories] == [f"{tmp_path}/{name}" for name in ("one", "two", "three")]
    log = logs.create("t", 0, TOPIC_ID, NOW)
    assert log.directory == f"{tmp_path}/three/t-0"


def test_what_is_no_partition_is_left_alone(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.start(NOW)
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    for directory in logs.directories:
        directory.release()  # as a crash does
    (tmp_path / "logs/core-1234").write_bytes(b"a file")
    (tmp_path / "logs/notes-delete").mkdir()
    (tmp_path / "logs/t-00").mkdir()
    logs = manager(tmp_path)
    logs.start(NOW)
    assert list(logs.partitions()) == [("t", 0)]
    logs.on_deadline(NOW + 600_000)
    assert {"core-1234", "notes-delete", "t-00"} < {each.name for each in tmp_path.glob("logs/*")}


def test_a_locked_directory_is_refused(tmp_path: Path) -> None:
    import subprocess
    import sys

    logs = started(tmp_path)
    script = (
        "from pathlib import Path; from tests.log.test_manager import started\n"
        f"try: started(Path({str(tmp_path)!r}))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("LogDirectoryError Failed to acquire lock"), done
    logs.shutdown(NOW)


def test_a_log_whose_topic_id_is_lost_is_kept_and_named_again(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.create("my-topic", 3, TOPIC_ID, NOW)
    log.append(batch(5), NOW)
    logs.shutdown(NOW)
    metadata = tmp_path / "logs/my-topic-3/partition.metadata"
    metadata.unlink()
    again = started(tmp_path)
    log = again.create("my-topic", 3, TOPIC_ID, NOW)
    assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 5)
    assert metadata.exists()
    again.shutdown(NOW)


def test_a_log_comes_back_after_a_clean_shutdown(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.create("my-topic", 3, TOPIC_ID, NOW)
    log.append(batch(5), NOW)
    assert logs.get("my-topic", 3) is log
    logs.shutdown(NOW)
    assert (tmp_path / "logs/.kafka_cleanshutdown").exists()
    logs = started(tmp_path)
    assert not (tmp_path / "logs/.kafka_cleanshutdown").exists()
    assert list(logs.partitions()) == [("my-topic", 3)]
    assert logs.loaded == {}
    log = logs.get("my-topic", 3)
    assert (log.topic_id, log.log_end_offset, log.recovery_point) == (TOPIC_ID, 5, 5)


def test_a_start_after_a_clean_shutdown_opens_no_log(tmp_path: Path) -> None:
    logs = started(tmp_path)
    for partition in range(20):
        logs.create("t", partition, TOPIC_ID, NOW).append(batch(), NOW)
    logs.shutdown(NOW)
    fs = FailingFileSystem()
    started(tmp_path, fs)
    assert not [call for call in fs.calls if f"{tmp_path}/logs/t-" in call]


def test_an_unknown_partition(tmp_path: Path) -> None:
    logs = started(tmp_path)
    with pytest.raises(ApiError) as caught:
        logs.get("t", 0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not logs.exists("t", 0)


def test_new_logs_go_where_the_fewest_are(tmp_path: Path) -> None:
    logs = started(tmp_path, log_dirs=f"{tmp_path}/a,{tmp_path}/b,{tmp_path}/c")
    chosen = logs.directories[1]
    for partition in range(5):
        logs.create("t", partition, TOPIC_ID, NOW, directory_id=chosen.id)
    for partition in range(5, 15):
        logs.create("t", partition, TOPIC_ID, NOW)
    counts = [len(list(tmp_path.glob(f"{name}/t-*"))) for name in "abc"]
    assert counts == [5, 5, 5]
    with pytest.raises(ApiError) as caught:
        logs.create("t", 99, TOPIC_ID, NOW, directory_id=b"\xff" * 16)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_deleted_folder_is_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    read = log.read(0, 100, 1)
    assert read is not None
    logs.delete("t", 0, NOW)
    assert not logs.exists("t", 0)
    (folder,) = tmp_path.glob("logs/t-0*")
    assert folder.name.startswith("t-0.")
    assert folder.name.endswith("-delete")
    again = logs.create("t", 0, bytes(15) + b"z", NOW)
    assert again.log_end_offset == 0
    logs.on_deadline(NOW + MINUTE - 1)
    assert folder.exists()
    logs.on_deadline(NOW + MINUTE)
    assert not folder.exists()
    assert len(read.records.read()) == len(batch())


def test_a_deletion_is_finished_after_a_crash(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.create("t", 0, TOPIC_ID, NOW)
    logs.delete("t", 0, NOW)
    logs.directories[0].release()
    logs = started(tmp_path)
    assert not logs.exists("t", 0)
    assert logs.next_deadline() is not None
    logs.on_deadline(NOW + MINUTE)
    assert not list(tmp_path.glob("logs/t-0*"))


def test_what_was_deleted_before_a_crash_is_not_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Checkpoints are older than deletions; the folder that waits to be removed tells of it, and so does an id."""
    logs = started(tmp_path)
    for number in (0, 1):
        logs.create("t", number, TOPIC_ID, NOW).append(batch(), NOW)
    logs.shutdown(NOW)
    again = started(tmp_path)
    again.delete("t", 0, NOW)
    shutil.rmtree(tmp_path / "logs/t-1")
    again.directories[0].release()  # as a crash does
    after = started(tmp_path)
    after.make("t", 0, TOPIC_ID, NOW, directory_id=after.directories[0].id, new=False)
    after.make("t", 1, TOPIC_ID, NOW, new=False)  # no directory was ever named for this one
    assert "is missing now" not in caplog.text


def test_long_names_are_cut_for_the_file_system() -> None:
    name = aside_name(("x" * 249, 12345), bytes(16))
    assert len(name) == 255
    assert name.startswith("xxx")
    assert name.endswith("-12345." + "0" * 32 + "-delete")


def test_a_log_made_again_takes_over_no_offsets(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(9):
        log.append(batch(), NOW)
    log.delete_records_before(5)
    logs.flush(log, NOW)
    logs.on_deadline(NOW + MINUTE)
    assert "t 0 9" in (tmp_path / "logs/recovery-point-offset-checkpoint").read_text()
    assert "t 0 5" in (tmp_path / "logs/log-start-offset-checkpoint").read_text()
    logs.delete("t", 0, NOW)
    logs.create("t", 0, bytes(15) + b"z", NOW).append(batch(), NOW)
    logs.directories[0].release()  # and crash
    log = started(tmp_path).get("t", 0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)


def test_what_an_earlier_topic_of_that_name_left_is_taken_away(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    assert logs.create("t", 0, TOPIC_ID, NOW).log_end_offset == 1
    other = logs.create("t", 0, bytes(15) + b"z", NOW)
    assert other.log_end_offset == 0
    assert len(list(tmp_path.glob("logs/t-0.*-delete"))) == 1


def test_log_start_offsets_survive_a_restart(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(9):
        log.append(batch(), NOW)
    log.delete_records_before(5)
    logs.shutdown(NOW)
    assert started(tmp_path).get("t", 0).log_start_offset == 5


def test_the_metadata_log_is_kept_for_ever(tmp_path: Path) -> None:
    logs = started(tmp_path, log_retention_ms="1")
    log = logs.metadata_log(NOW)
    assert log.config.retention_ms == -1
    assert (tmp_path / "logs/__cluster_metadata-0/partition.metadata").read_text().endswith("AAAAAAAAAAAAAAAAAAAAAQ")
    log.append(batch(), NOW)
    logs.on_deadline(NOW + 10 * MINUTE)
    assert log.log_start_offset == 0


def test_a_full_disk_refuses_appends_and_serves_reads_and_then_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    for number in (errno.ENOSPC, errno.EMFILE):
        fs.failures = {"write .log": number}
        with pytest.raises(ApiError) as caught:
            log.append(batch(), NOW)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert log.read(0, 100, 1) is not None
        assert logs.directories[0].online
    (said,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith(f"Log directory {tmp_path}/logs: [Errno {errno.ENOSPC}]")
    fs.failures = {}
    assert log.append(batch(), NOW).base_offset == 1


def test_a_broken_disk_takes_its_directory_offline_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    lost: list[tuple[str, int]] = []
    monkeypatch.setattr(logs.listener, "directory_failed", lambda directory, partitions: lost.extend(partitions))
    for partition in range(4):
        logs.create("t", partition, TOPIC_ID, NOW).append(batch(), NOW)
    fs.failures = {"write /a/": errno.EIO}
    with pytest.raises(ApiError):
        logs.get("t", 0).append(batch(), NOW)
    assert lost == [("t", 0), ("t", 2)]
    with pytest.raises(ApiError) as caught:
        logs.get("t", 2)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get("t", 1).append(batch(), NOW).base_offset == 1
    assert logs.create("t", 9, TOPIC_ID, NOW).directory == f"{tmp_path}/b/t-9"
    logs.shutdown(NOW)
    assert not (tmp_path / "a/.kafka_cleanshutdown").exists()
    assert (tmp_path / "b/.kafka_cleanshutdown").exists()


def test_a_failed_last_sync_leaves_no_clean_marker(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    fs.failures = {"sync .log": errno.EIO}
    logs.shutdown(NOW)
    assert not (tmp_path / "logs/.kafka_cleanshutdown").exists()


def test_settings_reach_the_logs_of_their_topic(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log, other = logs.create("t", 0, TOPIC_ID, NOW), logs.create("u", 0, TOPIC_ID, NOW)
    changed = topic_config(segment_bytes=1)
    logs.reconfigure("t", [0], changed)
    assert log.config is changed
    assert other.config is not changed


def test_settings_of_one_topic_cost_nothing_for_the_logs_of_others(tmp_path: Path) -> None:
    class Found(dict[Any, Any]):
        def items(self) -> Any:
            raise AssertionError("all logs are gone through")

        __iter__ = values = keys = items

    logs = started(tmp_path)
    log = logs.create("t", 3, TOPIC_ID, NOW)
    logs.loaded = Found(logs.loaded)
    changed = topic_config(segment_bytes=1)
    logs.reconfigure("t", range(5), changed)
    assert log.config is changed


def test_concurrent_requests_share_a_sync(tmp_path: Path) -> None:
    deferred = Deferred()
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.submit = deferred.submit
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    heard: list[int] = []
    for number in range(5):
        log.append(batch(), NOW)
        logs.flush(log, NOW, lambda error, number=number: heard.append(number))  # type: ignore[misc]
    assert (heard, log.recovery_point) == ([], 0)
    fs.calls.clear()
    assert deferred.run() == 1
    assert (heard, log.recovery_point) == ([0], 1)
    assert deferred.run() == 1
    assert (heard, log.recovery_point) == ([0, 1, 2, 3, 4], 5)
    assert deferred.run() == 0
    assert sum(call.startswith("sync ") and call.endswith(".log") for call in fs.calls) == 2


def test_a_failed_sync_is_heard_by_all_who_wait(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    fs.failures = {"sync": errno.EIO}
    heard: list[OSError | None] = []
    logs.flush(log, NOW, heard.append)
    assert heard
    assert heard[0] is not None
    assert log.recovery_point == 0
    assert not logs.directories[0].online


def test_flush_ms_is_kept(tmp_path: Path) -> None:
    logs = started(tmp_path, log_flush_scheduler_interval_ms="100")
    logs.topic_config = lambda topic: topic_config(flush_ms=1000)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    logs.on_deadline(NOW + 900)
    assert log.recovery_point == 0
    logs.on_deadline(NOW + 1000)
    assert log.recovery_point == 1


def test_checkpoints_are_written_when_something_changed(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(3), NOW)
    logs.on_deadline(NOW + MINUTE)
    assert "t 0 3" in (tmp_path / "logs/replication-offset-checkpoint").read_text()
    fs.calls.clear()
    logs.on_deadline(NOW + 2 * MINUTE)
    assert not [call for call in fs.calls if "checkpoint" in call.rpartition("/")[2]]


def test_a_sync_that_finds_no_room_is_not_forgiven(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    fs.failures = {"sync .log": errno.ENOSPC}
    logs.flush(log, NOW)
    assert not logs.directories[0].online


def test_a_damaged_log_is_refused_and_its_neighbours_are_served(tmp_path: Path) -> None:
    logs = started(tmp_path)
    for partition in range(2):
        log = logs.create("t", partition, TOPIC_ID, NOW)
        for _ in range(3):
            log.append(batch(), NOW)
    logs.shutdown(NOW)
    file = tmp_path / "logs/t-0/00000000000000000000.log"
    file.write_bytes(file.read_bytes()[:-5])  # behind the broker's back
    logs = started(tmp_path)
    with pytest.raises(ApiError) as caught:
        logs.get("t", 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    logs.on_deadline(NOW + 10 * MINUTE)
    assert logs.get("t", 1).log_end_offset == 3
    other = tmp_path / "logs/t-1/00000000000000000000.log"
    data = bytearray(other.read_bytes())
    data[len(batch()) + 16] = 9  # the magic of the second batch, under a log that is loaded
    other.write_bytes(data)
    with pytest.raises(ApiError) as caught:
        logs.get("t", 1).read(1, 1, 3)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.directories[0].online


def test_a_marker_that_is_damaged_takes_its_partition_out_of_service(tmp_path: Path) -> None:
    """Without a snapshot a load reads the log for its producers, without a look at checksums."""
    logs = started(tmp_path)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(producer_id=7, epoch=0, sequence=0, transactional=True), NOW)
    at = log.segments.size_bytes
    log.append(marker(7, 0, commit=True), NOW)
    log.append(batch(), NOW)
    logs.shutdown(NOW)
    for snapshot in tmp_path.glob("logs/t-0/*.snapshot"):
        snapshot.unlink()
    file = tmp_path / "logs/t-0/00000000000000000000.log"
    data = bytearray(file.read_bytes())
    data[at + HEADER_SIZE] = 0xFF  # the length of the record
    file.write_bytes(data)
    with pytest.raises(ApiError, match=f"is damaged at byte {at}") as caught:
        started(tmp_path).get("t", 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_sync_that_comes_after_the_deletion_is_no_failure(tmp_path: Path) -> None:
    deferred = Deferred()
    logs = manager(tmp_path)
    logs.submit = deferred.submit
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    heard: list[OSError | None] = []
    logs.flush(log, NOW, heard.append)
    logs.delete("t", 0, NOW)
    logs.create("t", 0, bytes(15) + b"z", NOW)
    for job in deferred.jobs:
        run_inline(job)
    assert len(heard) == 1
    assert logs.directories[0].online


def test_a_truncated_log_is_whole_after_a_crash(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(9):
        log.append(batch(), NOW)
    logs.flush(log, NOW)
    logs.on_deadline(NOW + MINUTE)
    log.truncate_to(4)
    assert "t 0 4" in (tmp_path / "logs/recovery-point-offset-checkpoint").read_text()
    logs.directories[0].release()
    log = started(tmp_path).get("t", 0)
    assert (log.log_end_offset, log.recovery_point) == (4, 4)


def test_what_is_put_aside_while_it_is_synced_is_not_missed(tmp_path: Path) -> None:
    """Retention may load a log before the broker knows from the metadata that the log is not its own any more."""
    deferred = Deferred()
    logs = started(tmp_path)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), NOW)
    logs.submit = deferred.submit
    logs.flush(log, NOW)
    logs.quarantine(("t", 0), logs.directories[0])
    deferred.run()
    assert logs.directories[0].online
    assert not logs.exists("t", 0)
    with pytest.raises(ApiError) as caught:
        logs.get("t", 0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert logs.create("t", 0, TOPIC_ID, NOW).log_end_offset == 0


@pytest.mark.parametrize("rolled", [False, True])
def test_a_log_cut_inside_a_batch_is_synced_no_further_than_it_goes(tmp_path: Path, rolled: bool) -> None:
    """rolled: each batch is in a segment of its own."""
    logs = started(tmp_path)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(3):
        log.append(batch(5), NOW)
        if rolled:
            log.roll(NOW)
    logs.flush(log, NOW)
    logs.on_deadline(NOW + MINUTE)
    log.truncate_to(7)
    assert (log.log_end_offset, log.recovery_point) == (5, 5)
    assert "t 0 5" in (tmp_path / "logs/recovery-point-offset-checkpoint").read_text()
    logs.directories[0].release()
    log = started(tmp_path).get("t", 0)
    assert (log.log_end_offset, log.recovery_point) == (5, 5)
    assert logs.directories[0].online


def test_a_sync_begun_before_a_truncation_promises_nothing(tmp_path: Path) -> None:
    deferred = Deferred()
    logs = manager(tmp_path)
    logs.submit = deferred.submit
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    heard: list[OSError | None] = []
    for _ in range(5):
        log.append(batch(), NOW)
    logs.flush(log, NOW, heard.append)
    log.truncate_to(2)
    for _ in range(3):
        log.append(batch(), NOW)
    deferred.run()
    assert log.recovery_point == 0
    (error,) = heard
    assert error is not None
    logs.flush(log, NOW, heard.append)
    deferred.run()
    assert (log.recovery_point, heard[1:]) == (5, [None])


@pytest.mark.parametrize("reason", ["another node", "in use"])
def test_a_start_that_is_refused_leaves_no_word_in_the_directory(tmp_path: Path, reason: str) -> None:
    """Least of all that of a clean shutdown: the next start would not recover what a crash has left."""
    logs = started(tmp_path)
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    logs.on_deadline(NOW + MINUTE)
    before = {file.name: file.read_bytes() for file in (tmp_path / "logs").iterdir() if file.is_file()}
    fs = FailingFileSystem()
    if reason == "another node":
        logs.directories[0].release()
        other = manager(tmp_path, fs, node_id="77")
    else:
        fs.lock = busy  # type: ignore[method-assign]
        other = manager(tmp_path, fs)
    with pytest.raises(LogDirectoryError):
        other.start(NOW)
    other.shutdown(NOW)
    assert before == {file.name: file.read_bytes() for file in (tmp_path / "logs").iterdir() if file.is_file()}


def busy(path: str) -> FileLock:
    raise BlockingIOError


def test_a_start_that_is_refused_keeps_a_clean_shutdown_clean(tmp_path: Path) -> None:
    dirs: dict[str, Any] = {"log_dirs": f"{tmp_path}/a,{tmp_path}/b"}
    logs = manager(tmp_path, **dirs)
    logs.start(NOW)
    logs.shutdown(NOW)
    properties = tmp_path / "b/meta.properties"
    before = properties.read_bytes()
    properties.write_bytes((tmp_path / "a/meta.properties").read_bytes())
    logs = manager(tmp_path, **dirs)
    with pytest.raises(LogDirectoryError, match="have the same directory"):
        logs.start(NOW)
    logs.shutdown(NOW)
    properties.write_bytes(before)
    logs = manager(tmp_path, **dirs)
    logs.start(NOW)
    assert [directory.clean for directory in logs.directories] == [True, True]


def test_a_directory_has_to_be_of_the_cluster_that_is_wanted(tmp_path: Path) -> None:
    first = manager(tmp_path)
    first.cluster_id = "mine"
    first.start(NOW)
    first.shutdown(NOW)
    assert "cluster.id=mine\n" in (tmp_path / "logs/meta.properties").read_text()
    other = manager(tmp_path)
    other.cluster_id = "yours"
    with pytest.raises(LogDirectoryError, match="is of cluster mine, not of yours: start with CLUSTER_ID=mine, or"):
        other.start(NOW)


def test_a_log_that_others_have_too_begins_with_what_was_known_to_be_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = started(tmp_path)
    for number in (0, 1):
        log = logs.create("t", number, TOPIC_ID, NOW)
        log.sole_replica = False
        log.append(batch(3), NOW)
        log.advance_high_watermark(2)
    logs.shutdown(NOW)
    logs = manager(tmp_path)
    monkeypatch.setattr(logs.listener, "is_replicated", lambda partition: partition == ("t", 0))
    logs.start(NOW)
    assert [logs.get("t", number).high_watermark for number in (0, 1)] == [2, 3]
