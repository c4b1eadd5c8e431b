"""Brokers and directories come and go: who is in sync and who leads then."""

from __future__ import annotations

from pykafka_broker.cluster.elections import (
    broker_leaves,
    broker_returns,
    directories_lost,
    leads_anything,
    may_lead,
    unclean_candidates,
    unclean_shutdown,
)
from tests.cluster.parts import all_told, cluster_of, directory, partition_in
from tests.cluster.support import Cluster


def three_topics() -> Cluster:
    cluster = cluster_of(min_insync_replicas="2")
    partition_in(cluster, (1, 2, 3), name="led")
    partition_in(cluster, (2, 3, 1), name="followed")
    partition_in(cluster, (2, 3), name="elsewhere")
    return cluster


def test_a_broker_that_leaves_leaves_the_isr_and_others_lead() -> None:
    cluster = three_topics()
    records = list(broker_leaves(cluster.controller, 1))
    assert all_told(records) == [{"isr": [2, 3], "leader": 2}, {"isr": [2, 3]}]
    cluster.apply(records)
    assert not leads_anything(cluster.image, 1)
    assert leads_anything(cluster.image, 2)


def test_who_is_fenced_or_about_to_stop_does_not_take_over() -> None:
    cluster = three_topics()
    cluster.image.brokers[2].in_controlled_shutdown = True
    assert all_told(broker_leaves(cluster.controller, 1))[0] == {"isr": [2, 3], "leader": 3}


def test_the_last_one_that_leaves_is_eligible_and_leads_when_it_is_back() -> None:
    cluster = cluster_of(min_insync_replicas="2")
    partition_in(cluster, (1, 2), isr=(1,), elr=(2,))
    cluster.image.brokers[2].fenced = True
    cluster.apply(list(broker_leaves(cluster.controller, 1)))
    cluster.image.brokers[1].fenced = True
    after = cluster.image.topics["t"].partitions[0]
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (-1, (), (1, 2), (1,))
    assert all_told(broker_returns(cluster.controller, 1)) == [{"isr": [1], "elr": [2], "last_known": [], "leader": 1}]
    assert all_told(broker_returns(cluster.controller, 2)) == [{"isr": [2], "elr": [1], "last_known": [], "leader": 2}]
    assert all_told(broker_returns(cluster.controller, 3)) == [], "it has no replica"


def test_a_broker_without_its_directory_takes_nothing_over() -> None:
    cluster = three_topics()
    cluster.image.brokers[2].log_dirs = (b"x" * 16,)
    assert all_told(broker_leaves(cluster.controller, 1))[0] == {"isr": [2, 3], "leader": 3}


def test_only_what_is_in_a_lost_directory_moves() -> None:
    cluster = three_topics()
    assert all_told(directories_lost(cluster.controller, 2, {directory(2)}.__contains__)) == [
        {"isr": [1, 3]},
        {"isr": [3, 1], "leader": 3},
        {"isr": [3], "elr": [2], "leader": 3},
    ]
    assert all_told(directories_lost(cluster.controller, 2, {b"x" * 16}.__contains__)) == []


def test_after_an_unclean_shutdown_a_broker_is_in_no_isr_and_not_eligible() -> None:
    cluster = cluster_of(min_insync_replicas="2")
    partition_in(cluster, (1, 2), isr=(), elr=(1, 2), last_known=(1,), name="eligible")
    partition_in(cluster, (1, 3), name="in-sync")
    partition_in(cluster, (2, 3), name="elsewhere")
    cluster.image.brokers[2].fenced = True
    assert all_told(unclean_shutdown(cluster.controller, 1)) == [{"elr": [2]}, {"isr": [3], "leader": 3}]


def test_the_last_known_leader_leads_again_when_all_records_may_be_lost() -> None:
    cluster = cluster_of(min_insync_replicas="2")
    partition_in(cluster, (1, 2), isr=(), elr=(1,), last_known=(1,))
    cluster.image.brokers[1].fenced = cluster.image.brokers[2].fenced = True
    cluster.apply(list(unclean_shutdown(cluster.controller, 1)))
    assert all_told(broker_returns(cluster.controller, 2)) == []
    assert all_told(broker_returns(cluster.controller, 1)) == [
        {"isr": [1], "last_known": [], "leader": 1, "recovery_state": 1}
    ]


def test_unclean_leaders_are_for_topics_that_allow_them() -> None:
    cluster = cluster_of(min_insync_replicas="2")
    for name in ("safe", "sorry"):
        partition_in(cluster, (1, 2), isr=(), elr=(1,), last_known=(1,), name=name)
    cluster.image.configs[2, "sorry"] = {"unclean.leader.election.enable": "true"}
    cluster.image.brokers[1].fenced = True
    records = list(unclean_candidates(cluster.controller))
    assert [record.message.topic_id for record in records] == [cluster.image.topics["sorry"].id]
    assert all_told(records) == [{"isr": [2], "elr": [], "last_known": [], "leader": 2, "recovery_state": 1}]
    cluster.image.brokers[2].fenced = True
    assert all_told(unclean_candidates(cluster.controller)) == []


def test_a_topic_that_allows_it_gets_an_unclean_leader_as_soon_as_the_last_good_one_leaves() -> None:
    cluster = cluster_of(elr=False)
    partition_in(cluster, (1, 2), isr=(1,))
    cluster.image.configs[2, "t"] = {"unclean.leader.election.enable": "true"}
    assert all_told(broker_leaves(cluster.controller, 1)) == [{"isr": [2], "leader": 2, "recovery_state": 1}]


def test_only_replicas_may_lead() -> None:
    cluster = cluster_of(4)
    _, partition = partition_in(cluster)
    acceptable = may_lead(cluster.image, partition, leaving=1)
    assert [acceptable(broker) for broker in (1, 2, 3, 4)] == [False, True, True, False]
    cluster.image.brokers[2].fenced = True
    assert not acceptable(2)
    assert may_lead(cluster.image, partition, returning=2)(2)
