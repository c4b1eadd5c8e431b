"""Cycles of transactions: found in made-up histories, and not where transactions come one after the other."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from pykafka_broker.testing import KafkaBroker
from tests.control.history.story import Story

TOPICS = {"a": 1, "b": 2}


def write(story: Story, topic: str, name: str, sequence: int = 0) -> int:
    numbers: Any = {"producer_id": TOPICS[name], "epoch": 0, "sequence": sequence}
    return story.produced(topic, client=name, address=f"{name}:1", outcome="committed", **numbers).offset


def read(story: Story, topic: str, name: str, first: int, end: int) -> None:
    story.fetched(first, end, topic, client=name)
    story.committed(end, topic, group=name, client=name, producer_id=TOPICS[name])


def end(story: Story, name: str, *topics: str) -> None:
    story.ended(TOPICS[name], commit=True, client=name, name=name)
    for topic in topics:
        story.store(topic, producer_id=TOPICS[name], epoch=0, outcome="commit")


@pytest.fixture
def story() -> Story:
    return Story()


def test_writes_in_opposite_orders_are_a_write_cycle_if_that_is_forbidden(story: Story) -> None:
    write(story, "left", "a")
    write(story, "left", "b")
    write(story, "right", "b")
    write(story, "right", "a")
    end(story, "a", "left", "right")
    end(story, "b", "left", "right")
    assert story.found() == []
    (found,) = story.found(forbid=["write cycle"])
    assert found.text == (
        "2 transactions follow each other in a circle: a (00:00:00.004) -> b (00:00:00.005) -> a (00:00:00.004)"
    )
    assert found.way == [
        "b (00:00:00.005) wrote left-0@1 behind left-0@0 of a (00:00:00.004)",
        "a (00:00:00.004) wrote right-0@1 behind right-0@0 of b (00:00:00.005)",
    ]


def test_an_end_that_was_refused_ends_nothing(story: Story) -> None:
    write(story, "left", "a")
    write(story, "left", "b")
    story.ended(TOPICS["a"], commit=True, client="a", name="a").error = "COORDINATOR_LOAD_IN_PROGRESS"
    write(story, "right", "b")
    write(story, "right", "a", sequence=1)
    end(story, "a", "left", "right")
    end(story, "b", "left", "right")
    assert story.kinds(forbid=["write cycle"]) == ["write cycle"]


def test_a_transaction_may_read_itself_in_a_circle(story: Story) -> None:
    write(story, "left", "a")
    write(story, "right", "b")
    read(story, "left", "a", 0, 1)
    read(story, "right", "a", 0, 1)
    read(story, "left", "b", 0, 1)
    end(story, "a", "left")
    end(story, "b", "right")
    (found,) = story.found()
    assert len(found.way) == 2


def test_a_group_begins_in_each_partition_where_it_fetches_first(story: Story) -> None:
    write(story, "left", "a")
    write(story, "right", "b")
    story.produced("left")
    story.produced("other")
    story.fetched(0, 1, "other", client="b")
    read(story, "left", "b", 1, 2)
    read(story, "right", "a", 0, 1)
    end(story, "a", "left")
    end(story, "b", "right")
    assert story.kinds() == []


def test_writes_in_the_same_order_are_none(story: Story) -> None:
    for name in TOPICS:
        write(story, "left", name)
        write(story, "right", name)
    for name in TOPICS:
        end(story, name, "left", "right")
    assert story.found(forbid=["write cycle"]) == []


def test_writes_between_each_other_in_one_partition_are_a_write_cycle(story: Story) -> None:
    write(story, "left", "a")
    write(story, "left", "b")
    write(story, "left", "a", sequence=1)
    end(story, "a", "left")
    end(story, "b", "left")
    assert story.kinds(forbid=["write cycle"]) == ["write cycle"]


def test_transactions_that_read_each_other_are_a_circular_flow(story: Story) -> None:
    write(story, "left", "a")
    write(story, "right", "b")
    read(story, "right", "a", 0, 1)
    read(story, "left", "b", 0, 1)
    end(story, "a", "left")
    end(story, "b", "right")
    (found,) = story.found()
    assert found.anomaly == "circular information flow"
    assert found.way == [
        "a (00:00:00.006) read right-0@0 of b (00:00:00.007)",
        "b (00:00:00.007) read left-0@0 of a (00:00:00.006)",
    ]


def test_a_transaction_that_reads_what_an_ended_one_wrote_is_right(story: Story) -> None:
    write(story, "left", "a")
    end(story, "a", "left")
    write(story, "right", "b")
    read(story, "left", "b", 0, 2)
    end(story, "b", "right")
    read(story, "right", "a", 0, 2)
    write(story, "left", "a", sequence=1)
    end(story, "a", "left")
    assert story.found() == []
    assert story.found(forbid=["write cycle"]) == []


def test_a_write_before_and_a_read_after_are_a_flow_if_write_cycles_are_forbidden(story: Story) -> None:
    """Transaction a writes, b writes behind it and commits, and a reads a record of b."""
    write(story, "left", "a")
    write(story, "left", "b")
    write(story, "right", "b")
    end(story, "b", "left", "right")
    read(story, "right", "a", 0, 2)
    end(story, "a", "left")
    assert story.found() == []
    assert story.kinds(forbid=["write cycle"]) == ["circular information flow"]


def test_an_aborted_transaction_is_in_no_cycle(story: Story) -> None:
    for topic in ("left", "right"):
        write(story, topic, "a")
    numbers: Any = {"producer_id": 2, "epoch": 0, "sequence": 0}
    story.produced("left", client="b", outcome="aborted", **numbers)
    end(story, "a", "left", "right")
    story.ended(2, commit=False, client="b", name="b")
    assert story.found(forbid=["write cycle"]) == []


def test_a_batch_whose_transaction_is_not_certain_is_left_out(story: Story) -> None:
    """At two brokers within a millisecond, so that nobody knows what came first."""
    write(story, "left", "a")
    write(story, "left", "b")
    write(story, "right", "b")
    write(story, "right", "a")
    last = story.facts[-1]
    end(story, "a", "left", "right")
    end(story, "b", "left", "right")
    story.facts[-2].at, story.facts[-2].address = last.at, "a:2"
    assert story.kinds(forbid=["write cycle"]) == ["write cycle"]
    assert story.kinds(forbid=["write cycle"], in_order=False) == []


def test_a_knot_of_many_transactions_is_told_once_by_a_shortest_cycle(story: Story) -> None:
    """Twenty rounds of two producers, each pair of transactions in opposite orders."""
    for number in range(20):
        write(story, "left", "a", number)
        write(story, "left", "b", number)
        write(story, "right", "b", number)
        write(story, "right", "a", number)
        end(story, "a", "left", "right")
        end(story, "b", "left", "right")
    found = story.found(forbid=["write cycle"])
    assert [each.anomaly for each in found] == ["write cycle"] * 20
    assert {len(each.way) for each in found} == {2}


def test_real_transactions_in_opposite_orders(broker: KafkaBroker) -> None:
    for topic in ("left", "right"):
        broker.create_topic(topic)
    producers = []
    for name in TOPICS:
        settings = {"transactional.id": name, "client.id": name, "linger.ms": 0}
        producers.append(Producer({**broker.client_config("confluent"), **settings}))
        producers[-1].init_transactions()
    one, other = producers
    for round in range(2):  # in order, and in opposite orders
        for each in producers:
            each.begin_transaction()
        for topic, order in (("left", producers), ("right", producers if not round else (other, one))):
            for each in order:
                each.produce(topic, b"x", partition=0)
                assert each.flush(60) == 0
        for each in producers:
            each.commit_transaction()
        assert [each.anomaly for each in broker.check(forbid=["write cycle"], raises=False)] == ["write cycle"] * round
    broker.check()
