"""Trouble for a cluster: at times of a seed or by itself, and everything is over at its end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from confluent_kafka import Producer

from pykafka_broker.testing import KafkaCluster, WaitTimeout
from pykafka_broker.testing.trouble import KINDS, Blow, check_kinds

LONG_MS = 600_000


@pytest.fixture(scope="module")
def whole_run() -> Iterator[KafkaCluster]:
    with KafkaCluster() as cluster:
        cluster.create_topic("orders", config={"min.insync.replicas": 1})
        yield cluster


@pytest.fixture
def cluster(whole_run: KafkaCluster) -> Iterator[KafkaCluster]:
    whole_run.clear_requests()
    yield whole_run
    whole_run.calm()


def produce(cluster: KafkaCluster, count: int = 1) -> None:
    producer = Producer({**cluster.client_config("confluent"), "client.id": "shop", "acks": 1})
    for number in range(count):
        producer.produce("orders", b"%d" % number)
        assert producer.flush(60) == 0


def test_nothing_comes_before_a_client_and_all_is_over_when_it_is_calm(cluster: KafkaCluster) -> None:
    cluster.create_topic("quiet")
    leader = cluster.leader_of("orders")
    trouble = cluster.befall("kill", leader, for_ms=LONG_MS)
    with pytest.raises(WaitTimeout, match="0 troubles have come, not 1"):
        trouble.wait(timeout=0)
    produce(cluster)
    trouble.wait()
    assert not cluster.broker(leader).running
    cluster.calm()
    assert cluster.broker(leader).running
    assert sorted(cluster.isr("orders")) == [1, 2, 3]


def test_what_begins_ends_by_itself(cluster: KafkaCluster) -> None:
    trouble = cluster.befall("stop", 2, for_ms=1)
    produce(cluster)
    trouble.wait()
    cluster.wait_for_isr("orders")
    assert cluster.broker(2).running


def test_a_leader_moves(cluster: KafkaCluster) -> None:
    leader = cluster.leader_of("orders")
    follower = leader % 3 + 1
    trouble = cluster.befall("move_leader", follower, topic="orders")
    produce(cluster)
    trouble.wait()
    assert cluster.wait_for_leader("orders", other_than=leader) == follower
    assert trouble.came == [Blow("move_leader", follower, for_ms=1000, topic="orders")]


def test_a_broker_is_paused_and_cut_off(cluster: KafkaCluster) -> None:
    leader = cluster.leader_of("orders")
    trouble = cluster.befall("partition", leader, for_ms=LONG_MS)
    produce(cluster)
    trouble.wait()
    assert cluster.wait_for_leader("orders", other_than=leader) != leader
    cluster.calm()
    assert sorted(cluster.isr("orders")) == [1, 2, 3]
    cluster.befall("pause", 1, for_ms=LONG_MS).wait()


def test_a_seed_draws_the_same(cluster: KafkaCluster) -> None:
    first = cluster.trouble(["pause", "move_leader"], seed=3, mean_ms=100, most_down=3)
    produce(cluster)
    first.wait(4)
    first.end()
    again = cluster.trouble(["pause", "move_leader"], seed=3, mean_ms=100, most_down=3)
    again.wait(2)
    kept = [{(each.kind, each.after_ms) for each in trouble.came} for trouble in (first, again)]
    assert kept[0] & kept[1]
    assert all(one.after_ms <= other.after_ms for one, other in pairwise(first.came))
    assert {each.kind for each in first.came} <= {"pause", "move_leader"}


def test_lines_to_paste() -> None:
    assert (
        Blow("kill", 2, 350, 800).line("kafka_cluster") == 'kafka_cluster.befall("kill", 2, after_ms=350, for_ms=800)'
    )
    moved = Blow("move_leader", 3, 20, 5, "orders", 1).line("kafka_cluster")
    assert moved == 'kafka_cluster.befall("move_leader", 3, topic="orders", partition=1, after_ms=20)'


def test_mistakes_are_told(cluster: KafkaCluster) -> None:
    with pytest.raises(ValueError, match="there is no trouble flood: there are kill, stop"):
        cluster.trouble(["flood"])
    with pytest.raises(ValueError, match="no trouble is named"):
        cluster.trouble([])
    with pytest.raises(ValueError, match="9"):
        cluster.befall("kill", 9)
    with pytest.raises(ValueError, match="needs the topic"):
        cluster.befall("move_leader", 1)
    assert check_kinds(KINDS) == list(KINDS)
