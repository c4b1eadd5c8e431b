"""The broker's clock in the hands of a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer

from interop.processes import cpu_seconds
from pykafka_broker.testing import ControlError, KafkaBroker, KafkaCluster
from pykafka_broker.testing.control_client import ControlClient

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


def test_it_goes_on_by_what_is_asked_for(broker: KafkaBroker) -> None:
    begun = time.time() * 1000
    before = broker.clock.now()
    assert begun - 1_000 < before < time.time() * 1000 + 1_000
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
    consumer.partitions_for_topic("t")  # a leader that learns of them after its first poll joins again
    while not consumer.assignment():
        consumer.poll(timeout_ms=1000)
    broker.wait_for_group("g", "Stable", members=1)
    broker.clock.freeze()
    broker.clock.advance(seconds=9)
    broker.clock.advance(seconds=21)
    assert broker.group("g")["members"] == []
    broker.clock.resume()
    consumer.close()


def test_a_member_that_was_given_up_comes_back_by_itself(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["t"])
    broker.produce("t", ["before"])
    assert polled(consumer) == b"before"
    (member,) = (each["member_id"] for each in broker.group("g")["members"])
    broker.clock.advance(minutes=5)
    assert member not in [each["member_id"] for each in broker.group("g")["members"]]
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(broker.wait_for_group, "g", "Stable", members=1, timeout=30)
        while not waits.done():
            consumer.poll(0.1)  # it joins again in its polls
        assert waits.result()["members"][0]["member_id"] != member
    consumer.close()


def polled(consumer: Consumer) -> bytes | None:
    message = consumer.poll(60)
    assert message is not None
    assert message.error() is None
    value: bytes | None = message.value()
    return value


def test_a_producer_whose_transaction_took_too_long_is_fenced(broker: KafkaBroker) -> None:
    broker.create_topic("t")
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "transactional.id": "x",
        "transaction.timeout.ms": 60_000,
    }
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"never seen")
    assert producer.flush(60) == 0
    broker.wait_for_transaction("x", "Ongoing")
    broker.clock.advance(seconds=61)
    broker.wait_for_transaction("x", "CompleteAbort", timeout=0)
    with pytest.raises(KafkaException) as failed:
        producer.commit_transaction(30)
    assert failed.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert broker.records("t", isolation_level="read_committed") == []


def test_clients_are_served_only_where_a_move_ends(broker: KafkaBroker) -> None:
    broker.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.send("t", b"first").get(30)
    begin, stop = broker.clock.freeze(), threading.Event()

    def produce() -> None:
        while not stop.is_set():
            producer.send("t", b"x").get(30)

    sender = threading.Thread(target=produce)
    sender.start()
    end = broker.clock.advance(hours=5)
    broker.wait_for_records("t", len(broker.records("t")) + 2)
    stop.set()
    sender.join()
    times = {each.timestamp for each in broker.records("t")[1:]}
    assert times <= {begin, end}
    assert end in times
    producer.close()


def test_moves_that_meet_are_made_one_after_the_other(broker: KafkaBroker) -> None:
    begin = broker.clock.freeze()
    with ThreadPoolExecutor(4) as threads:
        moves = [threads.submit(broker.clock.advance, days=100) for _ in range(3)]
        time.sleep(0.01)
        broker.clock.resume()
        seen = [broker.clock.now() for _ in range(20)]
        ends = sorted(move.result() for move in moves)
    assert seen == sorted(seen)
    assert [round((end - begin) / DAY_MS) for end in ends] == [100, 200, 300]
    assert not broker.clock.frozen
    later = broker.clock.now()
    time.sleep(0.05)
    assert later < broker.clock.now() < later + 60_000


def test_a_long_way_takes_no_long_time(broker: KafkaBroker) -> None:
    broker.create_topic("t", partitions=20, config={"retention.ms": 100 * DAY_MS})
    broker.produce("t", ["1"])
    KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="g").close()
    begun = cpu_seconds(broker.pid)
    broker.clock.advance(days=99)
    assert len(broker.records("t")) == 1
    broker.clock.advance(days=3_000)
    assert broker.records("t") == []
    assert cpu_seconds(broker.pid) - begun < 60


def test_a_way_that_is_no_time_is_refused(broker: KafkaBroker) -> None:
    with pytest.raises(ControlError, match="ms must be at least 0"):
        broker.clock.advance(seconds=-1)
    with pytest.raises(ControlError, match=r"ms must be at most \d+ \(milliseconds, at most ten years\)"):
        broker.clock.advance(days=4_000)


def test_a_broker_whose_clock_stands_can_be_stopped(broker: KafkaBroker) -> None:
    broker.clock.freeze()
    broker.restart()
    assert not broker.clock.frozen


def test_a_number_alone_is_no_time(broker: KafkaBroker) -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match=r"advance\(seconds=5\)"):
        broker.clock.advance(wrong)


def test_a_text_is_no_time_to_set(broker: KafkaBroker) -> None:
    wrong: Any = "2035-01-01"
    with pytest.raises(TypeError, match=r"set\(\) takes a datetime or epoch milliseconds, not '2035-01-01'"):
        broker.clock.set(wrong)


def test_an_advance_says_by_how_much(broker: KafkaBroker) -> None:
    with pytest.raises(TypeError, match=r"advance\(\) needs a time"):
        broker.clock.advance()
    broker.clock.advance(timedelta())
    before = broker.clock.now()
    assert broker.clock.advance(weeks=2, minutes=1) - before >= (14 * 24 * 60 + 1) * 60_000


def test_the_clock_of_a_cluster_is_told_to_be_one_node_s(broker: KafkaBroker) -> None:
    assert ControlClient(broker.control_url).call("POST", "/clock/advance", {"ms": 1})["note"] is None
    with KafkaCluster(brokers=1) as cluster:
        (node,) = cluster.brokers
        note = ControlClient(node.control_url).call("POST", "/clock/advance", {"ms": 1})["note"]
        assert note == "the clock of node 1 alone; a node whose clock runs ahead of the others' may be fenced"
