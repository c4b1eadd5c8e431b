"""Brokers of ours and of Apache Kafka in one cluster, under a controller of either.

Rule: whatever is killed, stopped or moved, what was acknowledged is read, once and in order, and replicas are the same
bytes.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, TopicPartition

from interop.cluster_clients import admin_at, create, leaders, partitions_of
from interop.cluster_load import PATIENCE_S, REPLICATED, Load, TransactionalLoad, all_in_sync
from interop.java_tools import JavaTools
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster, Kind
from interop.replica_sequences import told
from interop.waiting import eventually
from pykafka_broker.broker.coordinators.coordinator_log import partition_for

pytestmark = [pytest.mark.java, pytest.mark.ours_only]

ALL = {1, 2, 3}
THEIR_BROKER = 2
KILLED, KILLED_TRANSACTIONS = "killed", "killed-transactions"


@pytest.fixture(scope="module", params=[THEIRS, OURS], ids=["their controller", "our controller"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    kind: Kind = request.param
    config = {**REPLICATED, "broker.session.timeout.ms": "4000"}
    directory = tmp_path_factory.mktemp(kind.name)
    with KafkaCluster(directory, controllers=[kind], brokers=[OURS, THEIRS, OURS], config=config) as running:
        yield running


@pytest.fixture(autouse=True)
def whole_again(cluster: KafkaCluster) -> None:
    cluster.make_whole()


def leading(address: str, topic: str) -> set[int]:
    """Return the leaders of a topic's partitions, as the broker at an address names them; -1 for none."""
    return set(leaders(address, topic))


def names_any(address: str, topic: str, node_ids: set[int]) -> bool:
    """Return whether the broker at an address names one of these nodes as a leader."""
    return not node_ids.isdisjoint(leading(address, topic))


def make(cluster: KafkaCluster, topic: str) -> None:
    """Create a topic of three partitions, each with a replica on every broker, and wait until each broker leads one."""
    create(cluster.bootstrap_servers, topic, 3, 3, min_insync_replicas="2", segment_bytes="1048576")
    all_in_sync(cluster.bootstrap_servers, topic, ALL)
    for node in cluster.brokers:  # each broker hears of the leaders in its own time
        eventually(partial(leading, node.address, topic), ALL, PATIENCE_S)


def led_by_others(cluster: KafkaCluster, topic: str, gone: int) -> None:
    """Wait until no running broker sends clients to the broker that is gone."""
    for node in cluster.brokers:
        if node.id != gone:
            eventually(partial(names_any, node.address, topic, {gone, -1}), False, PATIENCE_S)


def check(cluster: KafkaCluster, load: Load) -> None:
    """Check that everything acknowledged is there; a failure shows the breaks in the replicas' sequence numbers."""
    try:
        load.check()
    except AssertionError as error:
        error.add_note(told(cluster, load.topic))
        raise


def test_a_rolling_restart_is_not_noticed(cluster: KafkaCluster) -> None:
    make(cluster, "rolled")
    make(cluster, "rolled-transactions")
    with (
        Load(cluster.bootstrap_servers, "rolled", 3) as load,
        TransactionalLoad(cluster.bootstrap_servers, "rolled-transactions", 3) as transactions,
    ):
        for node in cluster.brokers:
            load.wait_for(20)
            node.restart()
            all_in_sync(cluster.bootstrap_servers, "rolled", ALL)
            all_in_sync(cluster.bootstrap_servers, "rolled-transactions", ALL)
        load.wait_for(20)
        transactions.wait_for(3)
    check(cluster, load)
    check(cluster, transactions)


def test_a_topic_moves_from_theirs_to_ours_and_back_while_it_is_written(
    cluster: KafkaCluster, java: JavaTools, tmp_path: Path
) -> None:
    create(cluster.bootstrap_servers, "moved", 2, 1, min_insync_replicas="1")
    with Load(cluster.bootstrap_servers, "moved", 2) as load:
        for homes in ([THEIR_BROKER], [1], [THEIR_BROKER], [3, 1], [THEIR_BROKER, 3]):
            reassign(cluster, java, tmp_path, "moved", 2, homes)
            load.wait_for(20)
    check(cluster, load)
    names = ("moved-0", "moved-1")
    for node in cluster.brokers:  # each deletes its old replicas in its own time
        folders = {name: node.directory / "data-0" / name for name in names}
        kept = list(names) if node.id in (THEIR_BROKER, 3) else []
        eventually(partial(present, folders), kept, PATIENCE_S)


def present(folders: dict[str, Path]) -> list[str]:
    return [name for name, folder in folders.items() if folder.exists()]


def reassign(
    cluster: KafkaCluster, java: JavaTools, directory: Path, topic: str, partitions: int, homes: list[int]
) -> None:
    plan = directory / "plan.json"
    moves = [{"topic": topic, "partition": number, "replicas": homes} for number in range(partitions)]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    asked = ("--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(plan))
    begun = java.run("kafka-reassign-partitions", *asked, "--execute", "--throttle", "50000000")
    assert begun.status == 0, begun.out + begun.err
    moved = dict.fromkeys(range(partitions), homes)
    for node in cluster.brokers:  # the tool asks any broker for the replicas, and each hears of them in its own time
        eventually(partial(replicas_of, node.address, topic), moved, PATIENCE_S)
    verified = java.run("kafka-reassign-partitions", *asked, "--verify")
    assert verified.out.count("is completed") == partitions, verified.out + verified.err


def replicas_of(address: str, topic: str) -> dict[int, list[int]]:
    return {number: list(each.replicas) for number, each in partitions_of(address, topic).items()}


def group_of(cluster: KafkaCluster, coordinator: int, name: str) -> str:
    """Return a group whose name begins so, and that this broker coordinates."""
    count = int(REPLICATED["offsets.topic.num.partitions"])
    ensure = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "first"})
    eventually(lambda: asks(ensure, KILLED), True, PATIENCE_S)
    ensure.close()
    admin = admin_at(cluster.bootstrap_servers)
    admin.elect_leaders(ElectionType.PREFERRED).result(PATIENCE_S)  # a broker that was killed before has lost all
    for node in cluster.brokers:
        eventually(partial(names_any, node.address, "__consumer_offsets", {coordinator}), True, PATIENCE_S)
    led = leaders(cluster.broker(coordinator).address, "__consumer_offsets").index(coordinator)
    return next(group for group in (f"{name}-{each}" for each in range(1000)) if partition_for(group, count) == led)


def asks(consumer: Consumer, topic: str) -> bool:
    """Ask for committed offsets, which creates the offsets topic; return whether that succeeds."""
    try:
        consumer.committed([TopicPartition(topic, 0)], timeout=5)
    except KafkaException:
        return False
    return True


class Readers:
    """Two members of a group, which commit as they go. After a failover records may be seen again; none is left out."""

    def __init__(self, cluster: KafkaCluster, topic: str, group: str, protocol: str) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            "log_level": 0,
        }
        self.seen: dict[int, dict[bytes, None]] = {}
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(settings, topic), daemon=True) for _ in range(2)]

    def _read(self, settings: dict[str, Any], topic: str) -> None:
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        while not self._stopped.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.seen.setdefault(message.partition() or 0, {})[message.value() or b""] = None
        consumer.close()

    def wait_for(self, more: int) -> None:
        wanted = self._count() + more
        eventually(lambda: self._count() >= wanted, True, PATIENCE_S)

    def wait_until(self, written: dict[int, list[bytes]]) -> None:
        """Wait until every written value is seen; check that each partition's values were first seen in their order."""
        eventually(self._count, sum(map(len, written.values())), PATIENCE_S)
        assert {partition: list(values) for partition, values in sorted(self.seen.items())} == written

    def _count(self) -> int:
        return sum(len(values) for values in list(self.seen.values()))

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)


def test_brokers_are_killed_in_turn(cluster: KafkaCluster, slow: bool) -> None:
    """Nothing is lost, groups go on when their coordinator dies, and in the end replicas are the same bytes."""
    for topic in (KILLED, KILLED_TRANSACTIONS):
        make(cluster, topic)
    compressed = {"compression.type": "lz4"}
    protocols = ("consumer", "classic") if slow else ("consumer",)
    coordinators = {THEIR_BROKER: "theirs", 1: "ours"}
    with ExitStack() as stack:
        groups = [
            stack.enter_context(Readers(cluster, KILLED, group_of(cluster, broker, f"{protocol}-{name}"), protocol))
            for broker, name in coordinators.items()
            for protocol in protocols
        ]
        with (
            Load(cluster.bootstrap_servers, KILLED, 3, **compressed) as load,
            TransactionalLoad(cluster.bootstrap_servers, KILLED_TRANSACTIONS, 3) as transactions,
        ):
            for victim in (1, THEIR_BROKER, 3, *([THEIR_BROKER] if slow else [])):
                go_on(load, transactions, groups)
                cluster.broker(victim).kill()
                for topic in (KILLED, KILLED_TRANSACTIONS):
                    led_by_others(cluster, topic, victim)
                go_on(load, transactions, groups)
                cluster.broker(victim).start()
                for topic in (KILLED, KILLED_TRANSACTIONS):
                    all_in_sync(cluster.bootstrap_servers, topic, ALL)
            go_on(load, transactions, groups)
        for readers in groups:
            readers.wait_until(load.done)
    check(cluster, load)
    check(cluster, transactions)
    kept = (KILLED, KILLED_TRANSACTIONS, "__transaction_state")
    for topic in kept:
        cluster.wait_until_equal(topic, 3)
    cluster.stop()
    for topic in kept:
        for partition in range(3):
            ours, theirs, others = (node.replica_bytes(topic, partition) for node in cluster.brokers)
            assert ours == theirs == others, f"{topic}-{partition}: {len(ours)} {len(theirs)} {len(others)} bytes"
            assert ours or topic.startswith("__")


def go_on(load: Load, transactions: TransactionalLoad, groups: list[Readers]) -> None:
    """Wait until the load, the transactions and the groups have made progress."""
    load.wait_for(50)
    transactions.wait_for(5)
    for readers in groups:
        readers.wait_for(150)
