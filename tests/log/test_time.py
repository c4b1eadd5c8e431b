"""The broker's two clocks: intervals go on when the wall clock is set back, ages follow the wall clock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.retention import retain
from tests.log.support import NOW, TOPIC_ID, batch, new_log, reopen, topic_config

MINUTE = 60_000
SECOND = 1000


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def logs(tmp_path: Path, clock: Clock) -> LogManager:
    settings = {"log.dirs": str(tmp_path / "logs"), "log.flush.scheduler.interval.ms": "100"}
    made = LogManager(OsFileSystem(), BrokerConfig(settings), new_uuid=lambda: os.urandom(16), clock=clock)
    made.topic_config = lambda topic: topic_config(flush_ms=SECOND, retention_ms=10 * MINUTE, segment_bytes=1000)
    made.start(clock.now)
    return made


def set_back(logs: LogManager, passed_ms: int) -> None:
    """Set the wall clock back by 20 minutes, `passed_ms` after the start."""
    logs.clock.set(NOW + passed_ms, NOW + passed_ms - 20 * MINUTE)
    logs.on_deadline(logs.clock.now)


def test_syncs_go_on(logs: LogManager) -> None:
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(), logs.clock.wall)
    set_back(logs, 900)
    assert log.recovery_point == 0
    set_back(logs, SECOND)
    assert log.recovery_point == 1


def test_checkpoints_and_removals_go_on(logs: LogManager, tmp_path: Path) -> None:
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), logs.clock.wall)
    logs.create("u", 0, TOPIC_ID, NOW)
    logs.delete("u", 0, NOW)
    set_back(logs, MINUTE)
    assert "t 0 1" in (tmp_path / "logs/replication-offset-checkpoint").read_text()
    assert not list(tmp_path.glob("logs/u-0*"))


def test_retention_compares_timestamps_with_the_wall_clock(logs: LogManager) -> None:
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(3):
        log.append(batch(size=700), logs.clock.wall)
    set_back(logs, 15 * MINUTE)  # by the wall clock the records are from the future
    assert log.log_start_offset == 0
    set_back(logs, 31 * MINUTE)
    assert log.log_start_offset == 3


def test_producers_expire_by_the_timestamps_of_their_records(logs: LogManager) -> None:
    log = logs.create("t", 0, TOPIC_ID, NOW)
    log.append(batch(producer_id=7, epoch=0, sequence=0), logs.clock.wall)
    day = 24 * 60 * MINUTE
    set_back(logs, day)
    assert 7 in log.producers.entries
    set_back(logs, day + 20 * MINUTE)
    assert not log.producers.entries


def written(path: Path, *times: int, timestamp: int) -> PartitionLog:
    """Append a batch at each of these times, each to a segment of its own."""
    log = new_log(path, segment_bytes=500)
    for now in times:
        log.append(batch(size=400, timestamp=timestamp), now)
    return log


def test_a_segment_is_as_young_as_its_last_append(tmp_path: Path) -> None:
    log = written(tmp_path, NOW + 1000, NOW + 2000, timestamp=NOW)
    log.config = topic_config(segment_bytes=1000)
    log.append(batch(size=400, timestamp=NOW), NOW + 3000)
    assert log.segment_starts() == [(0, NOW + 1000), (1, NOW + 3000)]
    os.utime(log.segments.first.log.path, (1, 1))  # as a copy or a back-up does
    assert log.segment_starts()[0] == (0, NOW + 1000)


def test_one_that_was_loaded_is_as_young_as_its_records(tmp_path: Path) -> None:
    log = reopen(written(tmp_path, NOW + 1000, NOW + 2000, timestamp=NOW + 7))
    assert log.segment_starts() == [(0, NOW + 7), (1, NOW + 7)]
    log.config = topic_config(segment_bytes=1000)
    log.append(batch(size=400, timestamp=NOW), NOW + 3000)
    assert log.segment_starts() == [(0, NOW + 7), (1, NOW + 3000)]


def test_without_timestamps_it_is_the_time_that_the_file_had_when_it_was_loaded(tmp_path: Path) -> None:
    log = written(tmp_path, NOW, NOW, timestamp=-1)
    for segment in log.segments:
        os.utime(segment.log.path, (NOW // 1000 + 60, NOW // 1000 + 60))
    log = reopen(log)
    for segment in log.segments:
        os.utime(segment.log.path, (1, 1))
    assert log.segment_starts() == [(0, NOW + MINUTE), (1, NOW + MINUTE)]
    log.config = topic_config(segment_bytes=500, retention_ms=MINUTE)
    retain(log, NOW + 2 * MINUTE)
    assert log.log_start_offset == 0
    retain(log, NOW + 2 * MINUTE + 1)
    assert log.log_start_offset == 2
