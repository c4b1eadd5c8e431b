"""Clients that push their metrics: librdkafka, and the Java clients of Kafka itself (KIP-714)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from interop.java_tools import run_alone
from interop.waiting import eventually
from pykafka_broker.cli import main
from pykafka_broker.testing import KafkaBroker, KafkaCluster

pytestmark = pytest.mark.ours_only
INTERVAL_MS = 200
TELEMETRY = {"pykafka.telemetry": "true"}
WITHIN_S = 30.0


def subscribe(bootstrap_servers: str, *options: str) -> None:
    with redirect_stdout(StringIO()):
        assert (
            main(["client-metrics", "--bootstrap-server", bootstrap_servers, "--alter", "--name", "m", *options]) == 0
        )


@pytest.fixture
def telemetry_broker() -> Iterator[KafkaBroker]:
    """A broker that asks all clients for all metrics, five times a second."""
    with KafkaBroker(TELEMETRY) as broker:
        subscribe(broker.bootstrap_servers, "--metrics", "*", "--interval", str(INTERVAL_MS))
        broker.create_topic("orders")
        yield broker


def pushing(broker: KafkaBroker, client_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = broker.control.call("GET", "/telemetry", query={"client_id": client_id})
    return found


def pushes(broker: KafkaBroker, client_id: str) -> int:
    return sum(each["pushes"] for each in pushing(broker, client_id))


def test_librdkafka_pushes_until_it_closes(telemetry_broker: KafkaBroker) -> None:
    pytest.importorskip("opentelemetry.proto", reason="the extra `telemetry` is not installed")
    broker = telemetry_broker
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "client.id": "one", "enable.metrics.push": True}
    )
    producer.produce("orders", b"apples")
    producer.flush(WITHIN_S)
    eventually(lambda: pushes(broker, "one") > 2, True, WITHIN_S)
    (client,) = pushing(broker, "one")
    assert (client["software"].split()[0], client["connected"]) == ("confluent-kafka-python", True)
    values = {each["name"]: each["value"] for each in client["metrics"]}
    assert "org.apache.kafka.producer.connection.creation.total" in values
    named = 'kafka_client_producer_connection_creation_total{client_id="one"'
    assert named in broker.metrics()
    producer.close()
    eventually(lambda: pushing(broker, "one")[0]["terminating"], True, WITHIN_S)
    assert named not in broker.metrics()


def test_a_java_consumer_pushes_until_it_closes(telemetry_broker: KafkaBroker) -> None:
    pytest.importorskip("opentelemetry.proto", reason="the extra `telemetry` is not installed")
    broker = telemetry_broker
    broker.produce("orders", ["apples"])
    where = ["--bootstrap-server", broker.bootstrap_servers, "--topic", "orders", "--from-beginning"]
    until = ["--max-messages", "2", "--timeout-ms", "60000"]
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(
            run_alone, "kafka-console-consumer", *where, *until, "--command-property", "client.id=java"
        )
        try:
            eventually(lambda: pushes(broker, "java") > 2, True)
        finally:
            broker.produce("orders", ["pears"])  # the consumer ends with it
        read = reading.result()
    assert read.lines == ["apples", "pears"], read.err
    (client,) = pushing(broker, "java")
    assert client["software"].startswith("apache-kafka-java 4.")
    assert client["terminating"]
    assert client["pushes"] > 2
    assert any(each["name"].startswith("org.apache.kafka.consumer.") for each in client["metrics"])
    (seen, *_) = broker.requests("PushTelemetry", client_id="java", bodies=True)
    assert any(each["name"].startswith("org.apache.kafka.consumer.") for each in seen["request"]["metrics"])


def test_nothing_is_pushed_where_nothing_is_subscribed() -> None:
    with KafkaBroker(TELEMETRY) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "one"})
        producer.flush(WITHIN_S)
        broker.wait_for_request("GetTelemetrySubscriptions")
        producer.produce("orders", b"apples")
        producer.flush(WITHIN_S)
        producer.close()
        assert pushing(broker, "one") == []
        assert not broker.requests("PushTelemetry")


def test_nobody_asks_where_telemetry_is_not_offered() -> None:
    with KafkaBroker() as broker:
        subscribe(broker.bootstrap_servers, "--metrics", "*", "--interval", str(INTERVAL_MS))
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.list_topics(timeout=WITHIN_S)
        consumer.close()
        assert not broker.requests("GetTelemetrySubscriptions")


def test_every_broker_of_a_cluster_takes_the_pushes_of_a_client() -> None:
    """A client goes on pushing to another broker when its own stops, as the same client instance."""
    with KafkaCluster(3, config=TELEMETRY) as cluster:
        subscribe(cluster.bootstrap_servers, "--metrics", "*", "--interval", str(INTERVAL_MS))
        # A broker without the subscription would tell the client to ask again in five minutes.
        cluster.wait_for_metadata()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "one"})

        def takers() -> list[KafkaBroker]:
            producer.poll(0.05)
            return [each for each in cluster.brokers if each.running and pushes(each, "one") > 1]

        eventually(lambda: len(takers()) >= 1, True, WITHIN_S)
        (first, *_) = takers()
        before = pushing(first, "one")[0]["client_instance_id"]
        first.stop()
        eventually(lambda: len(takers()) >= 1, True, WITHIN_S)
        assert pushing(takers()[0], "one")[0]["client_instance_id"] == before
