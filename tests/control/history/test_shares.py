"""Anomalies of share groups: found in made-up histories, and not in their harmless neighbours or with a real client."""

from __future__ import annotations

from time import monotonic

import pytest
from confluent_kafka import ShareConsumer

from pykafka_broker.cli import main
from pykafka_broker.testing import KafkaBroker
from tests.control.history.story import Story

PATIENCE_S = 30


@pytest.fixture
def story() -> Story:
    story = Story()
    story.produced(client="shop", records=3)
    story.acquired(0, 2)
    return story


def test_a_record_that_is_released_or_whose_lock_expires_comes_again(story: Story) -> None:
    story.acknowledged(0, 2, 1, 2, 3)
    story.acquired(1, 1, member="two", deliveries=2)
    story.acquired(1, 1, member="one", deliveries=3)
    story.acknowledged(1, 1)
    assert story.found(seen_by="workers") == []


def test_an_accepted_record_that_is_accepted_again_was_acknowledged_twice(story: Story) -> None:
    story.acknowledged(0, 2)
    story.acknowledged(1, 1, member="two")
    (found,) = story.found()
    assert found.lines == [
        "acknowledged twice: orders-0@1 was acknowledged twice in share group workers",
        "  orders-0@1 was produced at 00:00:00.000 by shop (shop:1)",
        "  delivered at 00:00:00.001 to one (one:1)",
        "  accepted at 00:00:00.002 by one (one:1)",
        "  accepted at 00:00:00.003 by two (two:1)",
    ]


def test_an_acknowledgement_that_was_refused_counts_for_nothing(story: Story) -> None:
    story.acknowledged(0, 2, error="INVALID_RECORD_STATE")
    story.acquired(0, 2, member="two", deliveries=2)
    story.acknowledged(0, 2, member="two")
    story.acknowledged(0, 2, error="INVALID_RECORD_STATE")
    assert story.found() == []


def test_a_rejected_record_that_comes_again_has_lost_its_acknowledgement(story: Story) -> None:
    story.acknowledged(0, 2, 1, 1, 3)
    story.acquired(2, 2, member="two", deliveries=1)
    (found,) = story.found()
    assert found.anomaly == "acknowledgement lost"
    assert found.text == (
        "orders-0@2 was delivered again in share group workers at 00:00:00.003 to two (two:1), "
        "and had been acknowledged"
    )
    assert found.way[-1] == "rejected at 00:00:00.002 by one (one:1)"


def test_another_group_and_a_group_that_begins_anew_get_everything(story: Story) -> None:
    story.acknowledged(0, 2)
    story.acquired(0, 2, group="others")
    story.group_reset()
    story.acquired(0, 2)
    story.acknowledged(0, 2)
    assert story.found() == []


def test_what_a_share_group_was_never_given_is_unseen(story: Story) -> None:
    story.produced()
    assert [each.offset for each in story.found(seen_by="workers")] == [3]


def take(broker: KafkaBroker, name: str, count: int) -> None:
    settings = {"group.id": "workers", "client.id": name, "share.acknowledgement.mode": "explicit"}
    consumer = ShareConsumer({**broker.client_config("confluent"), **settings})
    consumer.subscribe(["orders"])
    taken, until = 0, monotonic() + PATIENCE_S
    while taken < count:
        assert monotonic() < until
        for message in consumer.poll(1):
            assert message.error() is None
            consumer.acknowledge(message)
            taken += 1
        consumer.commit_sync(PATIENCE_S)
    consumer.close()


def test_a_real_share_group_is_not_accused(broker: KafkaBroker) -> None:
    broker.create_topic("orders")
    begin = ("--alter", "--entity-type", "groups", "--entity-name", "workers", "--add-config")
    assert (
        main(["configs", "--bootstrap-server", broker.bootstrap_servers, *begin, "share.auto.offset.reset=earliest"])
        == 0
    )
    broker.produce("orders", [str(number) for number in range(5)])
    take(broker, "one", 5)
    broker.produce("orders", ["5"])
    take(broker, "two", 1)
    kinds = [row["kind"] for row in broker._histories()[0]]
    assert {"acquired", "acknowledged"} <= set(kinds)
    broker.check(seen_by="workers")
