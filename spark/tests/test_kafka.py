"""The driver's own client, against a real Kafka."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from interop.targets import start
from pipeline.kafka import Kafka
from pipeline.settings import Settings


@pytest.mark.java
def test_a_group_whose_coordinator_is_only_just_getting_ready() -> None:
    """The first question of a new cluster is about a group; librdkafka's admin client would end the process here."""
    with start("kafka") as broker:
        settings = Settings(bootstrap_servers=broker.bootstrap_servers, connect_timeout_s=30)
        kafka = Kafka(settings)
        kafka.ensure_topic("orders")
        assert kafka.committed("lag", "orders") == {}
        kafka.commit("lag", "orders", {0: 0})
        kafka.commit("lag", "orders", {2: 0})
        assert Kafka(settings).committed("lag", "orders") == {0: 0, 2: 0}


def test_a_topic_is_there_when_it_was_made(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a broker whose controller has made the topic before it knows of it."""
    kafka = Kafka(settings)
    before, ask = kafka._metadata(), kafka._metadata
    stale = iter([before] * 3)
    monkeypatch.setattr(kafka, "_metadata", lambda: next(stale, None) or ask())
    kafka.ensure_topic("late")
    assert kafka.partitions("late")
    assert next(stale, None) is None


def test_the_largest_message_is_kafkas_default_where_configs_may_not_be_asked_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = Kafka(settings)

    def refuse(_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    monkeypatch.setattr(kafka, "_retried", refuse)
    assert kafka.max_message_bytes("orders") == 1_048_588
