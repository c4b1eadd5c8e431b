"""Apache Kafka's brokers under our controller: they start, replicate, fail over, and end.

Rule: what is acknowledged is read, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.kafka_cluster import OURS, THEIRS, KafkaCluster
from interop.waiting import eventually

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {
        "offsets.topic.replication.factor": "2",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "3",
        "replica.lag.time.max.ms": "3000",
    }
    with KafkaCluster(controllers=[OURS], brokers=[THEIRS, THEIRS], config=config) as cluster:
        yield cluster


def admin(cluster: KafkaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def create(cluster: KafkaCluster, topic: str, partitions: int = 1, replicas: int = 2, **config: str) -> None:
    wanted = NewTopic(
        topic, partitions, replicas, config={key.replace("_", "."): value for key, value in config.items()}
    )
    client = admin(cluster)  # it lives as long as the answer is waited for
    client.create_topics([wanted])[topic].result(20)


def partitions(cluster: KafkaCluster, topic: str) -> dict[int, Any]:
    return dict(admin(cluster).list_topics(topic, timeout=10).topics[topic].partitions)


def produce(cluster: KafkaCluster, topic: str, values: list[str], **config: Any) -> list[str]:
    """Those that were acknowledged."""
    acknowledged: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, **config})
    for value in values:
        producer.produce(topic, value, on_delivery=_noting(acknowledged, value))
    assert producer.flush(60) == 0
    return acknowledged


def _noting(acknowledged: list[str], value: str) -> Callable[[Any, Any], None]:
    def note(error: Any, _: Any) -> None:
        if error is None:
            acknowledged.append(value)

    return note


def read(cluster: KafkaCluster, topic: str, count: int) -> list[str]:
    settings = {"group.id": f"readers of {topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    consumer.subscribe([topic])
    values: list[str] = []

    def enough() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
        return len(values) >= count

    try:
        eventually(enough, True, 60)
        assert consumer.poll(1) is None
    finally:
        consumer.close()
    return values


def test_brokers_of_kafka_replicate_and_fail_over(cluster: KafkaCluster) -> None:
    create(cluster, "t")
    values = [f"a{number}" for number in range(100)]
    assert produce(cluster, "t", values) == values
    eventually(lambda: sorted(partitions(cluster, "t")[0].isrs), [1, 2], 20)
    leader = partitions(cluster, "t")[0].leader
    cluster.broker(leader).kill()
    more = [f"b{number}" for number in range(100)]
    assert produce(cluster, "t", more) == more
    survivor = partitions(cluster, "t")[0]
    assert (survivor.leader, survivor.isrs) == (3 - leader, [3 - leader])
    cluster.broker(leader).start()
    eventually(lambda: sorted(partitions(cluster, "t")[0].isrs), [1, 2], 60)
    assert read(cluster, "t", 200) == values + more
