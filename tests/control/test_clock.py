"""The broker's clock in the hands of a test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from kafka import KafkaConsumer

from pykafka_broker.testing import ControlError, KafkaBroker

HOUR_MS = 3_600_000


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


def test_it_goes_on_by_what_is_asked_for(broker: KafkaBroker) -> None:
    before = broker.clock.now()
    assert abs(before - time.time() * 1000) < 5_000
    after = broker.clock.advance(timedelta(hours=1), minutes=1, seconds=1.5)
    assert 3_661_500 <= after - before < 3_661_500 + 60_000
    broker.create_topic("t")
    broker.produce("t", ["later"])
    assert broker.records("t")[0].timestamp >= after


def test_frozen_it_stands_until_it_is_moved_or_resumed(broker: KafkaBroker) -> None:
    stands = broker.clock.freeze()
    time.sleep(0.05)
    assert (broker.clock.now(), broker.clock.frozen) == (stands, True)
    assert broker.clock.advance(milliseconds=5) == stands + 5
    time.sleep(0.05)
    assert broker.clock.now() == stands + 5
    assert broker.clock.resume() - stands < 10_000
    time.sleep(0.05)
    assert broker.clock.now() > stands + 5
    assert not broker.clock.frozen


def test_set_back_only_timestamps_go_back(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    broker.clock.freeze()
    broker.clock.set(datetime(2001, 2, 3, tzinfo=UTC))
    broker.produce("t", ["old"])
    assert broker.records("t")[0].timestamp == 981_158_400_000
    assert broker.clock.set(981_158_400_000 + HOUR_MS) == 981_158_400_000 + HOUR_MS


def test_what_is_past_its_retention_is_gone_when_the_clock_has_moved(broker: KafkaBroker) -> None:
    broker.create_topic("t", config={"retention.ms": HOUR_MS, "segment.ms": 60_000})
    broker.produce("t", ["1"])
    broker.clock.advance(minutes=30)
    broker.produce("t", ["2"])
    broker.clock.advance(minutes=45)
    assert [each.value for each in broker.records("t")] == ["2"]
    broker.clock.advance(days=3_000)
    assert broker.records("t") == []


def test_a_member_that_says_nothing_is_gone_when_its_session_is_over(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    consumer = KafkaConsumer("t", bootstrap_servers=broker.bootstrap_servers, group_id="g", session_timeout_ms=10_000)
    while not consumer.assignment():
        consumer.poll(timeout_ms=200)
    broker.wait_for_group("g", "Stable", members=1)
    broker.clock.freeze()
    broker.clock.advance(seconds=9)
    broker.clock.advance(seconds=21)
    assert broker.group("g")["members"] == []
    broker.clock.resume()
    consumer.close()


def test_a_way_that_is_no_time_is_refused(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="ms must be at least 0"):
        broker.clock.advance(seconds=-1)
    with pytest.raises(ControlError, match=r"ms must be at most \d+: at most ten years"):
        broker.clock.advance(days=4_000)


def test_a_broker_whose_clock_stands_can_be_stopped(broker: KafkaBroker) -> None:
    broker.clock.freeze()
    broker.restart()
    assert not broker.clock.frozen
