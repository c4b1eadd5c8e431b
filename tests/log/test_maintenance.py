"""The periodic maintenance of all logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.log import maintenance
from pykafka_broker.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from pykafka_broker.log.filesystem import OsFileSystem
from tests.log.support import NOW, TOPIC_ID, batch, manager


def test_all_logs_are_looked_at_some_at_a_time_and_then_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_LOOKED_AT_ONCE", 2)
    logs = manager(tmp_path)
    logs.start(NOW)
    for number in range(5):
        log = logs.create("t", number, TOPIC_ID, NOW)
        for _ in range(number + 1):
            log.append(batch(), NOW)
        logs.flush(log, NOW)
        log.delete_records_before(number)
    now, rounds = NOW + 70_000, []
    found = {name: dict[tuple[str, int], int]() for name in (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_START_OFFSETS)}
    for _ in range(3):
        logs.on_deadline(now)
        for name in found:
            found[name] = read_offsets(OsFileSystem(), str(tmp_path / "logs" / name))
        rounds.append(len(found[HIGH_WATERMARKS]))
        due = logs.next_deadline()
        assert due is not None
        now = max(now, due)
    assert rounds == [0, 0, 5]
    assert found[HIGH_WATERMARKS] == found[RECOVERY_POINTS] == {("t", number): number + 1 for number in range(5)}
    assert found[LOG_START_OFFSETS] == {("t", number): number for number in range(1, 5)}


def test_a_clock_that_stands_does_not_keep_retention_from_any_log(tmp_path: Path) -> None:
    """Logs are looked at 50 at a time with a pause in between, which never ends where time stands still."""
    logs = manager(tmp_path, log_retention_ms="60000")
    logs.start(NOW)
    made = [logs.create("t", partition, TOPIC_ID, NOW) for partition in range(120)]
    for log in made:
        log.append(batch(), NOW)
    later = NOW + 60_001
    logs.on_deadline(later)
    logs.look_now(later)
    while logs.next_deadline() == later:
        logs.on_deadline(later)
    assert {log.log_start_offset for log in made} == {1}


@pytest.mark.parametrize(
    ("key", "interval_ms"),
    [
        ("log_flush_offset_checkpoint_interval_ms", "0"),
        ("log_flush_start_offset_checkpoint_interval_ms", "0"),
        ("log_flush_scheduler_interval_ms", "-1"),
        ("replica_high_watermark_checkpoint_interval_ms", "-1"),
    ],
)
def test_a_task_without_an_interval_is_never_due(tmp_path: Path, key: str, interval_ms: str) -> None:
    """A task that is due again at once lets clients wait for ever."""
    keys: dict[str, Any] = {key: interval_ms}
    logs = manager(tmp_path, **keys)
    logs.start(NOW)
    logs.create("t", 0, TOPIC_ID, NOW)
    now = NOW + 70_000
    logs.on_deadline(now)
    assert (logs.next_deadline() or now + 1) > now


def test_a_log_that_goes_in_the_middle_is_not_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_LOOKED_AT_ONCE", 2)
    logs = manager(tmp_path)
    logs.start(NOW)
    for number in range(4):
        logs.create("t", number, TOPIC_ID, NOW).append(batch(), NOW)
    logs.on_deadline(NOW + 5_000)
    logs.delete("t", 0, NOW + 5_000)
    logs.delete("t", 3, NOW + 5_000)
    logs.on_deadline(NOW + 5_010)
    found = read_offsets(OsFileSystem(), str(tmp_path / "logs" / HIGH_WATERMARKS))
    assert found == {("t", 1): 1, ("t", 2): 1}
