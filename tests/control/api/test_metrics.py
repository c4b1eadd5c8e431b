"""The metrics that Prometheus scrapes."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from pykafka_broker.testing import KafkaBroker
from tests.control.raw_client import raw_client
from tests.control.test_deadlines import fetch

Labels = tuple[tuple[str, str], ...]


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


class Metrics:
    """The broker's metrics at one moment."""

    def __init__(self, broker: KafkaBroker) -> None:
        with urllib.request.urlopen(f"{broker.control_url}/metrics") as answer:
            self.type = answer.headers["content-type"]
            families = text_string_to_metric_families(answer.read().decode())
        samples = [sample for family in families for sample in family.samples]
        self._values = {(each.name, tuple(sorted(each.labels.items()))): each.value for each in samples}

    def __call__(self, name: str, **labels: object) -> float | None:
        return self._values.get((name, tuple(sorted((key, str(value)) for key, value in labels.items()))))


def test_traffic_is_counted_by_topic(broker: KafkaBroker) -> None:
    broker.create_topic("counted", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50})
    for number in range(10):
        producer.produce("counted", b"x" * 10, partition=number % 2)
    producer.produce("counted", b"y" * 100_000, partition=0)
    assert producer.flush(60) == 0
    first = Metrics(broker)
    assert first("kafka_server_brokertopicmetrics_messagesin_total", topic="counted") == 11
    size = sum(first("kafka_log_log_size", topic="counted", partition=number) or 0 for number in (0, 1))
    assert first("kafka_server_brokertopicmetrics_bytesin_total", topic="counted") == size > 100_000
    with raw_client(broker) as client:
        client.ask(fetch("counted"), 12)
    second = Metrics(broker)
    read = first("kafka_log_log_size", topic="counted", partition=0)
    assert second("kafka_server_brokertopicmetrics_bytesout_total", topic="counted") == read
    assert second("kafka_server_brokertopicmetrics_messagesin_total", topic="counted") == 11


def test_requests_are_counted_by_api_and_version_with_their_errors(broker: KafkaBroker) -> None:
    broker.create_topic("asked")
    before = Metrics(broker)
    with raw_client(broker) as client:
        for topic in ("asked", "asked", "nowhere"):
            client.ask(fetch(topic), 11)
    after = Metrics(broker)

    def came(name: str, **labels: object) -> float:
        return (after(name, **labels) or 0) - (before(name, **labels) or 0)

    assert came("kafka_network_requestmetrics_requests_total", request="Fetch", version=11) == 3
    assert came("kafka_network_requestmetrics_totaltimems_count", request="Fetch", version=11) == 3
    assert came("kafka_network_requestmetrics_totaltimems_sum", request="Fetch", version=11) > 0
    assert (
        came(
            "kafka_network_requestmetrics_errors_total", request="Fetch", version=11, error="UNKNOWN_TOPIC_OR_PARTITION"
        )
        == 1
    )
    assert came("kafka_network_requestmetrics_errors_total", request="Fetch", version=11, error="NONE") == 2


def test_groups_are_told_with_their_lag(broker: KafkaBroker) -> None:
    broker.create_topic("lagging")
    broker.produce("lagging", ["1", "2", "3"])
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["lagging"])
    message = consumer.poll(60)
    assert message is not None
    consumer.commit(message=message, asynchronous=False)
    told = Metrics(broker)
    assert told("kafka_consumergroup_lag", consumergroup="g", topic="lagging", partition=0) == 2
    assert told("kafka_consumergroup_current_offset", consumergroup="g", topic="lagging", partition=0) == 1
    assert told("kafka_consumergroup_members", consumergroup="g") == 1
    assert told("kafka_coordinator_group_groupmetadatamanager_groups", state="Stable") == 1
    assert (told("kafka_server_socket_server_metrics_connection_count", listener="PLAINTEXT") or 0) >= 2
    consumer.close()


def test_the_state_of_the_broker_is_told(broker: KafkaBroker) -> None:
    broker.create_topic("told", partitions=3)
    with raw_client(broker) as client:
        client.send(fetch("told", max_wait_ms=60_000), 12)
        broker.wait_for_request(api="Fetch", topic="told")
        told = Metrics(broker)
    assert told.type.startswith("text/plain")
    assert (told("kafka_server_delayedoperationpurgatory_purgatorysize") or 0) >= 1
    assert told("kafka_controller_kafkacontroller_globaltopiccount") == len(broker.topics(internal=True))
    assert told("kafka_log_logcleanermanager_uncleanable_partitions_count") == 0
    delay = told("pykafka_broker_event_loop_delay_seconds")
    assert delay is not None
    assert 0 <= delay < 10
