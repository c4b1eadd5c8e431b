"""The assertions about logs and groups see what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.coordinators.groups.consumer import Reconciliation
from pykafka_broker.coordinators.groups.consumer_group import ConsumerGroup, ConsumerGroupMember
from pykafka_broker.log.partition_log import PartitionLog
from tests import invariants
from tests.log.support import NOW, batch, new_log


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = new_log(tmp_path)
    for epoch in (1, 1, 4):
        log.append(batch(3), NOW, leader_epoch=epoch)
    return log


def test_a_batch_of_another_epoch_than_the_cache_says(log: PartitionLog) -> None:
    assert log.read(4, 1000, 9) is not None
    log.epochs.entries = [(1, 0), (3, 2), (4, 6)]
    with pytest.raises(AssertionError, match="is of epoch 1, the cache says"):
        log.read(4, 1000, 9)


def test_a_high_watermark_that_goes_down(log: PartitionLog) -> None:
    with pytest.raises(AssertionError, match="the high watermark went from 9 to 8"):
        log.advance_high_watermark(8)


@pytest.mark.parametrize(
    ("name", "value"), [("log_start_offset", 10), ("high_watermark", 10), ("recovery_point", 10), ("log_end_offset", 5)]
)
def test_offsets_that_are_out_of_order(log: PartitionLog, name: str, value: int) -> None:
    setattr(log, name, value)
    with pytest.raises(AssertionError):
        invariants.check(log)


def test_a_read_that_hands_out_another_batch(log: PartitionLog) -> None:
    log.segments.active.remember(7, 0)  # where the first batch is
    with pytest.raises(AssertionError, match="0 to 2 for 7"):
        log.read(7, 1000, 9)


def test_a_partition_that_another_member_has(monkeypatch: pytest.MonkeyPatch) -> None:
    group, topic_id = ConsumerGroup("g"), bytes(16)
    first, second = ConsumerGroupMember("first"), ConsumerGroupMember("second")
    first.assigned = {topic_id: {1: first.epoch}}
    group.set_member(first)
    step = Reconciliation(group, second, {topic_id}, 2, {topic_id: frozenset((0, 1))}, False, [])
    step.step()
    assert list(second.assigned[topic_id]) == [0]
    monkeypatch.setattr(Reconciliation, "_is_free", lambda *args: True)
    with pytest.raises(AssertionError, match=r"second is given .*-1 of another"):
        step.step()
