"""Other brokers for a partition. What Kafka answers and writes is compared in test_like_kafka.py."""

from __future__ import annotations

from typing import Any

from pykafka_broker.cluster.partition_change import partition_change
from pykafka_broker.cluster.reassignments import alter_partition_reassignments, list_partition_reassignments
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.cluster.parts import cluster_of, partition_in
from tests.cluster.support import Cluster


def reassign(cluster: Cluster, *targets: list[int] | None, **fields: Any) -> list[int]:
    """The error codes; what is decided is applied."""
    topic = ReassignableTopic("t", [ReassignablePartition(0, target) for target in targets])
    decision = alter_partition_reassignments(
        cluster.controller, AlterPartitionReassignmentsRequest(topics=[topic], **fields)
    )
    cluster.apply(decision.records)
    return [each.error_code for each in decision.reply.responses[0].partitions]


def in_sync(cluster: Cluster, *isr: int) -> None:
    topic = cluster.image.topics["t"]
    record = partition_change(
        cluster.controller, topic, topic.partitions[0], cluster.image.brokers.__contains__, isr=isr
    )
    assert record is not None
    cluster.apply([record])


def state(cluster: Cluster) -> tuple[tuple[int, ...], ...]:
    partition = cluster.image.topics["t"].partitions[0]
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def test_from_two_brokers_to_two_others_and_done() -> None:
    cluster = cluster_of(4)
    partition_in(cluster, (1, 2))
    assert reassign(cluster, [4, 3]) == [0]
    assert state(cluster) == ((4, 3, 1, 2), (3, 4), (1, 2))
    in_sync(cluster, 1, 2, 3)
    assert state(cluster) == ((4, 3, 1, 2), (3, 4), (1, 2)), "one is missing"
    in_sync(cluster, 1, 2, 3, 4)
    assert state(cluster) == ((4, 3), (), ())
    assert cluster.image.topics["t"].partitions[0].leader == 4


def test_one_that_was_changed_ends_without_the_broker_that_is_not_wanted_any_more() -> None:
    cluster = cluster_of(4)
    partition_in(cluster, (1, 2))
    assert reassign(cluster, [3, 4]) == [0]
    assert reassign(cluster, [4, 2]) == [0]
    assert state(cluster) == ((4, 2, 1, 3), (3, 4), (1, 3))
    in_sync(cluster, 1, 2, 4)
    assert state(cluster) == ((4, 2), (), ())


def test_one_that_was_changed_can_still_be_called_off() -> None:
    cluster = cluster_of(4)
    partition_in(cluster, (1, 2))
    reassign(cluster, [3, 4])
    reassign(cluster, [4, 2])
    assert reassign(cluster, None) == [0]
    assert state(cluster) == ((2, 1), (), ())
    assert reassign(cluster, None) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]


def test_back_to_what_it_was_is_done_at_once() -> None:
    cluster = cluster_of(4)
    partition_in(cluster, (1, 2))
    reassign(cluster, [4, 2])
    assert reassign(cluster, [1, 2]) == [0]
    assert state(cluster) == ((1, 2), (), ())


def test_of_a_partition_named_twice_the_last_word_holds() -> None:
    cluster = cluster_of(4)
    partition_in(cluster, (1, 2))
    assert reassign(cluster, [3, 4], [2, 3]) == [0, 0]
    assert state(cluster) == ((2, 3, 1), (3,), (1,))


def test_another_number_of_replicas_only_where_it_is_allowed() -> None:
    cluster = cluster_of(4)
    partition_in(cluster, (1, 2))
    wrong = [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert reassign(cluster, [1, 2, 3], allow_replication_factor_change=False) == wrong
    assert reassign(cluster, [1, 2, 3]) == [0]
    assert reassign(cluster, [4, 2, 3], allow_replication_factor_change=False) == wrong, "two is what it had"


def test_listed_is_what_is_under_way() -> None:
    cluster = cluster_of(4)
    partition_in(cluster, (1, 2))
    partition_in(cluster, (1, 2), name="other")
    reassign(cluster, [1, 3])
    everything = list_partition_reassignments(cluster.image, ListPartitionReassignmentsRequest(0, None))
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in everything.topics] == [
        ("t", [0])
    ]
    listed = everything.topics[0].partitions[0]
    assert (listed.replicas, listed.adding_replicas, listed.removing_replicas) == ([1, 3, 2], [3], [2])
    named = [ListPartitionReassignmentsTopics(name, [0, 5]) for name in ("other", "nowhere")]
    assert list_partition_reassignments(cluster.image, ListPartitionReassignmentsRequest(0, named)).topics == []
