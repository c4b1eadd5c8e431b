"""What is handed to a client is what it takes."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from pykafka_broker.testing import KafkaBroker, RemoteBroker
from pykafka_broker.testing.client_settings import client_settings


def test_clients_reach_the_broker_with_it() -> None:
    with KafkaBroker() as broker:
        assert (
            broker.get_bootstrap_server()
            == broker.bootstrap_servers
            == RemoteBroker(broker.control_url).get_bootstrap_server()
        )
        producer = Producer(broker.client_config("confluent"))
        producer.produce("t", "1")
        assert producer.flush(10) == 0
        with_kafka_python = KafkaProducer(**broker.client_config("kafka-python"))
        with_kafka_python.send("t", b"2").get(10)
        with_kafka_python.close()
        assert [each.value for each in broker.records("t")] == ["1", "2"]


@pytest.mark.parametrize(
    ("client", "name"),
    [
        ("java", "bootstrap.servers"),
        ("aiokafka", "bootstrap_servers"),
        ("spark", "kafka.bootstrap.servers"),
    ],
)
def test_each_client_has_its_own_word(client: str, name: str) -> None:
    assert client_settings(client, "h:1") == {name: "h:1"}


@pytest.mark.parametrize("client", ["confluent", "confluent-kafka", "librdkafka"])
def test_librdkafka_keeps_its_only_broker_where_it_can_be_told_to(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"bootstrap.servers": "h:1"}
    assert client_settings(client, "h:1") == settings | {"metadata.recovery.strategy": "none"}
    Producer(client_settings(client, "127.0.0.1:1"))  # raises for a setting that it does not know
    monkeypatch.setattr("confluent_kafka.libversion", lambda: ("2.8.0", 0x020800FF))
    assert client_settings(client, "h:1") == settings
    monkeypatch.setattr("pykafka_broker.testing.client_settings.find_spec", lambda name: None)
    assert client_settings(client, "h:1") == settings


def test_another_client_is_refused() -> None:
    with pytest.raises(ValueError, match="flink is not known; it must be one of confluent"):
        client_settings("flink", "h:1")
