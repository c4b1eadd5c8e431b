"""Retention by time and size: what goes, when, and on which disks."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.log.manager import LogManager
from pykafka_broker.log.retention import retain
from tests.log.support import NOW, TOPIC_ID, FailingFileSystem, batch, manager, new_log, topic_config

MINUTE = 60_000


def started(path: Path, **keys: Any) -> LogManager:
    logs = manager(path, **keys)
    logs.start(NOW)
    return logs


def test_retention_by_time_and_size(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="pykafka_broker.log.retention")
    logs = started(tmp_path)
    logs.topic_config = lambda topic: topic_config(segment_bytes=500, retention_ms=7 * 24 * 60 * MINUTE)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for number in range(10):
        log.append(batch(1, 300, timestamp=NOW + number * MINUTE), NOW)
    week = 7 * 24 * 60 * MINUTE
    logs.on_deadline(NOW + week + 5 * MINUTE)
    assert log.log_start_offset == 5
    log.config = topic_config(segment_bytes=500, retention_ms=-1, retention_bytes=2 * len(batch(1, 300)))
    logs.on_deadline(NOW + week + 10 * MINUTE)
    assert log.log_start_offset == 8
    assert len(list(tmp_path.glob("logs/t-0/*.deleted"))) > 0
    logs.on_deadline(NOW + week + 20 * MINUTE)
    assert not list(tmp_path.glob("logs/t-0/*.deleted"))
    log.config = topic_config(segment_bytes=500, retention_ms=1)
    logs.on_deadline(NOW + 2 * week)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (10, 10, 1)
    assert log.append(batch(), NOW).base_offset == 10
    assert caplog.messages == [
        f"t-0: the records before offset 5 are deleted: retention.ms is {week}",
        f"t-0: the records before offset 8 are deleted: retention.bytes is {2 * len(batch(1, 300))}",
        "t-0: the records before offset 9 are deleted: retention.ms is 1",
        "t-0: the records before offset 10 are deleted: retention.ms is 1",
    ]


def test_retention_by_time_counts_towards_that_by_size(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=1200)
    log.append(batch(1, 900, timestamp=NOW - 100), NOW)
    for _ in range(4):
        log.roll(NOW)
        log.append(batch(1, 100), NOW)
    log.config = topic_config(retention_ms=50, retention_bytes=log.segments.size_bytes - 300)
    retain(log, NOW)
    assert log.log_start_offset == 1


def test_many_expired_segments_are_deleted_some_at_a_time(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.topic_config = lambda topic: topic_config(segment_bytes=200, retention_ms=1000)
    made = [logs.create("t", partition, TOPIC_ID, NOW) for partition in range(4)]
    for log in made:
        for _ in range(70):
            log.append(batch(1, 100), NOW)
    now, left = NOW + 300_000, [280]
    while left[-1]:
        logs.on_deadline(now)
        left.append(sum(log.log_end_offset - log.log_start_offset for log in made))
        due = logs.next_deadline()
        assert due is not None
        now = max(now, due)
    assert now < NOW + 600_000
    assert max(before - after for before, after in pairwise(left)) <= 100
    assert [len(log.segments) for log in made] == [1] * 4


def test_retention_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.topic_config = lambda topic: topic_config(segment_bytes=500, retention_ms=1000)
    logs.start(NOW)
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(10):
        log.append(batch(1, 300, timestamp=NOW - 5000), NOW)
    last = log.segments.active.base_offset
    fs.failures = {"write .snapshot": errno.ENOSPC, "write leader-epoch": errno.ENOSPC}
    logs.on_deadline(NOW + 300_000)
    assert log.segments.first.base_offset == last
    logs.on_deadline(NOW + 400_000)
    assert len(list(tmp_path.glob("logs/t-0/*.log*"))) == 1
    fs.failures = {}
    logs.on_deadline(NOW + 700_000)
    assert log.log_start_offset == log.log_end_offset == 10


def test_a_disk_that_fails_twice_in_one_retention_is_offline(tmp_path: Path) -> None:
    """The sync of the rolled segment fails first, which takes the log out of service."""
    fs = FailingFileSystem()
    logs = manager(tmp_path, fs)
    logs.topic_config = lambda topic: topic_config(retention_ms=1)
    logs.start(NOW)
    logs.create("t", 0, TOPIC_ID, NOW).append(batch(), NOW)
    fs.failures = {"sync .log": errno.EIO, "rename .log": errno.EIO}
    logs.on_deadline(NOW + 100 * MINUTE)
    assert not logs.directories[0].online


def test_compacted_topics_keep_old_segments(tmp_path: Path) -> None:
    logs = started(tmp_path)
    logs.topic_config = lambda topic: topic_config(segment_bytes=500, retention_ms=1, cleanup_policy=["compact"])
    log = logs.create("t", 0, TOPIC_ID, NOW)
    for _ in range(5):
        log.append(batch(1, 300), NOW)
    logs.on_deadline(NOW + 100 * MINUTE)
    assert log.log_start_offset == 0


def test_retention_reaches_logs_that_nobody_asked_for(tmp_path: Path) -> None:
    logs = started(tmp_path)
    for partition in range(120):
        logs.create("t", partition, TOPIC_ID, NOW).append(batch(), NOW)
    logs.shutdown(NOW)
    logs = started(tmp_path, log_retention_ms="1000")
    now = NOW + 10 * MINUTE
    for _ in range(3):
        logs.on_deadline(now)
        now += 50
    assert all(logs.get("t", partition).log_start_offset == 1 for partition in range(120))
    following = logs.next_deadline()
    assert following is not None
    assert following > now
