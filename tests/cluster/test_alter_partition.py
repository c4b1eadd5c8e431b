"""A leader asks for another ISR. What Kafka answers to each request is compared in test_like_kafka.py."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.cluster.alter_partition import alter_partition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from tests.cluster.parts import all_told, cluster_of, partition_in
from tests.cluster.support import Cluster


def epoch(broker: int) -> int:
    return 10 + broker  # as the cluster of these tests registers them


def wanted(isr: list[int], *, leader_epoch: int = 5, partition_epoch: int = 7, **fields: Any) -> PartitionData:
    members = [BrokerState(broker, epoch(broker)) for broker in isr]
    return PartitionData(0, leader_epoch, [], members, fields.pop("recovery_state", 0), partition_epoch)


def request(topic_id: bytes, *partitions: PartitionData, sender: int = 1) -> AlterPartitionRequest:
    return AlterPartitionRequest(sender, epoch(sender), [TopicData(topic_id=topic_id, partitions=list(partitions))])


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of(min_insync_replicas="2")


def test_a_smaller_isr_is_answered_with_what_it_is_then(cluster: Cluster) -> None:
    topic, _ = partition_in(cluster)
    decision = alter_partition(cluster.controller, request(topic.id, wanted([1, 2])))
    answer = decision.reply.topics[0].partitions[0]
    assert all_told(decision.records) == [{"isr": [1, 2]}]
    assert (answer.error_code, answer.leader_id, answer.leader_epoch, answer.isr) == (0, 1, 5, [1, 2])
    assert answer.partition_epoch == 8
    cluster.apply(decision.records)
    assert topic.partitions[0].partition_epoch == 8


def test_one_partition_refused_spoils_no_other(cluster: Cluster) -> None:
    topic, _ = partition_in(cluster)
    other, _ = partition_in(cluster, name="other")
    asked = request(topic.id, wanted([1, 2], leader_epoch=4))
    asked.topics.append(TopicData(topic_id=other.id, partitions=[wanted([1, 3]), PartitionData(9)]))
    asked.topics.append(TopicData(topic_id=b"?" * 16, partitions=[wanted([1])]))
    decision = alter_partition(cluster.controller, asked)
    codes = [[each.error_code for each in told.partitions] for told in decision.reply.topics]
    assert codes == [
        [ErrorCode.FENCED_LEADER_EPOCH],
        [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_ID],
    ]
    assert all_told(decision.records) == [{"isr": [1, 3]}]


def test_a_partition_named_twice_is_changed_once(cluster: Cluster) -> None:
    topic, _ = partition_in(cluster)
    decision = alter_partition(cluster.controller, request(topic.id, wanted([1, 2]), wanted([1, 3])))
    assert [each.error_code for each in decision.reply.topics[0].partitions] == [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert all_told(decision.records) == [{"isr": [1, 2]}]


def test_a_state_of_recovery_that_does_not_exist_is_refused(cluster: Cluster) -> None:
    topic, _ = partition_in(cluster)  # by it a controller of Kafka's gives up its office
    decision = alter_partition(cluster.controller, request(topic.id, wanted([1, 2], recovery_state=7)))
    assert (decision.reply.topics[0].partitions[0].error_code, decision.records) == (ErrorCode.INVALID_REQUEST, [])


def test_a_leader_has_recovered(cluster: Cluster) -> None:
    topic, _ = partition_in(cluster, isr=(1,), recovery_state=1)
    decision = alter_partition(cluster.controller, request(topic.id, wanted([1])))
    assert all_told(decision.records) == [{"recovery_state": 0}]
    assert decision.reply.topics[0].partitions[0].leader_recovery_state == 0


def test_who_loses_the_leadership_by_it_is_told_so(cluster: Cluster) -> None:
    topic, _ = partition_in(cluster, (3, 2, 1), isr=(1, 2), leader=1, adding=(3,), removing=(1,))
    decision = alter_partition(cluster.controller, request(topic.id, wanted([1, 2, 3])))
    assert decision.reply.topics[0].partitions[0].error_code == ErrorCode.NEW_LEADER_ELECTED
    cluster.apply(decision.records)
    after = topic.partitions[0]
    assert (after.leader, after.replicas, after.isr, after.adding_replicas) == (3, (3, 2), (2, 3), ())


def test_a_replica_in_a_directory_that_is_offline_does_not_come_back(cluster: Cluster) -> None:
    topic, _ = partition_in(cluster, isr=(1, 2))
    cluster.image.brokers[3].log_dirs = (b"another" * 2 + b"..",)
    decision = alter_partition(cluster.controller, request(topic.id, wanted([1, 2, 3])))
    assert (decision.reply.topics[0].partitions[0].error_code, decision.records) == (ErrorCode.INELIGIBLE_REPLICA, [])


def test_a_broker_of_another_time_is_refused_whole(cluster: Cluster) -> None:
    topic, _ = partition_in(cluster)
    asked = request(topic.id, wanted([1, 2]))
    asked.broker_epoch -= 1
    decision = alter_partition(cluster.controller, asked)
    assert (decision.reply.error_code, decision.reply.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
