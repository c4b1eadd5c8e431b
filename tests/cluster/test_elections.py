"""Elections: brokers and directories come and go, clients ask, first replicas get their leaderships back.
test_like_kafka.py compares with Kafka's answers.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from pykafka_broker.cluster import elections
from pykafka_broker.cluster.elections import (
    balance_leaders,
    broker_leaves,
    broker_returns,
    directories_lost,
    elect_leaders,
    elect_missing_leaders,
    leads_anything,
    may_lead,
    unclean_shutdown,
)
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from tests.cluster.parts import all_told, cluster_of, directory, partition_in
from tests.cluster.support import Cluster

PREFERRED, UNCLEAN = 0, 1


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
    records = list(elect_missing_leaders(cluster.controller))
    assert [record.message.topic_id for record in records] == [cluster.image.topics["sorry"].id]
    assert all_told(records) == [{"isr": [2], "elr": [], "last_known": [], "leader": 2, "recovery_state": 1}]
    cluster.image.brokers[2].fenced = True
    assert all_told(elect_missing_leaders(cluster.controller)) == []


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


def elect(cluster: Cluster, kind: int, *names: str) -> tuple[dict[str, list[int]], list[Any]]:
    """Elect leaders; return the error codes of each topic, and the records."""
    topics = [TopicPartitions(name, [0]) for name in names] or None
    decision = elect_leaders(cluster.controller, ElectLeadersRequest(kind, topics))
    results = decision.reply.replica_election_results
    codes = {each.topic: [one.error_code for one in each.partition_result] for each in results}
    return codes, all_told(decision.records)


def test_the_first_replica_leads_again() -> None:
    cluster = cluster_of()
    partition_in(cluster, leader=2)
    assert elect(cluster, PREFERRED, "t") == ({"t": [0]}, [{"leader": 1}])


def test_an_unclean_election_takes_who_is_there_and_says_so() -> None:
    cluster = cluster_of()
    partition_in(cluster, isr=(), elr=(1,), last_known=(1,))
    cluster.image.brokers[1].fenced = True
    assert elect(cluster, PREFERRED, "t") == ({"t": [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]}, [])
    written = {"isr": [2], "elr": [], "last_known": [], "leader": 2, "recovery_state": 1}
    assert elect(cluster, UNCLEAN, "t") == ({"t": [0]}, [written])


def test_of_all_partitions_those_are_named_that_needed_it() -> None:
    cluster = cluster_of()
    partition_in(cluster, name="fine")
    partition_in(cluster, name="moved", leader=2)
    partition_in(cluster, name="lagging", isr=(2, 3), leader=2)
    codes, written = elect(cluster, PREFERRED)
    assert codes == {"fine": [], "moved": [0], "lagging": [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]}
    assert written == [{"leader": 1}]


def test_a_partition_named_twice_is_elected_once() -> None:
    cluster = cluster_of()
    partition_in(cluster, leader=2)
    request = ElectLeadersRequest(PREFERRED, [TopicPartitions("t", [0, 0])])
    decision = elect_leaders(cluster.controller, request)
    results = decision.reply.replica_election_results[0].partition_result
    assert [each.error_code for each in results] == [0, ErrorCode.ELECTION_NOT_NEEDED]
    assert len(decision.records) == 1


def topics(cluster: Cluster, moved: int, of: int) -> None:
    for number in range(of):
        partition_in(cluster, leader=2 if number < moved else 1, name=f"t{number}")


def test_a_broker_gets_back_whatever_it_can_lead() -> None:
    cluster = cluster_of(leader_imbalance_per_broker_percentage="10")
    topics(cluster, moved=1, of=20)
    records = balance_leaders(cluster.controller)
    assert all_told(records) == [{"leader": 1}]
    cluster.apply(records)
    assert balance_leaders(cluster.controller) == []


def test_what_it_can_not_lead_stays() -> None:
    cluster = cluster_of()
    partition_in(cluster, isr=(2, 3), leader=2, name="lagging")
    partition_in(cluster, isr=(), elr=(2,), name="nobody")
    partition_in(cluster, leader=2, name="gone")
    cluster.image.brokers[1].fenced = True
    assert balance_leaders(cluster.controller) == []


def test_a_check_moves_no_more_than_so_many() -> None:
    cluster = cluster_of()
    topics(cluster, moved=5, of=5)
    assert len(balance_leaders(cluster.controller, at_most=3)) == 3


def test_a_partition_that_is_named_again_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may name a partition 60,000 times, for which an election takes almost a second."""
    cluster = cluster_of(min_insync_replicas="2")
    partition_in(cluster, (1, 2, 3), isr=(2, 3))
    cluster.image.brokers[1].fenced = True
    monkeypatch.setattr(elections, "elected", looked := Mock(wraps=elections.elected))
    request = ElectLeadersRequest(PREFERRED, [TopicPartitions("t", [0, 0, 0])], 1000)
    (result,) = elect_leaders(cluster.controller, request).reply.replica_election_results
    refusal = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert [each.error_code for each in result.partition_result] == [refusal] * 3
    assert looked.call_count == 1
