"""Files that a power cut leaves in a state that nobody wrote: cases that the crash simulator found."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pykafka_broker.log.manager import LogManager
from pykafka_broker.steps import at_once
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from tests.log.crash.workload import open_manager
from tests.log.support import NOW, TOPIC_ID, FailingFileSystem, batch, manager, topic_config

MINUTE = 60_000
RECOVERY_POINTS = "recovery-point-offset-checkpoint"


def started(path: Path, fs: FailingFileSystem | None = None, *, preallocate: bool = True) -> LogManager:
    logs = manager(path, fs)
    config = topic_config(segment_bytes=2000, index_interval_bytes=100, flush_messages=1, preallocate=preallocate)
    logs.topic_config = lambda topic: config
    logs.start(NOW)
    return logs


def synced_segments(path: Path) -> LogManager:
    """Return t-0 with two segments, the second empty: all was synced before the first segment was complete."""
    logs = started(path)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for number in range(8):
        log.append(batch(1, 100, timestamp=NOW + number), NOW)
    log.roll(NOW)
    logs.on_deadline(NOW + MINUTE)
    assert f"t 0 {log.segments.active.base_offset}" in (path / "logs" / RECOVERY_POINTS).read_text()
    logs.directories[0].release()
    return logs


@pytest.mark.parametrize("lost", ["cut", "time index", "both indexes"])
def test_the_segment_before_the_recovery_point_is_completed(tmp_path: Path, lost: str) -> None:
    synced_segments(tmp_path)
    first = tmp_path / "logs/t-0/00000000000000000000.log"
    size = first.stat().st_size
    if lost == "cut":
        first.write_bytes(first.read_bytes() + bytes(700))
    for suffix in {"cut": (), "time index": (".timeindex",), "both indexes": (".index", ".timeindex")}[lost]:
        file = first.with_suffix(suffix)
        file.write_bytes(file.read_bytes()[:-12])
    log = started(tmp_path).get("t", 0)
    assert first.stat().st_size == size
    best = at_once(log.offset_for_timestamp(None))
    assert best is not None
    assert (best.offset, log.segments.first.max_timestamp) == (7, NOW + 7)
    assert log.append(batch(), NOW).base_offset == 8


@pytest.mark.parametrize("is_rolled", [False, True])
def test_a_clean_shutdown_syncs_what_it_completes(tmp_path: Path, is_rolled: bool) -> None:
    """A clean shutdown syncs the segments that it completes, even if every batch was synced before; and those that were
    completed when a sync found no descriptor.
    """
    fs = FailingFileSystem()
    logs = started(tmp_path, fs, preallocate=not is_rolled)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(4):
        log.append(batch(1, 100), NOW)
    if is_rolled:
        fs.failures = {"open partition.metadata": errno.EMFILE}
        log.roll(NOW)
        fs.failures = {}
    fs.calls.clear()
    logs.shutdown(NOW)
    synced = {call.rpartition("/")[2] for call in fs.calls if call.startswith(f"sync {tmp_path}/logs/t-0/")}
    base = f"{0:020d}"
    assert {f"{base}.log", f"{base}.index", f"{base}.timeindex", f"{4:020d}.snapshot"} <= synced


def test_a_clean_shutdown_syncs_what_a_recovery_has_found_in_logs_that_nobody_asked_for(tmp_path: Path) -> None:
    fs = CrashFileSystem()
    logs = open_manager(fs)
    logs.start(NOW)
    log = logs.create("a", 0, TOPIC_ID, NOW)
    for sequence in range(20):
        log.append(batch(1, 100, producer_id=1, epoch=0, sequence=sequence), NOW)
    logs.directories[0].release()
    logs.directories[1].release()
    logs = open_manager(fs)  # after a kill of the process, but not of the machine
    logs.start(NOW)
    logs.shutdown(NOW)
    for seed in range(8):
        logs = open_manager(fs.after_crash(seed))
        logs.start(NOW)
        assert logs.get("a", 0).log_end_offset == 20


def test_a_log_that_was_only_read_is_not_synced_at_shutdown(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    logs.shutdown(NOW)
    fs = FailingFileSystem()
    logs = started(tmp_path, fs)
    logs.get("t", 0)
    logs.shutdown(NOW)
    assert not [call for call in fs.calls if call.startswith("sync") and f"{tmp_path}/logs/t-0" in call]


def test_a_new_log_does_not_inherit_offsets_of_one_that_was_deleted_before_the_start(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    logs.on_deadline(NOW + MINUTE)
    logs.delete("t", 0, NOW)
    logs.directories[0].release()  # before the checkpoint is written without it
    logs = started(tmp_path)
    logs.create("t", 0, TOPIC_ID, NOW)
    assert "t 0" not in (tmp_path / "logs" / RECOVERY_POINTS).read_text()
    logs.directories[0].release()
    assert started(tmp_path).directories[0].online


def test_epochs_of_synced_segments_are_learned_again(tmp_path: Path) -> None:
    logs = started(tmp_path)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for epoch in range(4):
        log.epochs.current = epoch
        for _ in range(5):
            log.append(batch(1, 200), NOW)
    logs.on_deadline(NOW + MINUTE)
    assert log.recovery_point == 20
    log.config = topic_config(flush_messages=1 << 40)
    log.append(batch(), NOW)
    logs.directories[0].release()
    (tmp_path / "logs/t-0/leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n1 ")
    log = started(tmp_path).get("t", 0)
    assert log.epochs.entries == [(0, 0), (1, 5), (2, 10), (3, 15)]


def test_what_recovery_cuts_stays_cut(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    logs.topic_config = lambda topic: topic_config(segment_bytes=500)
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(9):
        log.append(batch(1, 100), NOW)
    cut = Path(log.segments[1].log.path)
    last = log.segments.active.log.path
    logs.directories[0].release()
    cut.write_bytes(cut.read_bytes()[:-5])
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.start(NOW)
    assert not Path(last).exists()
    done = [call for call in fs.calls if call in (f"sync {cut}", f"sync_directory {cut.parent}", f"remove {last}")]
    assert done == [f"remove {last}", f"sync {cut}", f"sync_directory {cut.parent}"]


def test_a_truncation_is_on_disk_before_anything_follows(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.topic_config = lambda topic: topic_config(segment_bytes=500)
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(9):
        log.append(batch(1, 100), NOW)
    later = [segment.log.path for segment in log.segments][2:]
    active = log.segments[1].log.path
    fs.calls.clear()
    log.truncate_to(log.segments[2].base_offset - 1)
    wanted = [*(f"rename {path}" for path in reversed(later)), f"truncate {active}", f"sync {active}"]
    calls = [call for call in fs.calls if call in wanted or call == f"sync_directory {log.directory}"]
    assert calls == [*wanted, f"sync_directory {log.directory}"]
