"""Apache Kafka's brokers, and ours, under our controller: they start, replicate, fail over, and end.

Rule: what is acknowledged is read, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.kafka_cluster import OURS, THEIRS, KafkaCluster
from interop.waiting import eventually

pytestmark = pytest.mark.java


@pytest.fixture(scope="module", params=[(THEIRS, THEIRS), (OURS, OURS)], ids=["theirs", "ours"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    config = {
        "broker.session.timeout.ms": "6000",  # brokers that are only slow keep what they lead
        "offsets.topic.replication.factor": "2",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "3",
        "replica.lag.time.max.ms": "3000",
    }
    directory = tmp_path_factory.mktemp("cluster") / "nodes"
    with KafkaCluster(directory, controllers=[OURS], brokers=request.param, config=config) as cluster:
        yield cluster


def admin(cluster: KafkaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def create(cluster: KafkaCluster, topic: str, partitions: int = 1, replicas: int = 2, **config: str) -> None:
    wanted = NewTopic(
        topic, partitions, replicas, config={key.replace("_", "."): value for key, value in config.items()}
    )
    client = admin(cluster)  # the client must live as long as the answer is waited for
    client.create_topics([wanted])[topic].result(60)
    known = [AdminClient({"bootstrap.servers": node.address}) for node in cluster.brokers]
    eventually(
        lambda: {len(each.list_topics(topic, timeout=60).topics[topic].partitions) for each in known}, {partitions}
    )


def partitions(cluster: KafkaCluster, topic: str) -> dict[int, Any]:
    return dict(admin(cluster).list_topics(topic, timeout=60).topics[topic].partitions)


def produce(cluster: KafkaCluster, topic: str, values: list[str], **config: Any) -> list[str]:
    """Produce the values; return those that were acknowledged."""
    acknowledged: list[str] = []
    settings = {"enable.idempotence": True, "max.in.flight": 1}  # one request at a time: as `cluster_load.Load`
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings, **config})
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
            values.append((message.value() or b"").decode())
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
    eventually(lambda: sorted(partitions(cluster, "t")[0].isrs), [1, 2])
    leader = partitions(cluster, "t")[0].leader
    cluster.broker(leader).kill()
    more = [f"b{number}" for number in range(100)]
    assert produce(cluster, "t", more) == more
    survivor = partitions(cluster, "t")[0]
    assert (survivor.leader, survivor.isrs) == (3 - leader, [3 - leader])
    cluster.broker(leader).start()
    eventually(lambda: sorted(partitions(cluster, "t")[0].isrs), [1, 2], 60)
    assert read(cluster, "t", 200) == values + more


def test_a_broker_that_is_stopped_hands_over_first(cluster: KafkaCluster) -> None:
    create(cluster, "stopped", 4)
    eventually(lambda: [sorted(each.isrs) for each in partitions(cluster, "stopped").values()], [[1, 2]] * 4)
    # the exit code of a JVM shows that SIGTERM ended it
    assert cluster.broker(1).stop(60) == (143 if cluster.broker(1).kind is THEIRS else 0)
    assert [each.leader for each in partitions(cluster, "stopped").values()] == [2] * 4
    assert list((cluster.broker(1).directory / "data-0").glob(".kafka_cleanshutdown"))
    cluster.broker(1).start()
    eventually(lambda: [sorted(each.isrs) for each in partitions(cluster, "stopped").values()], [[1, 2]] * 4, 60)


def test_brokers_outlive_their_controller(cluster: KafkaCluster) -> None:
    create(cluster, "c")
    leader = partitions(cluster, "c")[0].leader
    values = [f"a{number}" for number in range(10)]
    assert produce(cluster, "c", values) == values
    cluster.controller(101).kill()
    more = [f"b{number}" for number in range(10)]
    # a broker that has no producer ids left gets none now, as under a controller of Kafka's
    assert produce(cluster, "c", more, **{"enable.idempotence": False}) == more
    time.sleep(7)  # longer than a session
    cluster.controller(101).start()
    create(cluster, "d")
    assert partitions(cluster, "c")[0].leader == leader
    assert "is fenced" not in cluster.controller(101).log.rpartition("listening on")[2]
    assert read(cluster, "c", 20) == values + more


def test_transactions_go_on_when_a_coordinator_dies(cluster: KafkaCluster) -> None:
    create(cluster, "x")
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": "tx",
        "transaction.timeout.ms": 300_000,  # a node starts within a transaction
    }
    producer = Producer(settings)
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce("x", f"v{number}")
        if number == 2:
            cluster.broker(1).kill()
        elif number == 4:
            cluster.broker(1).start()
        if number % 2:
            producer.flush(60)  # an abort before the first delivery is fatal: librdkafka's issue 4849
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    assert read(cluster, "x", 3) == ["v0", "v2", "v4"]
