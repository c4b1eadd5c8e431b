"""After a crash: clean, torn at the end, damaged in the middle."""

from __future__ import annotations

import errno
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import RECOVERY_POINTS
from pykafka_broker.log.log_directory import METADATA_TOPIC, LogDirectoryError
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.records.control import COMMIT, build_control_batch
from pykafka_broker.records.header import iter_batches
from pykafka_broker.steps import at_once
from tests.log.support import NOW, TOPIC_ID, FailingFileSystem, batch, manager, marker, topic_config


def crashed(path: Path, appends: int = 30, synced: int = 0) -> LogManager:
    """Return a log manager that has died with `appends` batches in t-0, the first `synced` of them safely on disk."""
    logs = small(manager(path))
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for number in range(appends):
        if number == synced:
            logs.flush(log, NOW)
            logs.on_deadline(NOW + 60_000)
        log.append(batch(2, 50, timestamp=NOW + number, producer_id=1, epoch=0, sequence=number * 2), NOW)
    release(logs)
    return logs


def small(logs: LogManager) -> LogManager:
    logs.topic_config = lambda topic: topic_config(segment_bytes=2000, index_interval_bytes=300)
    return logs


def release(logs: LogManager) -> None:
    """Release the directory locks, as the death of the process does."""
    for directory in logs.directories:
        directory.release()


def start(path: Path, fs: FailingFileSystem | None = None) -> LogManager:
    logs = small(manager(path, fs))
    logs.start(NOW)
    return logs


def offsets_in(log: PartitionLog) -> list[int]:
    found, offset = [], 0
    while (read := log.read(offset, 1 << 20, log.high_watermark)) is not None:
        found += [header.base_offset for header, _ in iter_batches(read.records.read())]
        offset = read.end_offset
    return found


def newest_segment(path: Path) -> Path:
    return sorted(path.glob("logs/t-0/*.log"))[-1]


def test_clean_end_everything_is_there(tmp_path: Path) -> None:
    crashed(tmp_path)
    log = start(tmp_path).get("t", 0)
    assert offsets_in(log) == list(range(0, 60, 2))
    assert log.producers.entries[1].last_sequence == 59
    assert log.append(batch(2, 50, producer_id=1, epoch=0, sequence=60), NOW).base_offset == 60


@pytest.mark.parametrize("left", [0, 1, 12, 60, 61, 100, -1])
def test_torn_tail_is_cut_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture, left: int) -> None:
    crashed(tmp_path, synced=5)
    segment = newest_segment(tmp_path)
    whole = segment.read_bytes()
    size = len(batch(2, 50))
    start_of_last = len(whole) - size
    torn = whole[: start_of_last + left] if left >= 0 else whole[:-1]
    segment.write_bytes(torn)
    with caplog.at_level(logging.WARNING):
        log = start(tmp_path).get("t", 0)
    assert offsets_in(log) == list(range(0, 58, 2))
    assert segment.stat().st_size == start_of_last
    cut = len(torn) - start_of_last
    assert (f"Cut {cut} bytes" in caplog.text) == (cut > 0)
    assert log.producers.entries[1].last_sequence == 57


def test_a_hole_cuts_what_follows_even_in_later_segments(tmp_path: Path) -> None:
    crashed(tmp_path)
    second = sorted(tmp_path.glob("logs/t-0/*.log"))[1]
    data = bytearray(second.read_bytes())
    position = len(data) // 2
    data[position : position + 40] = bytes(40)
    second.write_bytes(data)
    log = start(tmp_path).get("t", 0)
    got = offsets_in(log)
    assert got == list(range(0, log.log_end_offset, 2))
    assert int(second.stem) < log.log_end_offset < 60
    assert newest_segment(tmp_path) == second


def without_its_last_batch(segment: Path) -> int:
    """Take the last batch away, as a power cut does to what was not synced; return its base offset."""
    data = segment.read_bytes()
    last = [header for header, _ in iter_batches(data)][-1]
    segment.write_bytes(data[: -last.size])
    return last.base_offset


def test_an_epoch_whose_only_batch_is_cut_is_forgotten(tmp_path: Path) -> None:
    logs = crashed(tmp_path, 4)
    log = logs.get("t", 0)
    log.append(batch(), NOW, leader_epoch=5)
    assert log.epochs.latest == 5
    without_its_last_batch(newest_segment(tmp_path))
    with newest_segment(tmp_path).open("ab") as file:
        file.write(bytes(10))
    log = start(tmp_path).get("t", 0)
    assert (log.log_end_offset, log.epochs.latest) == (8, 0)


@pytest.mark.parametrize("left", ["later records", "later records and another gap", "an empty file"])
def test_batches_missing_before_a_later_segment_leave_a_gap(tmp_path: Path, left: str) -> None:
    crashed(tmp_path)
    segments = sorted(tmp_path.glob("logs/t-0/*.log"))
    assert len(segments) > 2
    gap = without_its_last_batch(segments[0])
    if left == "later records and another gap":
        without_its_last_batch(segments[1])
    if left == "an empty file":
        segments[1].write_bytes(b"")
        for each in segments[2:]:
            each.unlink()
    logs = start(tmp_path)
    log = logs.get("t", 0)
    assert log.gap == gap
    assert log.log_end_offset == (int(segments[1].stem) if left == "an empty file" else 60)
    logs.flush(log, NOW)
    logs.on_deadline(NOW + 60_000)
    release(logs)
    logs = start(tmp_path)
    log = logs.get("t", 0)
    assert (log.recovery_point, log.gap) == (log.log_end_offset, gap), "killed when all was synced"
    logs.shutdown(NOW)
    logs = start(tmp_path)
    log = logs.get("t", 0)
    assert log.gap == gap, "after a stop in order"
    log.forget_gap()
    logs.shutdown(NOW)
    assert start(tmp_path).get("t", 0).gap is None


def test_a_gap_at_the_end_of_a_log_is_none(tmp_path: Path) -> None:
    """A gap noted at the end of the log is dropped: a crash came after the cut there, before the gap was forgotten."""
    crashed(tmp_path)
    (tmp_path / "logs/t-0/.gap").write_text("60")
    log = start(tmp_path).get("t", 0)
    assert (log.log_end_offset, log.gap) == (60, None)
    assert not (tmp_path / "logs/t-0/.gap").exists()


def test_a_gap_below_the_logs_start_and_one_that_was_synced_are_none(tmp_path: Path) -> None:
    crashed(tmp_path)
    segments = sorted(tmp_path.glob("logs/t-0/*.log"))
    without_its_last_batch(segments[0])
    (tmp_path / "logs/log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {int(segments[1].stem)}\n")
    logs = start(tmp_path)
    assert logs.get("t", 0).gap is None
    release(logs)
    (tmp_path / "logs/log-start-offset-checkpoint").unlink()
    (tmp_path / "logs" / RECOVERY_POINTS).write_text(f"0\n1\nt 0 {int(segments[1].stem)}\n")
    assert start(tmp_path).get("t", 0).gap is None


def test_metadata_ends_at_its_first_gap(tmp_path: Path) -> None:
    """No metadata record is ever compacted away, so records behind a gap were never committed."""
    logs = small(manager(tmp_path))
    logs.start(NOW)
    log = logs.create(METADATA_TOPIC, 0, TOPIC_ID, NOW)
    for _ in range(3):
        log.append(batch(2, 50), NOW)
        log.append(batch(2, 50), NOW)
        log.roll(NOW)
    release(logs)
    segments = sorted(tmp_path.glob(f"logs/{METADATA_TOPIC}-0/*.log"))
    gap = without_its_last_batch(segments[1])
    assert start(tmp_path).get(METADATA_TOPIC, 0).log_end_offset == gap
    assert sorted(tmp_path.glob(f"logs/{METADATA_TOPIC}-0/*.log")) == segments[:2]


def test_damage_in_what_was_synced_takes_its_partition_out_of_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    crashed(tmp_path, synced=20)
    first_unsynced = sorted(tmp_path.glob("logs/t-0/*.log"))[-2]
    data = bytearray(first_unsynced.read_bytes())
    data[100] ^= 1
    first_unsynced.write_bytes(data)
    for _ in range(2):  # a stop in between is no clean shutdown: the next start says it again
        caplog.clear()
        logs = start(tmp_path)
        for _ in range(2):
            with pytest.raises(ApiError, match="damaged at byte 0") as caught:
                logs.get("t", 0)
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        [told] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert told.startswith(f"t-0 is out of service: {first_unsynced} is damaged at byte 0: crc of the batch")
        assert f"`pykafka-broker log repair {tmp_path}/logs`" in told
        logs.shutdown(NOW)
    assert first_unsynced.read_bytes() == data


def test_a_partition_out_of_service_may_be_deleted_and_made_anew(tmp_path: Path) -> None:
    crashed(tmp_path, synced=20)
    damaged = sorted(tmp_path.glob("logs/t-0/*.log"))[-2]
    damaged.write_bytes(bytes(damaged.stat().st_size))
    logs = start(tmp_path)
    logs.delete("t", 0, NOW)
    assert logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW).base_offset == 0


def test_a_log_shorter_than_what_was_synced_is_recovered_from_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    crashed(tmp_path, appends=20, synced=19)
    newest_segment(tmp_path).write_bytes(b"")
    log = start(tmp_path).get("t", 0)
    assert 0 < log.log_end_offset < 38
    assert offsets_in(log) == list(range(0, log.log_end_offset, 2))
    assert log.producers.entries[1].last_sequence == log.log_end_offset - 1
    [told] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "but had been synced up to 38; it is recovered from its start" in told


def test_a_recovery_point_beyond_every_log_costs_no_record(tmp_path: Path) -> None:
    crashed(tmp_path, synced=19)
    checkpoint = tmp_path / "logs" / RECOVERY_POINTS
    checkpoint.write_text("0\n1\nt 0 9999\n")
    log = start(tmp_path).get("t", 0)
    assert offsets_in(log) == list(range(0, 60, 2))
    assert log.append(batch(), NOW).base_offset == 60


def test_other_partitions_serve_on(tmp_path: Path) -> None:
    dirs = f"{tmp_path}/a,{tmp_path}/b"
    logs = manager(tmp_path, log_dirs=dirs)
    logs.start(NOW)
    for partition in range(4):
        logs.create("t", partition, TOPIC_ID, NOW).append(batch(), NOW)
    for partition in range(4):
        logs.flush(logs.get("t", partition), NOW)
    logs.on_deadline(NOW + 60_000)
    release(logs)
    bad = next(tmp_path.glob("a/t-*/*.log"))
    bad.write_bytes(b"x" * bad.stat().st_size)
    logs = manager(tmp_path, log_dirs=dirs)
    logs.start(NOW)
    assert [directory.online for directory in logs.directories] == [True, True]
    for number in range(4):
        if bad.parent.name == f"t-{number}":
            with pytest.raises(ApiError) as caught:
                logs.get("t", number)
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        else:
            assert logs.get("t", number).log_end_offset == 1


def test_only_segments_past_the_recovery_point_are_read(tmp_path: Path) -> None:
    crashed(tmp_path, synced=25)
    fs = FailingFileSystem()
    start(tmp_path, fs)
    read = {call.rpartition("/")[2] for call in fs.calls if call.startswith("read ") and call.endswith(".log")}
    segments = [file.name for file in sorted(tmp_path.glob("logs/t-0/*.log"))]
    assert read == {name for name in segments if name >= next(s for s in reversed(segments) if int(s[:20]) <= 50)}


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("content", [None, b"", b"\xff" * 77, bytes(4096)])
def test_indexes_and_snapshots_are_rebuilt(tmp_path: Path, suffix: str, content: bytes | None) -> None:
    logs = crashed(tmp_path)
    log = logs.get("t", 0)
    log.append(batch(1, producer_id=2, epoch=0, sequence=0, transactional=True), NOW)
    log.append(marker(2, 0, commit=False), NOW, origin=Origin.COORDINATOR)
    for segment in log.segments:
        segment.seal()
    for file in tmp_path.glob(f"logs/t-0/*{suffix}"):
        file.unlink() if content is None else file.write_bytes(content)
    log = start(tmp_path).get("t", 0)
    assert offsets_in(log) == [*range(0, 60, 2), 60, 61]
    for offset in range(60):
        assert log.read(offset, 1, 62) is not None
    assert [aborted.first_offset for aborted in log.aborted_transactions(0, 62)] == [60]
    best = at_once(log.offset_for_timestamp(None))
    assert best is not None
    assert best.offset == 59


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize(
    "content",
    [None, b"", b"0\n9\n0 0\n", b"nonsense", b"0\n1\n9 0\n", b"0\n2\n0 0\n9 5000\n", b"0\n1\n0 61\n", b"0\n1\n0 4\n"],
)
def test_leader_epochs_are_rebuilt(tmp_path: Path, content: bytes | None, clean: bool) -> None:
    crashed(tmp_path)
    if clean:
        start(tmp_path).shutdown(NOW)
    file = tmp_path / "logs/t-0/leader-epoch-checkpoint"
    file.unlink() if content is None else file.write_bytes(content)
    log = start(tmp_path).get("t", 0)
    assert log.epochs.entries == [(0, 0)]
    assert file.read_bytes() == b"0\n1\n0 0\n"


@pytest.mark.parametrize("synced", [0, 20])
def test_offsets_below_the_start_are_not_given_again(tmp_path: Path, synced: int) -> None:
    logs = crashed(tmp_path, appends=max(1, synced), synced=synced)
    logs.flush(logs.get("t", 0), NOW)
    logs.on_deadline(NOW + 60_000)
    # the checkpoint is on disk, what DeleteRecords took away was not yet
    (tmp_path / "logs/log-start-offset-checkpoint").write_text("0\n1\nt 0 51\n")
    logs = start(tmp_path)
    log = logs.get("t", 0)
    assert (log.log_start_offset, log.log_end_offset) == (51, 51)
    assert log.append(batch(1, 50, producer_id=2, epoch=0, sequence=0), NOW).base_offset == 51
    assert log.append(batch(1, 50, producer_id=2, epoch=0, sequence=1), NOW).base_offset == 52
    release(logs)
    again = start(tmp_path).get("t", 0)
    assert (again.log_start_offset, again.log_end_offset) == (51, 53)
    assert again.producers.entries[2].last_sequence == 1


def test_a_log_that_goes_on_at_its_start_knows_no_transaction_of_before(tmp_path: Path) -> None:
    """The marker was lost with the records below the start."""
    logs = small(manager(tmp_path))
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(2, producer_id=1, epoch=0, sequence=0, transactional=True), NOW)
    size = log.segments.active.size
    log.append(marker(1, 0, commit=True), NOW)
    log.append(batch(3), NOW)
    release(logs)
    os.truncate(log.segments.active.log.path, size)
    (tmp_path / "logs/log-start-offset-checkpoint").write_text("0\n1\nt 0 6\n")
    for _ in range(2):
        logs = start(tmp_path)
        log = logs.get("t", 0)
        assert (log.log_start_offset, log.log_end_offset, log.last_stable_offset) == (6, 6, 6)
        assert (dict(log.producers.entries), len(log.segments)) == ({}, 1)
        release(logs)
    log.append(batch(), NOW)
    assert log.last_stable_offset == 7


def test_a_marker_that_makes_no_sense_ends_the_log_and_not_the_start(tmp_path: Path) -> None:
    logs = crashed(tmp_path, appends=3)
    log = logs.get("t", 0)
    senseless = build_control_batch(
        COMMIT, b"", offset=6, timestamp=NOW, producer_id=1, producer_epoch=0, transactional=True
    )
    with open(log.segments.active.log.path, "ab") as file:
        file.write(senseless)
    log = start(tmp_path).get("t", 0)
    assert (offsets_in(log), log.log_end_offset) == ([0, 2, 4], 6)


def test_what_was_aborted_stays_so_where_all_indexes_were_removed(tmp_path: Path) -> None:
    logs = small(manager(tmp_path))
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for number in range(40):  # some transactions end in a later segment than they begin
        log.append(batch(1, 150, producer_id=1, epoch=0, sequence=number, transactional=True), NOW)
        if number % 3 == 2:
            log.append(marker(1, 0, commit=number % 2 == 0), NOW, origin=Origin.COORDINATOR)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert len(aborted) > 4
    assert len(log.segments) > 3
    logs.shutdown(NOW)
    for file in tmp_path.glob("logs/t-0/*index"):
        file.unlink()
    logs = start(tmp_path)
    log = logs.get("t", 0)
    assert log.aborted_transactions(0, log.log_end_offset) == aborted
    logs.shutdown(NOW)
    log = start(tmp_path).get("t", 0)
    assert log.aborted_transactions(0, log.log_end_offset) == aborted


def test_an_index_whose_log_is_gone_goes_too(tmp_path: Path) -> None:
    crashed(tmp_path, 5, 5)
    for suffix in ("index", "timeindex", "txnindex"):
        (tmp_path / f"logs/t-0/{77:020d}.{suffix}").write_bytes(bytes(24))
    logs = start(tmp_path)
    logs.get("t", 0)
    assert not list(tmp_path.glob("logs/t-0/*77.*"))


@pytest.mark.parametrize("synced", [False, True])
def test_a_clean_log_that_ends_before_its_checkpointed_start_begins_anew_there(tmp_path: Path, synced: bool) -> None:
    """Kafka, asked with a checkpoint changed by hand, forgets all records of the log too."""
    crashed(tmp_path, 5, 5 if synced else 0)
    start(tmp_path).shutdown(NOW)
    (tmp_path / "logs/log-start-offset-checkpoint").write_text("0\n1\nt 0 9999\n")
    for end in (9999, 10000):
        logs = start(tmp_path)
        log = logs.get("t", 0)
        assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (9999, end, 1)
        assert (log.high_watermark, log.last_stable_offset, dict(log.producers.entries)) == (end, end, {})
        assert log.append(batch(), NOW).base_offset == end
        logs.shutdown(NOW)


@pytest.mark.parametrize("clean", [False, True])
def test_files_of_other_names_are_left_alone(tmp_path: Path, clean: bool) -> None:
    crashed(tmp_path)
    if clean:
        start(tmp_path).shutdown(NOW)
    names = {"backup.log", "old.snapshot", "x.log.swap", "1.log"}
    for name in names:
        (tmp_path / "logs/t-0" / name).write_bytes(b"?")
    log = start(tmp_path).get("t", 0)
    assert offsets_in(log) == list(range(0, 60, 2))
    assert {"backup.log", "old.snapshot", "1.log"} < {file.name for file in tmp_path.glob("logs/t-0/*")}


def test_leader_epochs_go_back_with_the_logs_start(tmp_path: Path) -> None:
    logs = crashed(tmp_path)
    log = logs.get("t", 0)
    log.delete_records_before(60)
    log.roll(NOW)
    assert log.epochs.entries == [(0, 60)]
    log = start(tmp_path).get("t", 0)  # a crash before the checkpoint
    assert (log.log_start_offset, log.log_end_offset) == (0, 60)
    assert log.epochs.entries == [(0, 0)]


def test_a_snapshot_that_is_newer_than_its_name_is_not_believed(tmp_path: Path) -> None:
    crashed(tmp_path)
    start(tmp_path).shutdown(NOW)
    snapshots = sorted(tmp_path.glob("logs/t-0/*.snapshot"))
    snapshots[0].write_bytes(snapshots[-1].read_bytes())
    for each in snapshots[1:]:
        each.unlink()
    log = start(tmp_path).get("t", 0)
    assert [each.last_sequence for each in log.producers.entries[1].batches] == [51, 53, 55, 57, 59]


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_time_index_that_lost_its_end_is_made_anew(tmp_path: Path, left: int) -> None:
    crashed(tmp_path)
    start(tmp_path).shutdown(NOW)
    for file in tmp_path.glob("logs/t-0/*.timeindex"):
        file.write_bytes(file.read_bytes()[: 12 * left])
    log = start(tmp_path).get("t", 0)
    found = [at_once(log.offset_for_timestamp(NOW + number)) for number in range(30)]
    assert [each and each.offset for each in found] == [0, *range(1, 59, 2)]
    best = at_once(log.offset_for_timestamp(None))
    assert best is not None
    assert best.offset == 59


def test_leftovers_of_an_unfinished_deletion_go(tmp_path: Path) -> None:
    crashed(tmp_path)
    for name in ("00000000000000000000.log.deleted", "00000000000000000900.log.cleaned", "x.tmp"):
        (tmp_path / "logs/t-0" / name).write_bytes(b"?")
    start(tmp_path)
    assert not [file for file in tmp_path.glob("logs/t-0/*") if file.suffix in (".deleted", ".cleaned", ".tmp")]


def test_recovery_and_closing_run_in_the_threads_they_are_given(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.start(NOW)
    for partition in range(20):
        logs.create("t", partition, TOPIC_ID, NOW).append(batch(3), NOW)
    release(logs)
    logs = manager(tmp_path, num_recovery_threads_per_data_dir="4")
    logs.thread_pool = ThreadPoolExecutor
    logs.start(NOW)
    assert [logs.get("t", partition).append(batch(3), NOW).base_offset for partition in range(20)] == [3] * 20
    logs.shutdown(NOW)
    logs = manager(tmp_path)
    logs.start(NOW)
    assert logs.directories[0].clean
    assert [logs.get("t", partition).recovery_point for partition in range(20)] == [6] * 20


def test_a_disk_that_fails_a_closing_thread_leaves_no_marker(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.thread_pool = ThreadPoolExecutor
    logs.start(NOW)
    for partition in range(20):
        logs.create("t", partition, TOPIC_ID, NOW).append(batch(3), NOW)
    fs.failures = {"sync t-7/": errno.EIO}
    logs.shutdown(NOW)
    assert not (tmp_path / "logs/.kafka_cleanshutdown").exists()


def test_a_disk_that_fails_during_recovery(tmp_path: Path) -> None:
    crashed(tmp_path)
    fs = FailingFileSystem()
    fs.failures = {"read .log": errno.EIO}
    with pytest.raises(LogDirectoryError, match="Input/output error"):
        start(tmp_path, fs)


def emptied_of_snapshots(path: Path) -> list[str]:
    """Remove the partition's snapshots, as a stop of very many logs leaves it; return the names of its files."""
    for file in path.glob("logs/t-0/*.snapshot"):
        file.unlink()
    return sorted(os.listdir(path / "logs/t-0"))


@pytest.mark.parametrize(("producer_id", "is_left_alone"), [(-1, True), (1, False)])
def test_a_small_log_that_was_synced_is_left_as_it_is(tmp_path: Path, producer_id: int, is_left_alone: bool) -> None:
    """A start after a crash changes no file of a small synced log without producers.

    Once each such log had three files rewritten: with forty thousand logs, that took a minute on a busy disk.
    """
    logs = manager(tmp_path)
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(2, producer_id=producer_id, epoch=min(0, producer_id), sequence=min(0, producer_id)), NOW)
    logs.shutdown(NOW)
    left = emptied_of_snapshots(tmp_path)
    (tmp_path / "logs/.kafka_cleanshutdown").unlink()
    fs = FailingFileSystem()
    again = manager(tmp_path, fs)
    again.start(NOW)
    changes = tuple(f"{operation} {tmp_path}/logs/t-0/" for operation in ("write", "create", "rename"))
    made = [call for call in fs.calls if call.startswith(changes)]
    assert (not made) == is_left_alone
    assert (sorted(os.listdir(tmp_path / "logs/t-0")) == left) == is_left_alone
    assert offsets_in(again.get("t", 0)) == [0]
    assert (1 in again.get("t", 0).producers.entries) == (producer_id == 1)


@pytest.mark.parametrize("synced", [0, 29], ids=["nothing is synced", "nearly all is synced"])
def test_the_file_of_a_roll_that_failed_is_removed(tmp_path: Path, synced: int) -> None:
    """The roll made a segment's file and failed; records went on in the segment before, beyond the file's base."""
    crashed(tmp_path, synced=synced)
    newest = newest_segment(tmp_path)
    stray = newest.with_name(f"{int(newest.stem) + 2:020}.log")
    stray.touch()
    log = start(tmp_path).get("t", 0)
    assert log is not None
    assert log.log_end_offset == 60
    assert log.segments.active.base_offset == int(newest.stem)
    assert not stray.exists()
    assert log.append(batch(2), NOW).base_offset == 60
    assert offsets_in(log) == list(range(0, 62, 2))
