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
        ("librdkafka", "bootstrap.servers"),
    ],
)
def test_each_client_has_its_own_word(client: str, name: str) -> None:
    assert client_settings(client, "h:1") == {name: "h:1"}


def test_another_client_is_refused() -> None:
    with pytest.raises(ValueError, match="flink is not known; it must be one of confluent"):
        client_settings("flink", "h:1")
