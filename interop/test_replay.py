"""Recordings of this broker played against Apache Kafka, which has no control API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.kafka_cluster import THEIRS
from interop.kafka_cluster import KafkaCluster as ClusterOfKafkas
from interop.real_kafka import RealKafka
from pykafka_broker.cli import main
from pykafka_broker.testing import KafkaBroker, KafkaCluster

pytestmark = pytest.mark.ours_only


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealKafka]:
    kafka = RealKafka()
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.stop()


def buy(broker: KafkaBroker | KafkaCluster, name: str, transactional: bool) -> None:
    """Run an application that reads five orders, writes their bills and commits."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop"}
    producer = Producer({**settings, **({"transactional.id": name} if transactional else {})})
    consumer = Consumer({**settings, "group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([f"{name}-orders"])
    if transactional:
        producer.init_transactions(60)
    for _ in range(5):
        order = consumer.poll(60)
        assert order is not None
        assert order.error() is None
        if transactional:
            producer.begin_transaction()
        producer.produce(f"{name}-billed", b"paid", key=order.key(), partition=0)
        if transactional:
            producer.commit_transaction(60)
        assert producer.flush(60) == 0
        consumer.commit(message=order, asynchronous=False)
    consumer.close()


@pytest.mark.parametrize(
    "transactional",
    [pytest.param(False, id="plain", marks=pytest.mark.slow), pytest.param(True, id="transactional")],
)
def test_kafka_answers_the_same(
    kafka: RealKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str], transactional: bool
) -> None:
    path, name = tmp_path / "run.jsonl", "transactional" if transactional else "plain"
    with KafkaBroker() as broker:
        broker.create_topic(f"{name}-orders", 1, {"cleanup.policy": "compact"})
        broker.produce(f"{name}-orders", [(f"order-{number}", "{}") for number in range(3)])
        broker.start_recording()
        broker.create_topic(f"{name}-billed")
        broker.produce(f"{name}-orders", [("order-3", "{}"), ("order-4", "{}")])
        broker.clock.advance(seconds=1)
        broker.faults.add(api="Produce", client_id="shop", nth=2, error="NOT_LEADER_OR_FOLLOWER")
        buy(broker, name, transactional)
        broker.save_recording(path)
    code = main(["replay", str(path), "--to", kafka.bootstrap_servers, "--all"])
    told = capsys.readouterr().out
    assert code == 0, told
    left_out, summary = told.splitlines()
    assert left_out == (
        "not done there, as it has no control API: add_fault, advance_clock; 1 answer that met a fault is not compared"
    )
    assert summary.endswith("requests played, all answered as recorded")


def test_what_kafka_answers_otherwise_is_told(
    kafka: RealKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replaying names the answers in which Kafka differs: here the topic exists already, with one partition."""
    path = tmp_path / "taken.jsonl"
    with KafkaBroker() as broker:
        broker.start_recording()
        broker.create_topic("taken", partitions=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop"})
        producer.produce("taken", b"1", partition=1)
        assert producer.flush(60) == 0
        broker.save_recording(path)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic("taken", 1, 1)])["taken"].result(60)
    assert main(["replay", str(path), "--to", kafka.bootstrap_servers]) == 3
    first, left_out, summary = capsys.readouterr().out.splitlines()
    assert first.endswith("recorded at topics[0].partitions 2 of them, now 1")
    assert left_out == "not done there, as it has no control API: create_topic"
    assert "answered otherwise" in summary


def test_a_cluster_of_kafkas_answers_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster of Kafka's answers as recorded: replaying moves partitions and coordinators to the recorded brokers."""
    path = tmp_path / "cluster.jsonl"
    with KafkaCluster(2) as cluster:
        for name in ("shop-orders", "shop-billed"):
            cluster.create_topic(name, 1)
            cluster.move_leader(name, cluster.leader_of(name) % 2 + 1)
        cluster.produce("shop-orders", [(f"order-{number}", "{}") for number in range(3)])
        cluster.start_recording()
        cluster.create_topic("later", 2)
        cluster.move_leader("shop-billed", cluster.leader_of("shop-billed") % 2 + 1)
        cluster.produce("shop-orders", [("order-3", "{}"), ("order-4", "{}")])
        buy(cluster, "shop", True)
        cluster.save_recording(path)
    config = {
        "group.initial.rebalance.delay.ms": "0",
        **dict.fromkeys(("offsets.topic.num.partitions", "transaction.state.log.num.partitions"), "5"),
        **dict.fromkeys(("offsets.topic.replication.factor", "transaction.state.log.replication.factor"), "2"),
    }
    with ClusterOfKafkas(controllers=[THEIRS], brokers=[THEIRS, THEIRS], config=config) as kafkas:
        code = main(["replay", str(path), "--to", kafkas.brokers[1].address, "--all"])
    told, problems = capsys.readouterr()
    assert code == 0, told or problems
    assert told.splitlines()[-1].endswith("requests played, all answered as recorded")
    assert "not done there" not in told
