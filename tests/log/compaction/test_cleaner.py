"""The choice of the partition to clean, the time of a cleaning, and partitions that can't be cleaned."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.errors import ApiError
from pykafka_broker.log.compaction import clean, cleaner
from pykafka_broker.log.compaction.clean import CleaningProcesses, CleaningStopped
from pykafka_broker.log.compaction.cleaner import candidate, make_request
from pykafka_broker.log.filesystem import FileStat, FileSystem, OsFileSystem
from pykafka_broker.log.jobs import Job, run_inline
from pykafka_broker.log.manager import LogListener, LogManager
from pykafka_broker.log.partition_log import Origin, PartitionLog
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.records.header import HEADER_SIZE, MAGIC_OFFSET
from tests.log.compaction.test_clean import compacted, put, records
from tests.log.support import NOW, TOPIC_ID, FailingFileSystem, SweptFileSystem, batch, manager, marker, topic_config

BACKOFF = 15_000


class StatNoted(FailingFileSystem):
    """A file system that tells when the first file is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.noted = threading.Event()

    def stat(self, path: str) -> FileStat:
        self.noted.set()
        return super().stat(path)


def started(path: Path, fs: FileSystem | None = None, log_dirs: str | None = None, **more: object) -> LogManager:
    logs = manager(path, fs, log_dirs=log_dirs or f"{path}/logs")
    settings = {"segment_bytes": 2000, "cleanup_policy": ["compact"], "min_cleanable_dirty_ratio": 0.5, **more}
    logs.topic_config = lambda topic: topic_config(**settings)
    logs.start(NOW)
    return logs


def fill(logs: LogManager, topic: str, count: int = 40, keys: int = 4) -> PartitionLog:
    log = logs.create(topic, 0, TOPIC_ID, NOW)
    for number in range(count):
        put(log, (f"k{number % keys}", "v" * 100))
    logs.flush(log, NOW)
    return log


def test_a_dirty_log_is_cleaned_in_time_and_only_once(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = fill(logs, "t")
    active = log.segments.active.base_offset
    logs.on_deadline(NOW + BACKOFF - 1)
    assert len(records(log)) == 40
    logs.on_deadline(NOW + BACKOFF)
    assert len(records(log)) == 4 + 40 - active
    assert f"t 0 {active}" in (tmp_path / "logs/cleaner-offset-checkpoint").read_text()
    assert logs.next_deadline() == 0  # there may be more
    before = sorted(file.name for file in tmp_path.glob("logs/t-0/*.log"))
    logs.on_deadline(NOW + BACKOFF)
    logs.on_deadline(NOW + 2 * BACKOFF)
    assert sorted(file.name for file in tmp_path.glob("logs/t-0/*.log")) == before
    assert logs.next_deadline() != 0


def test_a_cleaner_without_a_pause_lets_time_pass(tmp_path: Path) -> None:
    logs = manager(tmp_path, log_cleaner_backoff_ms="0")
    logs.start(NOW)
    logs.on_deadline(NOW)
    assert logs.next_deadline() == NOW + 1


def test_many_dirty_logs_are_not_all_looked_at_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs, looked = started(tmp_path), list[str]()

    def counted(key: tuple[str, int], *rest: Any) -> Any:
        looked.append(key[0])
        return candidate(key, *rest)

    monkeypatch.setattr(cleaner, "candidate", counted)
    monkeypatch.setattr(cleaner, "_FOUND_AT_ONCE", 4)
    filled = [fill(logs, f"t{number}") for number in range(12)]
    now = NOW + BACKOFF
    while (due := logs.next_deadline()) is not None and due <= now:
        logs.on_deadline(now)
    assert all(len(records(log)) < 40 for log in filled)
    assert len(looked) <= 4 * 12 + 12, "four looks at all, and one at each again"


def test_a_look_at_many_logs_takes_several_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs, looked = started(tmp_path), list[str]()

    def counted(key: tuple[str, int], *rest: Any) -> Any:
        looked.append(key[0])
        return candidate(key, *rest)

    monkeypatch.setattr(cleaner, "candidate", counted)
    monkeypatch.setattr(cleaner, "_LOOKED_AT_ONCE", 2)
    filled = [fill(logs, f"t{number}") for number in range(5)]
    now = NOW + BACKOFF
    logs.on_deadline(now)
    assert (looked, logs.next_deadline()) == (["t0", "t1"], 0), "the next turn goes on"
    logs.delete("t1", 0, now)
    logs.on_deadline(now)
    assert looked == ["t0", "t1", "t2", "t3"]
    assert {len(records(log)) for log in filled} == {40}, "which is the dirtiest is known after the last one"
    while (due := logs.next_deadline()) is not None and due <= now:
        logs.on_deadline(now)
    assert [log.topic for log in filled if len(records(log)) == 40] == ["t1"]


def test_what_was_clean_stays_clean_over_a_restart(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = fill(logs, "t")
    logs.on_deadline(NOW + BACKOFF)
    logs.shutdown(NOW)
    logs = started(tmp_path)
    log = logs.get("t", 0)
    assert candidate(("t", 0), log, logs.directories[0].cleaner_offsets["t", 0], NOW) is None


def test_nothing_is_cleaned_while_the_settings_of_topics_are_not_known(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = fill(logs, "t")
    logs.topics_are_known = False
    logs.on_deadline(NOW + BACKOFF)
    assert len(records(log)) == 40
    logs.topics_are_known = True
    logs.on_deadline(NOW + 2 * BACKOFF)
    assert len(records(log)) < 40


def test_the_dirtiest_comes_first(tmp_path: Path) -> None:
    logs = started(tmp_path)
    jobs: list[Job] = []
    less, more = fill(logs, "less"), fill(logs, "more", 80)
    logs.directories[0].cleaner_offsets["less", 0] = 17
    logs.submit = jobs.append
    logs.on_deadline(NOW + BACKOFF)
    for job in [job for job in jobs if type(job).__name__ == "CleanJob"]:
        run_inline(job)
    assert len(records(more)) < 80
    assert len(records(less)) == 40


def test_below_the_ratio_nothing_happens_unless_it_is_overdue(tmp_path: Path) -> None:
    log = compacted(tmp_path, min_cleanable_dirty_ratio=0.9)
    for number in range(40):
        put(log, (f"k{number % 4}", "v" * 100))
    log.recovery_point = 40
    assert candidate(("t", 0), log, 15, NOW) is None
    assert candidate(("t", 0), log, None, NOW) is not None
    log.config = topic_config(
        segment_bytes=2000, cleanup_policy=["compact"], min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=5000
    )
    assert candidate(("t", 0), log, 15, NOW + 4000) is None
    assert candidate(("t", 0), log, 15, NOW + 6000) is not None


def test_young_records_are_left_alone(tmp_path: Path) -> None:
    log = compacted(tmp_path, min_compaction_lag_ms=1000)
    for number in range(40):
        put(log, (f"k{number % 4}", "v" * 100))
    log.recovery_point = 40
    assert candidate(("t", 0), log, None, NOW + 900) is None
    assert candidate(("t", 0), log, None, NOW + 1001) is not None


def test_what_is_not_synced_is_not_cleaned(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for number in range(40):
        put(log, (f"k{number % 4}", "v" * 100))
    assert candidate(("t", 0), log, None, NOW) is None
    log.recovery_point = log.segments[1].base_offset
    found = candidate(("t", 0), log, None, NOW)
    assert found is not None
    assert found.upper_offset == log.recovery_point


def test_a_disk_that_fails_keeps_no_log_of_another_disk_from_being_cleaned(tmp_path: Path) -> None:
    """The first log of the failing disk is chosen already when the second one can't be read."""
    dirs = f"{tmp_path}/one,{tmp_path}/two"
    logs = started(tmp_path, log_dirs=dirs)
    for name in "abcd":
        fill(logs, name)
    logs.shutdown(NOW)
    fs = FailingFileSystem()
    logs = started(tmp_path, fs, log_dirs=dirs)
    of_one = [name for name in "abcd" if logs.get(name, 0).directory.startswith(f"{tmp_path}/one/")]
    assert len(of_one) == 2
    fs.failures = {f"{call} one/{of_one[1]}-0": errno.EIO for call in ("open", "read")}
    for turn in range(4):
        logs.on_deadline(NOW + (turn + 1) * BACKOFF)
    assert [directory.online for directory in logs.directories] == [False, True]
    assert all(len(records(logs.get(name, 0))) < 40 for name in "abcd" if name not in of_one)


@pytest.mark.parametrize("lag_ms", [0, 1000])  # with a lag the time index is asked too
@pytest.mark.parametrize("what", ["the disk fails", "the first batch is damaged"])
def test_a_log_whose_age_can_not_be_read_keeps_no_other_from_being_cleaned(
    tmp_path: Path, what: str, lag_ms: int
) -> None:
    logs = started(tmp_path, min_compaction_lag_ms=lag_ms)
    fill(logs, "bad")
    logs.shutdown(NOW)
    fs = FailingFileSystem()
    logs = started(tmp_path, fs, min_compaction_lag_ms=lag_ms)
    bad, good = logs.get("bad", 0), fill(logs, "good")
    if what == "the disk fails":
        fs.failures = {"read bad-0": errno.EIO, "open bad-0": errno.EIO}
    else:
        (tmp_path / "logs/bad-0" / f"{0:020d}.log").write_bytes(bytes(bad.segments.first.size))
    for _ in range(4):
        logs.on_deadline(NOW + BACKOFF)
    if what == "the disk fails":
        assert not logs.directories[0].online
    else:
        assert list(logs.cleaner.uncleanable) == [("bad", 0)]
        assert len(records(good)) < 40


class Spares(LogListener):
    """A listener that can spare every log."""

    def can_spare(self, partition: PartitionKey) -> bool:
        return True


@pytest.mark.parametrize("met", ["ahead of a cleaning", "by a cleaning", "in a process of its own"])
def test_damage_takes_a_log_out_of_service_where_another_replica_can_lead(
    tmp_path: Path, met: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if met == "in a process of its own":
        monkeypatch.setattr(clean, "_SMALL_BYTES", 0)
    logs = started(tmp_path, min_compaction_lag_ms=1000 if met == "ahead of a cleaning" else 0)
    log = fill(logs, "bad")
    logs.shutdown(NOW)
    logs = started(tmp_path, OsFileSystem(), min_compaction_lag_ms=1000 if met == "ahead of a cleaning" else 0)
    logs.listener, log = Spares(), logs.get("bad", 0)
    with open(log.segments.first.log.path, "r+b") as file:
        file.seek(MAGIC_OFFSET if met == "ahead of a cleaning" else HEADER_SIZE)
        file.write(b"\x7f")
    logs.on_deadline(NOW + BACKOFF)
    assert ("bad", 0) in logs.damaged
    logs.on_deadline(NOW + 2 * BACKOFF)
    assert not logs.cleaner.uncleanable
    with pytest.raises(ApiError, match="is damaged at byte 0"):
        logs.get("bad", 0)


def test_a_short_lag_rolls_the_segment(tmp_path: Path) -> None:
    log = compacted(tmp_path, max_compaction_lag_ms=500)
    put(log, ("a", "1"))
    log.append(put_later(501), NOW)
    assert len(log.segments) == 2


def put_later(ms: int) -> bytearray:
    from tests.log.support import batch

    return batch(timestamp=NOW + ms, keys=[b"a"])


def test_a_partition_that_cannot_be_cleaned_is_set_aside_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = started(tmp_path)
    bad, good = fill(logs, "bad"), fill(logs, "good")
    segment = tmp_path / "logs/bad-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    for _ in range(4):
        logs.on_deadline(NOW + BACKOFF)
    assert "bad-0 can't be cleaned" in caplog.text
    assert list(logs.cleaner.uncleanable) == [("bad", 0)]
    assert len(records(good)) < 40
    assert bad.log_end_offset == 40
    assert logs.directories[0].online
    logs.delete("bad", 0, NOW)
    bad = fill(logs, "bad")
    logs.on_deadline(NOW + 2 * BACKOFF)
    assert len(records(bad)) < 40


def test_a_full_disk_stops_no_broker(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    log = fill(logs, "t")
    fs.failures = {"write 33.log.cleaned": errno.ENOSPC}
    log.config = topic_config(segment_bytes=500, cleanup_policy=["compact"])
    put(log, ("k", "v"))
    logs.flush(log, NOW)
    logs.on_deadline(NOW + BACKOFF)
    assert logs.directories[0].online
    assert not list(tmp_path.glob("logs/t-0/*.cleaned"))
    assert len(records(log)) == 41
    fs.failures = {}
    logs.on_deadline(NOW + 2 * BACKOFF)
    assert len(records(log)) < 40


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("ran_before", [False, True])
def test_a_log_that_moved_meanwhile_keeps_its_records(tmp_path: Path, ran_before: bool, back: bool) -> None:
    logs = started(tmp_path, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    log = fill(logs, "t")
    home = logs.directory_of(("t", 0))
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.on_deadline(NOW + BACKOFF)
    cleaning = next(job for job in jobs if type(job).__name__ == "CleanJob")
    if ran_before:
        cleaning.run()
    logs.submit = run_inline
    for directory in (logs.directories[1], logs.directories[0])[: 1 + back]:
        logs.moves.start(("t", 0), directory)
    assert (logs.directory_of(("t", 0)) is home) == back
    if ran_before:
        cleaning.apply()
    else:
        run_inline(cleaning)
    assert {key for _, key, _ in records(log)} == {"k0", "k1", "k2", "k3"}
    assert not logs.cleaner.uncleanable
    assert all(directory.online for directory in logs.directories)
    logs.on_deadline(NOW + 2 * BACKOFF)
    assert len(records(log)) < 40
    logs.shutdown(NOW)
    again = started(tmp_path, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    assert records(again.get("t", 0)) == records(log)


def test_a_cleaning_that_fails_over_two_moves_is_no_failure_of_the_disk(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    log = fill(logs, "t")
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.on_deadline(NOW + BACKOFF)
    cleaning = next(job for job in jobs if type(job).__name__ == "CleanJob")
    fs.failures = {"open .log": errno.ENOENT}  # as while it is in the other directory
    with pytest.raises(FileNotFoundError) as caught:
        cleaning.run()
    fs.failures = {}
    logs.submit = run_inline
    logs.moves.start(("t", 0), logs.directories[1])
    logs.moves.start(("t", 0), logs.directories[0])
    cleaning.failed(caught.value)
    assert all(directory.online for directory in logs.directories)
    logs.on_deadline(NOW + 2 * BACKOFF)
    assert len(records(log)) < 40


def test_a_topic_deleted_meanwhile_is_no_failure(tmp_path: Path) -> None:
    logs = started(tmp_path)
    fill(logs, "t")
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.on_deadline(NOW + BACKOFF)
    (job,) = [job for job in jobs if type(job).__name__ == "CleanJob"]
    logs.delete("t", 0, NOW)
    run_inline(job)
    assert logs.directories[0].online
    assert not logs.cleaner.uncleanable


def test_a_large_log_is_cleaned_by_another_process(tmp_path: Path) -> None:
    logs = started(tmp_path, segment_bytes=400_000)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for number in range(40):
        put(log, (f"k{number % 4}", "v" * 50_000))
    logs.flush(log, NOW)
    active = log.segments.active.base_offset
    logs.on_deadline(NOW + BACKOFF)
    assert [offset for offset, _, _ in records(log)] == [*range(active - 4, 40)]


def test_a_cancelled_cleaning_changes_nothing(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = fill(logs, "t")
    logs.stop_jobs()
    logs.on_deadline(NOW + BACKOFF)
    assert len(records(log)) == 40
    processes = CleaningProcesses()
    processes.cancel()
    found = candidate(("t", 0), log, None, NOW)
    assert found is not None

    with pytest.raises(CleaningStopped):
        processes(logs.fs, make_request(found, NOW, 1 << 20, 1e300))


def test_a_cancelled_cleaning_does_not_wait_for_its_rate(tmp_path: Path) -> None:
    log = fill(started(tmp_path), "t")
    found = candidate(("t", 0), log, None, NOW)
    assert found is not None
    fs, processes = StatNoted(), CleaningProcesses()
    request = make_request(found, NOW, 1 << 20, bytes_per_second=0.01)  # would take days

    def clean() -> None:
        with pytest.raises(CleaningStopped):
            processes(fs, request)

    cleaning = threading.Thread(target=clean, daemon=True)
    cleaning.start()
    fs.noted.wait()  # the wait for the rate follows
    cleaning.join(0.1)
    processes.cancel()
    cleaning.join(30)
    assert not cleaning.is_alive()


def test_a_log_that_is_gone_is_not_uncleanable_any_more(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.cleaner.uncleanable["t", 0] = fill(logs, "t")
    logs.on_deadline(NOW + BACKOFF)
    assert list(logs.cleaner.uncleanable) == [("t", 0)]
    logs.delete("t", 0, NOW)
    logs.on_deadline(NOW + 2 * BACKOFF)
    assert not logs.cleaner.uncleanable


def begun(path: Path) -> tuple[LogManager, PartitionLog, Any]:
    """Return a log whose cleaning is about to run, and the job that cleans the log."""
    logs = started(path)
    log = fill(logs, "t")
    jobs: list[Job] = []
    logs.submit = jobs.append
    logs.on_deadline(NOW + BACKOFF)
    (slow,) = (job for job in jobs if type(job).__name__ == "CleanJob")
    return logs, log, slow


def test_a_cleaning_under_settings_that_were_changed_begins_anew(tmp_path: Path) -> None:
    logs, log, slow = begun(tmp_path)
    logs.config = logs.config.with_dynamic({"log.cleaner.io.max.bytes.per.second": "1000000"}, {})
    logs.submit = run_inline
    logs.on_deadline(NOW + 2 * BACKOFF)
    run_inline(slow)
    assert len(records(log)) == 40
    logs.on_deadline(NOW + 3 * BACKOFF)
    assert len(records(log)) < 40
    assert not logs.cleaner.uncleanable


def test_a_log_counts_as_clean_once_its_folder_is_synced(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    fill(logs, "t")
    fs.calls.clear()
    logs.on_deadline(NOW + BACKOFF)
    calls = fs.calls[: fs.calls.index(f"rename {tmp_path}/logs/cleaner-offset-checkpoint.tmp")]
    exchanged = max(at for at, call in enumerate(calls) if call.startswith(f"rename {tmp_path}/logs/t-0/"))
    assert f"sync_directory {tmp_path}/logs/t-0" in calls[exchanged:]


def swap_names(path: Path) -> int:
    """Return how many renames a cleaning of the log t-0 takes."""
    fs = SweptFileSystem()
    logs = started(path, fs)
    fill(logs, "t")
    fs.calls.clear()
    logs.on_deadline(NOW + BACKOFF)
    return len([call for call in fs.calls if call.startswith(f"rename {path}/logs/t-0/")])


def test_a_swap_that_finds_no_room_goes_on_with_the_next_cleaning(tmp_path: Path) -> None:
    renames = swap_names(tmp_path / "all")
    assert renames > 8
    for nth in range(1, renames + 1):
        fs = SweptFileSystem()
        logs = started(tmp_path / str(nth), fs)
        log = fill(logs, "t")
        active = log.segments.active.base_offset
        fs.fail_at(nth, errno.ENOSPC, f"rename {tmp_path}/{nth}/logs/t-0/")
        logs.on_deadline(NOW + BACKOFF)
        fs.live()
        assert logs.cleaner.is_swapping(("t", 0))
        assert [offset for offset, _, _ in records(log)][-4:] == [36, 37, 38, 39]
        logs.on_deadline(NOW + 2 * BACKOFF)
        assert len(records(log)) == 4 + 40 - active
        for number in range(40):
            put(log, (f"k{number % 4}", "v" * 100))
        logs.flush(log, NOW)
        logs.on_deadline(NOW + 3 * BACKOFF)
        expected = [offset for offset, _, _ in records(log)]
        assert not logs.cleaner.uncleanable
        assert len(expected) == 4 + 80 - log.segments.active.base_offset
        logs.directories[0].release()
        assert [offset for offset, _, _ in records(started(tmp_path / str(nth)).get("t", 0))] == expected


@pytest.mark.parametrize("refused", ["rename 0.log", "rename .log.swap"])
def test_a_log_that_is_cut_while_its_swap_waits_for_room_is_not_called_clean(tmp_path: Path, refused: str) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    log = fill(logs, "t")
    fs.failures = {refused: errno.ENOSPC}
    logs.on_deadline(NOW + BACKOFF)
    assert logs.cleaner.is_swapping(("t", 0))
    fs.failures = {}
    log.truncate_to(10)
    logs.cleaner.finish_swaps()
    assert ("t", 0) not in logs.directories[0].cleaner_offsets
    assert log.log_end_offset <= 10


def test_a_log_whose_swap_waits_for_room_is_not_moved(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs, log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    log = fill(logs, "t")
    source = logs.directory_of(("t", 0))
    (target,) = (directory for directory in logs.directories if directory is not source)
    fs.failures = {"rename 0.log": errno.ENOSPC}
    logs.on_deadline(NOW + BACKOFF)
    before = records(log)
    logs.moves.start(("t", 0), target)
    assert logs.directory_of(("t", 0)) is source
    assert ("t", 0) not in logs.moves
    fs.failures = {}
    logs.moves.start(("t", 0), target)
    assert logs.directory_of(("t", 0)) is target
    assert len(records(log)) <= len(before)
    assert records(log)[-4:] == before[-4:]


def test_a_cleaning_that_is_asked_for_stops_before_a_segment_with_an_open_transaction(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = fill(logs, "t", 3, keys=1)
    log.roll(NOW)
    put(log, ("key", "committed"), ("k", "v"), ("k", "v"), ("k", "v"))
    put(log, ("key", "undecided"), transactional=True, producer_id=7, producer_epoch=0)
    log.roll(NOW)
    put(log, ("k", "v"))
    logs.flush(log, NOW)
    assert logs.cleaner.clean([("t", 0)])
    log.append(marker(7, 0, commit=False), NOW, origin=Origin.COORDINATOR)
    assert [offset for offset, _, _ in records(log)][:2] == [2, 3]
    assert (3, "key", "committed") in records(log)


def test_what_was_cleaned_of_a_log_that_was_cut_meanwhile_is_thrown_away(tmp_path: Path) -> None:
    _, log, slow = begun(tmp_path)
    slow.run()
    cut = log.segments.active.base_offset - 2
    log.truncate_to(cut)  # as after an unclean election
    slow.apply()
    assert [offset for offset, _, _ in records(log)] == [*range(cut)]


def test_what_comes_behind_a_cut_is_cleaned_though_the_log_was_clean_there(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = fill(logs, "t")
    logs.on_deadline(NOW + BACKOFF)
    cleaned = logs.directories[0].cleaner_offsets["t", 0]
    log.truncate_to(cleaned - 4)  # as after an unclean election
    assert log.log_end_offset < cleaned
    assert f"t 0 {log.log_end_offset}\n" in (tmp_path / "logs/cleaner-offset-checkpoint").read_text()
    for number in range(60):
        put(log, (f"n{number % 3}", "v" * 100))
    logs.flush(log, NOW)
    logs.on_deadline(NOW + 3 * BACKOFF)
    active = log.segments.active.base_offset
    assert sum(key.startswith("n") and offset < active for offset, key, _ in records(log)) == 3


def test_what_comes_where_a_log_has_lost_its_clean_end_is_cleaned(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = fill(logs, "t")
    logs.on_deadline(NOW + BACKOFF)
    cleaned = logs.directories[0].cleaner_offsets["t", 0]
    logs.directories[0].release()
    for file in tmp_path.glob("logs/t-0/*"):
        file.unlink()
    logs = started(tmp_path)
    log = logs.get("t", 0)
    assert log.log_end_offset == 0
    for _ in range(cleaned):
        put(log, ("again", "v" * 100))
    for number in range(2 * cleaned):
        put(log, (f"k{number}", "v" * 100))
    logs.flush(log, NOW)
    logs.on_deadline(NOW + 2 * BACKOFF)
    assert sum(key == "again" for _, key, _ in records(log)) == 1


def test_a_process_that_can_not_be_started_is_no_failure_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*command: object, **options: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    logs = started(tmp_path, segment_bytes=400_000)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for number in range(40):
        put(log, (f"k{number % 4}", "v" * 50_000))
    logs.flush(log, NOW)
    with monkeypatch.context() as patch:
        patch.setattr("pykafka_broker.log.compaction.clean.subprocess.Popen", refuse)
        logs.on_deadline(NOW + BACKOFF)
    assert logs.directories[0].online
    assert len(records(log)) == 40
    logs.on_deadline(NOW + 3 * BACKOFF)
    assert len(records(log)) < 40


def test_a_defect_of_a_cleaning_leaves_the_disk_alone(tmp_path: Path) -> None:
    logs, log, slow = begun(tmp_path)
    slow.failed(OSError("TypeError: a defect"))  # as `JobRunner` tells it
    assert logs.directories[0].online
    assert logs.cleaner.uncleanable == {("t", 0): log}


def test_a_cleaning_whose_transaction_index_cannot_be_read_is_tried_again(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    fill(logs, "t").append(batch(producer_id=1, epoch=0, sequence=0, transactional=True), NOW)
    logs.get("t", 0).append(marker(1, 0, commit=False), NOW)
    logs.flush(logs.get("t", 0), NOW)
    logs.shutdown(NOW)
    logs = started(tmp_path, fs)
    log = logs.get("t", 0)
    log.segments.active.transactions._entries = None
    fs.failures = {"open .txnindex": errno.EMFILE}
    log.segments.files.forget_all()
    for segment in log.segments:
        segment.close()
    logs.on_deadline(NOW + BACKOFF)
    assert len(records(log)) == 40 + 1
    fs.failures = {}
    logs.on_deadline(NOW + 2 * BACKOFF)
    assert len(records(log)) < 40
