"""Elections on demand. What Kafka answers is compared in test_like_kafka.py."""

from __future__ import annotations

from typing import Any

from pykafka_broker.cluster.elect_leaders import elect_leaders
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from tests.cluster.parts import all_told, cluster_of, partition_in
from tests.cluster.support import Cluster

PREFERRED, UNCLEAN = 0, 1


def elect(cluster: Cluster, kind: int, *names: str) -> tuple[dict[str, list[int]], list[Any]]:
    """The error codes of each topic, and what is written."""
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
