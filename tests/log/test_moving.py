"""A partition on its way to another directory is served without a gap."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from pykafka_broker.log.filesystem import FileHandle
from pykafka_broker.log.flush import Waiter
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.log.log_directory import LogDirectory
from pykafka_broker.log.manager import LogListener, LogManager
from pykafka_broker.log.retention import retain
from pykafka_broker.log.segment import LogSegment
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.records.header import iter_batches
from tests.log.support import NOW, TOPIC_ID, FailingFileSystem, batch, manager, new_log, topic_config


def started(path: Path, fs: FailingFileSystem | None = None) -> LogManager:
    logs = manager(path, fs, log_dirs=f"{path}/a,{path}/b")
    logs.topic_config = lambda topic: topic_config(segment_bytes=40_000, index_interval_bytes=500)
    logs.start(NOW)
    return logs


def fill(logs: LogManager, count: int = 100) -> None:
    log = logs.create("t", 0, TOPIC_ID, NOW, directory_id=logs.directories[0].id)
    for number in range(count):
        log.append(batch(2, 2000, timestamp=NOW + number, producer_id=1, epoch=0, sequence=number * 2), NOW)


def offsets(logs: LogManager) -> list[int]:
    log, found, offset = logs.get("t", 0), [], 0
    while (read := log.read(offset, 1 << 20, log.high_watermark)) is not None:
        found += [header.base_offset for header, _ in iter_batches(read.records.read())]
        offset = read.end_offset
    return found


def run_jobs(jobs: list[Job]) -> None:
    for job in jobs[:]:
        jobs.remove(job)
        run_inline(job)


def test_a_move_while_producers_and_consumers_go_on(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    log = logs.get("t", 0)
    reading = log.read(0, 1 << 20, log.high_watermark)
    assert reading is not None
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.moves.start(("t", 0), logs.directories[1])
    move = logs.moves.get(("t", 0))
    assert move is not None
    rounds = 0
    while ("t", 0) in logs.moves:
        sequence = log.log_end_offset
        for number in range(20 if rounds < 3 else 1):
            log.append(batch(2, 2000, producer_id=1, epoch=0, sequence=sequence + number * 2), NOW)
        if rounds == 2:
            log.delete_records_before(60)
            retain(log, NOW)
        run_jobs(jobs)
        rounds += 1
    assert rounds > 3
    assert logs.get("t", 0) is log
    assert log.directory == f"{tmp_path}/b/t-0"
    assert logs.directory_of(("t", 0)) is logs.directories[1]
    assert next(tmp_path.glob("a/t-0*")).name.endswith("-delete")
    end = log.log_end_offset
    log.append(batch(1, 10, producer_id=1, epoch=0, sequence=end), NOW)
    expected = [*range(log.segments.first.base_offset, end, 2), end]
    assert offsets_from(logs, 60) == [each for each in expected if each >= 60]
    assert len(reading.records.read()) == len(reading.records)
    logs.shutdown(NOW)
    logs = started(tmp_path)
    assert logs.get("t", 0).log_start_offset == 60
    assert offsets_from(logs, 60) == [each for each in expected if each >= 60]
    logs.on_deadline(NOW + 60_000)
    assert not list(tmp_path.glob("a/t-0*"))


def test_what_was_cut_off_and_written_anew_is_not_copied_as_it_was(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs, 10)
    log = logs.get("t", 0)
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.moves.start(("t", 0), logs.directories[1])
    run_jobs(jobs)
    assert ("t", 0) in logs.moves
    log.truncate_to(4)
    for _ in range(20):
        log.append(batch(3, 2000), NOW)
    before = offsets(logs)
    while jobs:
        run_jobs(jobs)
    assert ("t", 0) not in logs.moves
    assert logs.directory_of(("t", 0)) is logs.directories[1]
    assert offsets(logs) == before
    assert [path.name for path in tmp_path.glob("b/t-0*")] == ["t-0"]


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("anew", [False, True])
def test_a_log_that_is_cut_while_it_is_copied_is_copied_anew(tmp_path: Path, anew: bool, cancelled: bool) -> None:
    """Expect a new copy and no disk taken offline: a source shorter than its copy says nothing against the disk."""
    jobs: list[Job] = []
    logs = started(tmp_path)
    fill(logs)
    logs.submit = jobs.append
    source, target = logs.directories
    logs.moves.start(("t", 0), target)
    log = logs.get("t", 0)
    if anew:
        log.restart_at(1000, NOW)
    else:
        log.truncate_to(4)
    if cancelled:
        logs.moves.cancel(("t", 0))
    while jobs:
        run_jobs(jobs)
    assert source.online
    assert target.online
    assert logs.directory_of(("t", 0)) is (source if cancelled else target)
    assert offsets_from(logs, log.log_start_offset) == ([] if anew else [0, 2])
    assert not [folder for folder in (tmp_path / "b").iterdir() if folder.name.endswith("-future")]


@pytest.mark.parametrize("copied", [False, True])
def test_a_log_that_steps_back_while_it_is_copied_is_copied_anew(tmp_path: Path, copied: bool) -> None:
    """A follower is sent the batch that holds its leader's log start while its empty replica is on its way."""
    logs, leader = started(tmp_path), new_log(tmp_path / "leader")
    leader.append(batch(2), NOW)
    leader.append(batch(30), NOW)
    leader.delete_records_before(10)
    sent = leader.read(10, 1 << 20, leader.log_end_offset)
    assert sent is not None
    log = logs.create("t", 0, TOPIC_ID, NOW, directory_id=logs.directories[0].id)
    log.restart_at(10, NOW)
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.moves.start(("t", 0), logs.directories[1])
    if copied:
        run_jobs(jobs)
    log.append_fetched(sent.records.read(), NOW)
    log.raise_log_start(10)
    while jobs:
        run_jobs(jobs)
    assert logs.directory_of(("t", 0)) is logs.directories[1]
    moved = logs.get("t", 0)
    assert (moved.log_start_offset, moved.log_end_offset, offsets_from(logs, 10)) == (10, 32, [2])
    for directory in logs.directories:
        directory.release()  # as a crash does
    again = started(tmp_path).get("t", 0)
    assert again.log_end_offset == 32


def test_what_the_checkpoints_say_goes_with_the_log(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    logs.get("t", 0).delete_records_before(60)
    logs.directories[0].cleaner_offsets["t", 0] = 36
    logs.moves.start(("t", 0), logs.directories[1])
    assert logs.directories[1].cleaner_offsets == {("t", 0): 36}
    for directory in logs.directories:
        directory.release()  # as a crash does
    assert started(tmp_path).get("t", 0).log_start_offset == 60


def test_an_expired_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    logs.flush(logs.get("t", 0), NOW)
    logs.get("t", 0).config = topic_config(retention_ms=1000)
    retain(logs.get("t", 0), NOW + 10_000)
    logs.moves.start(("t", 0), logs.directories[1])
    assert [file.name for file in tmp_path.glob("b/t-0/*.log")] == [f"{200:020d}.log"]
    logs.shutdown(NOW)
    log = started(tmp_path).get("t", 0)
    assert (log.log_start_offset, log.log_end_offset) == (200, 200)


def test_a_log_that_cleaning_left_an_empty_segment_of(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    log = logs.get("t", 0)
    first = log.segments.first
    for file in first.files():
        file.handle().truncate(0) if file.exists() else None
    log.segments.replace(
        [first], [LogSegment(log.segments.files, log.directory, 0, size=0, created_ms=NOW, fresh=False)]
    )
    logs.moves.start(("t", 0), logs.directories[1])
    assert (tmp_path / f"b/t-0/{0:020d}.log").exists()
    log.segments.first.log.handle()
    assert all(directory.online for directory in logs.directories)


@pytest.mark.linux("counts descriptors in /proc")
def test_a_move_needs_few_descriptors(tmp_path: Path) -> None:
    class Counting(FailingFileSystem):
        """A file system that notes the greatest number of file descriptors open at a time."""

        most = 0

        def open(self, path: str, *, create: bool = False, writable: bool = True) -> FileHandle:
            handle = super().open(path, create=create, writable=writable)
            self.most = max(self.most, len(os.listdir("/proc/self/fd")))
            return handle

    fs = Counting()
    logs = manager(tmp_path, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    logs.topic_config = lambda topic: topic_config(segment_bytes=12_400)
    logs.start(NOW)
    fill(logs)
    assert len(logs.get("t", 0).segments) == 34
    logs.files.limit = 10
    logs.files.give_way()
    before, fs.most = len(os.listdir("/proc/self/fd")), 0
    logs.moves.start(("t", 0), logs.directories[1])
    assert logs.directory_of(("t", 0)) is logs.directories[1]
    assert fs.most < before + 20
    assert len(offsets(logs)) == 100


def offsets_from(logs: LogManager, offset: int) -> list[int]:
    log, found = logs.get("t", 0), []
    while (read := log.read(offset, 1 << 20, log.high_watermark)) is not None:
        found += [header.base_offset for header, _ in iter_batches(read.records.read())]
        offset = read.end_offset
    return found


def test_asked_for_where_it_is_it_stays(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.moves.start(("t", 0), logs.directories[1])
    logs.moves.start(("t", 0), logs.directories[0])
    assert ("t", 0) not in logs.moves
    run_jobs(jobs)
    assert list(tmp_path.glob("b/t-0*")), "a copy may be long: a job of its own removes the copy"
    run_jobs(jobs)
    assert not list(tmp_path.glob("b/t-0*"))
    assert len(offsets(logs)) == 100


def test_a_topic_deleted_on_its_way_leaves_nothing(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.moves.start(("t", 0), logs.directories[1])
    logs.delete("t", 0, NOW)
    while jobs:
        run_jobs(jobs)
    assert not list(tmp_path.glob("b/t-0*"))
    assert not logs.exists("t", 0)


def test_a_target_that_fails_goes_offline_and_the_log_stays(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    fill(logs)
    fs.failures = {"write -future": errno.EIO}
    logs.moves.start(("t", 0), logs.directories[1])
    assert [directory.online for directory in logs.directories] == [True, False]
    assert len(offsets(logs)) == 100
    assert ("t", 0) not in logs.moves


class FailingRenames(FailingFileSystem):
    """A file system that refuses to rename folders with a given ending."""

    endings: tuple[str, ...] = ()
    number = errno.EIO

    def rename(self, source: str, target: str) -> None:
        if source.endswith(self.endings):
            raise OSError(self.number, "refused", source)
        super().rename(source, target)


def test_a_copy_that_can_not_be_put_in_place_leaves_the_log_where_it_was(tmp_path: Path) -> None:
    fs = FailingRenames()
    logs = started(tmp_path, fs)
    fill(logs)
    fs.endings = ("-future",)
    logs.moves.start(("t", 0), logs.directories[1])
    assert [directory.online for directory in logs.directories] == [True, False]
    logs.get("t", 0).append(batch(1, 10, producer_id=1, epoch=0, sequence=200), NOW)
    logs = started(tmp_path)
    assert logs.get("t", 0).directory == f"{tmp_path}/a/t-0"
    assert len(offsets(logs)) == 101


@pytest.mark.parametrize("failure", ["rename /a/t-0", "sync_directory /a", "read /a/t-0"])
def test_an_exchange_that_fails_is_the_old_places_fault(tmp_path: Path, failure: str) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    fill(logs)
    fs.failures = {failure: errno.EIO}
    logs.moves.start(("t", 0), logs.directories[1])
    fs.failures = {}
    assert [directory.online for directory in logs.directories] == [False, True]
    assert ("t", 0) not in logs.moves
    logs = started(tmp_path)
    assert logs.get("t", 0).directory == f"{tmp_path}/a/t-0"
    assert len(offsets(logs)) == 100
    assert not list(tmp_path.glob("b/t-0*"))


def test_an_exchange_that_found_no_room_can_be_asked_for_again(tmp_path: Path) -> None:
    fs = FailingRenames()
    logs = started(tmp_path, fs)
    fill(logs)
    fs.endings, fs.number = ("-future",), errno.ENOSPC
    logs.moves.start(("t", 0), logs.directories[1])
    assert [directory.online for directory in logs.directories] == [True, True]
    logs.get("t", 0).append(batch(1, 10, producer_id=1, epoch=0, sequence=200), NOW)
    fs.endings = ()
    logs.moves.start(("t", 0), logs.directories[1])
    assert logs.get("t", 0).directory == f"{tmp_path}/b/t-0"
    assert len(offsets(logs)) == 101


class Metadata(LogListener):
    """Metadata that are told of moves and answer when the test says so."""

    def __init__(self, logs: LogManager) -> None:
        self.told: list[tuple[str, Waiter]] = []
        logs.listener = self

    def moving(self, partition: PartitionKey, target: LogDirectory, waiter: Waiter) -> None:
        self.told.append((target.path[-1], waiter))

    def answer(self, error: OSError | None = None) -> str:
        name, waiter = self.told.pop(0)
        waiter(error)
        return name


def test_a_move_waits_until_the_metadata_names_the_new_directory(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    metadata = Metadata(logs)
    logs.moves.start(("t", 0), logs.directories[1])
    assert len(metadata.told) == 1
    assert logs.directory_of(("t", 0)) is logs.directories[0]
    assert (next(tmp_path.glob("b/t-0.*")) / "partition.metadata").exists()
    logs.get("t", 0).append(batch(2, 10), NOW)
    assert metadata.answer() == "b"
    assert logs.directory_of(("t", 0)) is logs.directories[1]
    assert len(offsets(logs)) == 101
    assert not metadata.told


def test_a_replica_that_is_none_any_more_is_not_moved_and_that_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logs = started(tmp_path)
    fill(logs)
    metadata = Metadata(logs)
    logs.moves.start(("t", 0), logs.directories[1])
    metadata.answer(OSError(errno.ENOENT, "NOT_LEADER_OR_FOLLOWER"))
    assert ("t", 0) not in logs.moves
    assert logs.directory_of(("t", 0)) is logs.directories[0]
    told = [(record.levelname, record.getMessage()) for record in caplog.records if "not moved" in record.getMessage()]
    assert told == [("INFO", f"t-0 is not moved to {tmp_path}/b: NOT_LEADER_OR_FOLLOWER")]


@pytest.mark.parametrize("batches", [0, 1, 40])
def test_when_the_metadata_is_told_all_that_there_was_is_in_the_copy(tmp_path: Path, batches: int) -> None:
    """A Kafka that starts after a crash takes the copy for the log then, whole or not."""
    logs = started(tmp_path)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(batches):
        log.append(batch(5, 10), NOW)
    metadata = Metadata(logs)
    source = next(tmp_path.glob("?/t-0"))
    other = next(each for each in logs.directories if each is not logs.directory_of(("t", 0)))
    logs.moves.start(("t", 0), other)
    assert len(metadata.told) == 1
    (copy,) = tmp_path.glob("?/t-0.*-future")
    segments = sorted(path.name for path in source.glob("*.log"))
    assert [(copy / name).read_bytes() for name in segments] == [(source / name).read_bytes() for name in segments]
    assert len(segments) >= 1


def test_when_the_metadata_is_told_the_checkpoint_says_where_the_copy_starts(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    logs.get("t", 0).delete_records_before(30)
    metadata = Metadata(logs)
    logs.moves.start(("t", 0), logs.directories[1])
    assert len(metadata.told) == 1
    assert "t 0 30" in (tmp_path / "b" / "log-start-offset-checkpoint").read_text().splitlines()


@pytest.mark.parametrize("refused", [False, True])
def test_a_copy_goes_only_when_the_metadata_names_the_old_directory_again(tmp_path: Path, refused: bool) -> None:
    """A copy stays until the metadata name the old directory again: it shows that there is a log somewhere.

    What was cut off meanwhile is copied anew then.
    """
    logs = started(tmp_path)
    fill(logs)
    metadata = Metadata(logs)
    logs.moves.start(("t", 0), logs.directories[1])
    if refused:
        assert metadata.answer(OSError(errno.EIO, "no")) == "b"
    else:
        logs.get("t", 0).truncate_to(20)
        metadata.answer()
    assert ("t", 0) not in logs.moves
    (copy,) = tmp_path.glob("b/t-0.*")
    assert metadata.answer() == "a"
    assert not copy.exists()
    assert logs.directory_of(("t", 0)) is logs.directories[0]
    if not refused:
        assert metadata.answer() == "b"
        assert logs.directory_of(("t", 0)) is logs.directories[1]
        assert logs.get("t", 0).log_end_offset == 20
    assert not metadata.told
    assert not list(tmp_path.glob("b/t-0.*"))


def test_a_copy_stays_if_the_metadata_can_not_be_told_again(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    metadata = Metadata(logs)
    logs.moves.start(("t", 0), logs.directories[1])
    for name in "ba":
        assert metadata.answer(OSError(errno.EIO, "no")) == name
    assert list(tmp_path.glob("b/t-0.*"))
    logs.shutdown(NOW)
    started(tmp_path)
    assert not list(tmp_path.glob("b/t-0.*"))  # the log is where it was, after all


def test_a_later_move_has_the_last_word(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    metadata = Metadata(logs)
    for _ in range(2):
        logs.moves.start(("t", 0), logs.directories[1])
    assert [metadata.answer() for _ in range(2)] == ["b", "b"]
    assert logs.directory_of(("t", 0)) is logs.directories[1]
    assert [path.name for path in tmp_path.glob("b/t-0*")] == ["t-0"]
    assert not metadata.told


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("rounds", [0, 1])
def test_a_move_ends_with_the_directory_that_fails(tmp_path: Path, failing: int, rounds: int) -> None:
    logs = started(tmp_path)
    fill(logs)
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.moves.start(("t", 0), logs.directories[1])
    for _ in range(rounds):
        run_jobs(jobs)
    assert ("t", 0) in logs.moves
    logs.take_offline(logs.directories[failing], OSError(errno.EIO, "gone"))
    while jobs:
        run_jobs(jobs)
    assert ("t", 0) not in logs.moves
    assert logs.directory_of(("t", 0)) is logs.directories[0]
    assert [folder.parent.name for folder in tmp_path.glob("*/t-0*")] == ["a"]
    if failing == 1:
        assert len(offsets(logs)) == 100


def test_the_metadata_names_the_old_directory_again_if_the_new_one_fails(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs)
    metadata = Metadata(logs)
    logs.moves.start(("t", 0), logs.directories[1])
    logs.take_offline(logs.directories[1], OSError(errno.EIO, "gone"))
    assert [metadata.answer(), metadata.answer()] == ["b", "a"]
    assert logs.get("t", 0).directory == f"{tmp_path}/a/t-0"
    assert not list(tmp_path.glob("b/t-0*"))
