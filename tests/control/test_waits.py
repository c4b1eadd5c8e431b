"""Waits end with what they wait for, and say what was there instead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from pykafka_broker.testing import KafkaBroker, NotInTime, NotSo


def meanwhile(step: Callable[[], object]) -> threading.Thread:
    """Do it while the test waits."""

    def later() -> None:
        time.sleep(0.2)
        step()

    thread = threading.Thread(target=later)
    thread.start()
    return thread


def test_a_wait_for_records_ends_with_the_last_of_them(broker: KafkaBroker) -> None:
    broker.create_topic("awaited", partitions=2)
    broker.produce("awaited", ["1"])
    step = meanwhile(lambda: broker.produce("awaited", ["2", "3"]))
    assert sorted(each.value or "" for each in broker.wait_for_records("awaited", 3)) == ["1", "2", "3"]
    step.join()


def test_a_wait_for_records_of_a_topic_that_is_yet_to_be_made(broker: KafkaBroker) -> None:
    step = meanwhile(lambda: broker.produce("made-later", ["1"]))
    assert [each.value for each in broker.wait_for_records("made-later", 1)] == ["1"]
    step.join()


def test_a_topic_that_was_made_anew_is_counted_anew(broker: KafkaBroker) -> None:
    broker.create_topic("anew")
    broker.produce("anew", ["1", "2"])

    def again() -> None:
        broker.delete_topic("anew")
        broker.create_topic("anew")
        broker.produce("anew", ["3"])

    step = meanwhile(again)
    with pytest.raises(NotInTime, match="topic anew has 1 records, not 3"):
        broker.wait_for_records("anew", 3, timeout=2)
    step.join()


@pytest.mark.parametrize(
    ("wait", "says"),
    [
        (lambda broker: broker.wait_for_group("none", "Stable", timeout=0.1), "after 100 ms there is no group none"),
        (lambda broker: broker.wait_for_lag("none", timeout=0), "after 0 ms group none has committed nothing"),
        (lambda broker: broker.wait_for_records("none", 1, timeout=0), "topic none has 0 records, not 1"),
        (
            lambda broker: broker.wait_for_transaction("none", "Ongoing", timeout=0),
            "there is no transactional id none",
        ),
    ],
)
def test_what_does_not_come_is_told(broker: KafkaBroker, wait: Callable[[KafkaBroker], object], says: str) -> None:
    with pytest.raises(NotInTime, match=says):
        wait(broker)


def test_a_transaction_is_waited_for(broker: KafkaBroker) -> None:
    broker.create_topic("transacted")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "awaited"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("transacted", "v")
    producer.flush(10)
    ongoing = broker.wait_for_transaction("awaited", "Ongoing")
    assert ongoing["partitions"] == ["transacted-0"]
    step = meanwhile(lambda: producer.commit_transaction(10))
    assert broker.wait_for_transaction("awaited", "CompleteCommit")["producer_id"] == ongoing["producer_id"]
    step.join()


def test_records_are_as_they_should_be_or_the_difference_is_told(broker: KafkaBroker) -> None:
    broker.create_topic("asserted")
    broker.produce("asserted", [("k", "1"), ("k", "2"), ("k", "3")])
    assert len(broker.assert_records("asserted", ["1", "2", "3"])) == 3
    broker.assert_records("asserted", [("k", "1"), {"value": "2"}, ("k", b"3")])
    with pytest.raises(NotSo) as different:
        broker.assert_records("asserted", ["1", "3", "4"])
    assert str(different.value).splitlines() == [
        "topic asserted: 3 records, expected 3 (- is missing, + is too much)",
        "  value b'1'",
        "+ value b'2'",
        "  value b'3'",
        "- value b'4'",
    ]
    with pytest.raises(NotSo, match="3 records, expected 2"):
        broker.assert_records("asserted", ["1", "2"])
    with pytest.raises(NotSo, match="- key b'other'"):
        broker.assert_records("asserted", [("k", "1"), ("other", "2"), ("k", "3")])


def test_records_of_several_partitions_have_no_order_among_them(broker: KafkaBroker) -> None:
    broker.create_topic("unordered", partitions=2)
    broker.produce("unordered", [{"value": str(n), "partition": n % 2} for n in range(4)])
    broker.assert_records("unordered", ["3", "2", "1", "0"])
    with pytest.raises(NotSo) as different:
        broker.assert_records("unordered", ["3", "2", "1", "1"])
    assert str(different.value).splitlines()[1:] == ["- value b'1'", "+ 0@0 value b'0'"]


def test_records_may_have_time_to_come(broker: KafkaBroker) -> None:
    broker.create_topic("coming")
    step = meanwhile(lambda: broker.produce("coming", ["1"]))
    broker.assert_records("coming", ["1"], timeout=10)
    step.join()


def test_nothing_more_comes_or_it_is_shown(broker: KafkaBroker) -> None:
    broker.create_topic("quiet")
    broker.produce("quiet", ["before"])
    broker.assert_no_more("quiet", within_ms=50)
    step = meanwhile(lambda: broker.produce("quiet", ["after"]))
    with pytest.raises(NotSo, match=r"got 1 more records within 10000 ms\n  0@1 None: 'after'"):
        broker.assert_no_more("quiet", within_ms=10_000)
    step.join()


def test_a_wait_whose_client_has_gone_is_given_up(broker: KafkaBroker) -> None:
    body = {"topic": "never", "n": 1, "timeout_ms": 60_000}
    with pytest.raises(TimeoutError):
        broker.control.call("POST", "/waits/records", body, timeout_s=0.2)
    assert broker.control.call("GET", "/healthz") == {"status": "ok"}
