"""Brokers of ours and of Apache Kafka under three controllers of Kafka's, while the leader of the quorum and brokers of
either kind are killed, frozen and stopped in turn, and Java's own producers write.

Rule: as in test_cluster_mixed.py: what was acknowledged or committed is read, once and in order, and replicas are the
same bytes. Each victim once in the ordinary run; in the slow one in an order of chance, as long as `--chaos-minutes`
says.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interop.cluster_clients import create, quorum_told_by
from interop.cluster_load import PATIENCE_S, REPLICATED, TransactionalLoad, Writes, all_in_sync
from interop.java_load import JavaLoad, JavaTransactionalLoad
from interop.java_transactions import JavaClients
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster, Node

pytestmark = [pytest.mark.java, pytest.mark.ours_only]

ALL = {1, 2, 3}
OUR_BROKERS, THEIR_BROKER = (1, 3), 2
PARTITIONS = 3
SECONDS_BETWEEN_LOOKS = 0.2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path, controllers=[THEIRS] * 3, brokers=[OURS, THEIRS, OURS], config=REPLICATED) as running:
        yield running


class Turns:
    """Outages of one node after the other, while loads write."""

    def __init__(self, cluster: KafkaCluster, loads: list[Writes], seed: int) -> None:
        self._cluster, self._loads = cluster, loads
        self._dice = random.Random(seed)
        self.happened: Counter[str] = Counter()

    def leader_of_the_quorum(self) -> Node:
        deadline = time.monotonic() + PATIENCE_S
        while (leader := quorum_told_by(self._cluster.broker(1).address).leader_id) < 0:
            assert time.monotonic() < deadline, "nobody leads the quorum"
            time.sleep(SECONDS_BETWEEN_LOOKS)
        return self._cluster.controller(leader)

    def any_controller(self) -> Node:
        return self._dice.choice(self._cluster.controllers)

    def ours(self) -> Node:
        return self._cluster.broker(self._dice.choice(OUR_BROKERS))

    def theirs(self) -> Node:
        return self._cluster.broker(THEIR_BROKER)

    def killed(self, node: Node, seconds: float) -> None:
        node.kill()
        time.sleep(seconds)
        node.start()

    def stopped(self, node: Node, seconds: float) -> None:
        assert node.stop() in (0, 143), node.log[-2_000:]  # Java says 128 + SIGTERM
        time.sleep(seconds)
        node.start()

    def frozen(self, node: Node, seconds: float) -> None:
        node.pause()
        time.sleep(seconds)
        node.resume()

    def befall(self, way: Callable[[Node, float], None], node: Node, seconds: float) -> None:
        """Disturb a node, then wait until all loads go on and all replicas are in sync again."""
        self.happened[f"{node} {way.__name__}"] += 1
        way(node, seconds)
        for load in self._loads:
            load.wait_for(3)
        for load in self._loads:
            all_in_sync(self._cluster.bootstrap_servers, load.topic, ALL)

    def go_on(self, seconds: float) -> None:
        """Disturb nodes in random ways and in random order: each victim once a round, until the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            victims = [
                self.leader_of_the_quorum,
                self.leader_of_the_quorum,
                self.any_controller,
                self.ours,
                self.theirs,
            ]
            for victim in self._dice.sample(victims, len(victims)):
                way = self._dice.choice((self.killed, self.killed, self.frozen, self.stopped))
                self.befall(way, victim(), self._dice.uniform(0.2, 6))
                if time.monotonic() > end:
                    return


def loads_of(cluster: KafkaCluster, java: JavaClients) -> list[Writes]:
    at = cluster.bootstrap_servers
    for topic in ("java", "java-transactions", "transactions"):
        create(at, topic, PARTITIONS, 3, min_insync_replicas="2", segment_bytes="1048576")
        all_in_sync(cluster.bootstrap_servers, topic, ALL)
    return [
        JavaLoad(java, at, "java", PARTITIONS),
        JavaTransactionalLoad(java, at, "java-transactions", PARTITIONS),
        TransactionalLoad(at, "transactions", PARTITIONS),
    ]


def check(cluster: KafkaCluster, loads: list[Writes], turns: Turns) -> None:
    for load in loads:
        load.check()
    print({load.topic: sum(map(len, load.done.values())) for load in loads}, dict(turns.happened), sep="\n")
    for load in loads:
        cluster.wait_until_equal(load.topic, PARTITIONS)
    cluster.stop()
    for load in loads:
        for partition in range(PARTITIONS):
            held = [node.replica_bytes(load.topic, partition) for node in cluster.brokers]
            assert len(set(held)) == 1, f"{load.topic}-{partition}: {[len(each) for each in held]} bytes"
    for node in cluster.brokers:
        assert node.kind is THEIRS or "Traceback" not in node.log, node.log[-3_000:]


def test_each_kind_of_node_is_lost_once_while_java_writes(
    cluster: KafkaCluster, java: JavaClients, chaos_seed: int
) -> None:
    with ExitStack() as stack:
        loads = [stack.enter_context(load) for load in loads_of(cluster, java)]
        turns = Turns(cluster, loads, chaos_seed)
        turns.befall(turns.killed, turns.leader_of_the_quorum(), 0.5)
        turns.befall(turns.killed, turns.ours(), 0.5)
        turns.befall(turns.killed, turns.theirs(), 0.5)
        turns.befall(turns.frozen, turns.leader_of_the_quorum(), 3)
    check(cluster, loads, turns)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
def test_nodes_are_lost_for_long(
    cluster: KafkaCluster, java: JavaClients, chaos_seed: int, chaos_minutes: float
) -> None:
    with ExitStack() as stack:
        loads = [stack.enter_context(load) for load in loads_of(cluster, java)]
        turns = Turns(cluster, loads, chaos_seed)
        turns.go_on(chaos_minutes * 60)
    check(cluster, loads, turns)
