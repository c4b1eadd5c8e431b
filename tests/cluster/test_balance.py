"""Leadership goes back to the first replicas."""

from __future__ import annotations

from pykafka_broker.cluster.balance import balancing
from pykafka_broker.steps import at_once
from tests.cluster.parts import all_told, cluster_of, partition_in
from tests.cluster.support import Cluster


def topics(cluster: Cluster, moved: int, of: int) -> None:
    for number in range(of):
        partition_in(cluster, leader=2 if number < moved else 1, name=f"t{number}")


def test_a_broker_that_leads_too_few_of_its_partitions_gets_them_back() -> None:
    cluster = cluster_of(leader_imbalance_per_broker_percentage="10")
    topics(cluster, moved=2, of=10)
    records = at_once(balancing(cluster.controller))
    assert all_told(records) == [{"leader": 1}] * 2
    cluster.apply(records)
    assert at_once(balancing(cluster.controller)) == []


def test_one_that_leads_enough_is_left_alone() -> None:
    cluster = cluster_of(leader_imbalance_per_broker_percentage="10")
    topics(cluster, moved=1, of=10)
    assert at_once(balancing(cluster.controller)) == []


def test_what_it_can_not_lead_stays() -> None:
    cluster = cluster_of()
    partition_in(cluster, isr=(2, 3), leader=2, name="lagging")
    partition_in(cluster, isr=(), elr=(2,), name="nobody")
    assert at_once(balancing(cluster.controller)) == []


def test_a_check_moves_no_more_than_so_many() -> None:
    cluster = cluster_of()
    topics(cluster, moved=5, of=5)
    assert len(at_once(balancing(cluster.controller, at_most=3))) == 3
