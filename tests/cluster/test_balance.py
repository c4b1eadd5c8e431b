"""Leadership goes back to the first replicas. When Kafka does it is compared in test_like_kafka.py."""

from __future__ import annotations

from pykafka_broker.cluster.balance import balancing
from tests.cluster.parts import all_told, cluster_of, partition_in
from tests.cluster.support import Cluster


def topics(cluster: Cluster, moved: int, of: int) -> None:
    for number in range(of):
        partition_in(cluster, leader=2 if number < moved else 1, name=f"t{number}")


def test_a_broker_gets_back_whatever_it_can_lead() -> None:
    cluster = cluster_of(leader_imbalance_per_broker_percentage="10")
    topics(cluster, moved=1, of=20)
    records = balancing(cluster.controller)
    assert all_told(records) == [{"leader": 1}]
    cluster.apply(records)
    assert balancing(cluster.controller) == []


def test_what_it_can_not_lead_stays() -> None:
    cluster = cluster_of()
    partition_in(cluster, isr=(2, 3), leader=2, name="lagging")
    partition_in(cluster, isr=(), elr=(2,), name="nobody")
    partition_in(cluster, leader=2, name="gone")
    cluster.image.brokers[1].fenced = True
    assert balancing(cluster.controller) == []


def test_a_check_moves_no_more_than_so_many() -> None:
    cluster = cluster_of()
    topics(cluster, moved=5, of=5)
    assert len(balancing(cluster.controller, at_most=3)) == 3
