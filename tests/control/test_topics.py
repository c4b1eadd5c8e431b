"""Topics by the control API."""

from __future__ import annotations

import pytest

from pykafka_broker.testing import ControlError, KafkaBroker


def test_a_topic_is_made_looked_at_and_deleted(broker: KafkaBroker) -> None:
    made = broker.create_topic("made", partitions=3, config={"retention.ms": 1000, "preallocate": True})
    assert made == broker.topic("made")
    assert (made["name"], made["partitions"], made["internal"]) == ("made", 3, False)
    assert made["config"] == {"retention.ms": "1000", "preallocate": "true"}
    assert [each["name"] for each in broker.topics()].count("made") == 1
    broker.delete_topic("made")
    with pytest.raises(ControlError, match="UNKNOWN_TOPIC_OR_PARTITION") as refused:
        broker.topic("made")
    assert (refused.value.status, refused.value.code) == (404, "UNKNOWN_TOPIC_OR_PARTITION")


def test_what_kafka_refuses_is_told_in_its_words(broker: KafkaBroker) -> None:
    broker.create_topic("twice")
    with pytest.raises(ControlError, match="Topic 'twice' already exists") as refused:
        broker.create_topic("twice")
    assert refused.value.status == 409
    with pytest.raises(ControlError, match=r"Unknown topic config name: no\.such"):
        broker.create_topic("odd", config={"no.such": 1})
    with pytest.raises(ControlError, match="INVALID_TOPIC_EXCEPTION"):
        broker.create_topic("a b")
    with pytest.raises(ControlError, match="partitions must be at least 1"):
        broker.create_topic("none", partitions=0)
