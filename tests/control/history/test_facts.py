"""Facts: rows and back, and what real clients' requests say in all their versions."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from pykafka_broker.control.history.facts import KINDS, fact_of, row_of
from pykafka_broker.protocol.messages.delete_groups_request import DeleteGroupsRequest
from pykafka_broker.testing import KafkaBroker
from tests.control.history.story import Story
from tests.control.raw_client import raw_client


def test_a_fact_is_a_row_and_back() -> None:
    story = Story()
    story.produced()
    story.fetched(0, 1)
    story.committed(1)
    story.located(3)
    story.registered(1, 0)
    story.ended(1, commit=True)
    story.acquired(0, 0)
    story.acknowledged(0, 0)
    story.group_reset()
    story.deleted()
    assert [fact_of(row_of(fact)) for fact in story.facts] == story.facts
    assert {fact.kind for fact in story.facts} | {"joined"} == set(KINDS)


@pytest.mark.parametrize("release", ["0.11", "1.1", "2.8", "3.9", None])
def test_requests_of_every_age_are_read(release: str | None) -> None:
    with KafkaBroker(history=True, emulate=release, in_process=True) as broker:
        broker.create_topic("t")
        settings: Any = broker.client_config("kafka-python")
        producer = KafkaProducer(**settings, client_id="app")
        for number in range(3):
            producer.send("t", str(number).encode(), key=b"k").get(30)
        producer.close()
        consumer = KafkaConsumer(
            "t",
            **settings,
            client_id="reader",
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        got = 0
        while got < 3:
            got += sum(map(len, consumer.poll(30_000).values()))
        consumer.commit()
        consumer.close()
        rows = broker._histories()[0]
        produced = [row for row in rows if row["kind"] == "produced"]
        assert [(row["topic"], row["offset"], row["count"], row["client"]) for row in produced] == [
            ("t", number, 1, "app") for number in range(3)
        ]
        assert [row["offset"] for row in rows if row["kind"] == "committed"][-1] == 3
        assert {row["client"] for row in rows if row["kind"] in ("fetched", "joined", "located")} == {"reader"}
        broker.check(seen_by="g")


def test_a_client_that_deletes_no_group_resets_none(broker: KafkaBroker) -> None:
    with raw_client(broker) as client:
        assert client.ask(DeleteGroupsRequest([]), 2).results == []
    assert broker._rows("facts")[2:] == []
    assert broker.check(empty_ok=True) == []
