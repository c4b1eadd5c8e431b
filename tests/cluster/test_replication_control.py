"""A leader asks for another ISR, an operator for other brokers, a broker tells its replicas' directories.
test_like_kafka.py compares with Kafka's answers.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.cluster.partition_change import partition_change
from pykafka_broker.cluster.replication_control import (
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    list_partition_reassignments,
)
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import assign_replicas_to_dirs_request as assign_request
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest, DirectoryData
from pykafka_broker.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.cluster.parts import all_told, cluster_of, directory, partition_in
from tests.cluster.support import Cluster

ANOTHER, UNKNOWN = b"a" * 16, b"u" * 16


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
    topic, _ = partition_in(cluster)  # the state at which a Kafka controller resigns
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


def reassign(cluster: Cluster, *targets: list[int] | None, **fields: Any) -> list[int]:
    """Ask for a reassignment and apply the decision; return the error codes."""
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


def two_directories() -> Cluster:
    cluster = cluster_of(min_insync_replicas="2")
    cluster.image.brokers[1].log_dirs = (directory(1), ANOTHER)
    return cluster


def directories_request(*places: tuple[bytes, bytes], broker: int = 1, epoch: int = 11) -> AssignReplicasToDirsRequest:
    directories = [
        DirectoryData(place, [assign_request.TopicData(topic_id, [assign_request.PartitionData(0)])])
        for place, topic_id in places
    ]
    return AssignReplicasToDirsRequest(broker, epoch, directories)


def test_what_is_so_already_is_not_written() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster)
    told = assign_replicas_to_dirs(cluster.controller, directories_request((ANOTHER, topic.id)))
    assert all_told(told.records) == [{"directories": [ANOTHER, directory(2), directory(3)]}]
    cluster.apply(told.records)
    again = assign_replicas_to_dirs(cluster.controller, directories_request((ANOTHER, topic.id)))
    assert (again.records, again.reply.directories[0].topics[0].partitions[0].error_code) == ([], 0)


def test_a_directory_that_is_not_there_takes_the_replica_with_it() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster)
    told = assign_replicas_to_dirs(cluster.controller, directories_request((UNKNOWN, topic.id)))
    assert all_told(told.records) == [
        {"directories": [UNKNOWN, directory(2), directory(3)]},
        {"isr": [2, 3], "leader": 2},
    ]
    assert told.reply.directories[0].topics[0].partitions[0].error_code == 0


def test_of_a_replica_named_twice_the_later_word_holds() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster)
    told = assign_replicas_to_dirs(
        cluster.controller, directories_request((ANOTHER, topic.id), (directory(1), topic.id))
    )
    cluster.apply(told.records)
    assert topic.partitions[0].directories[0] == directory(1)
    assert len(told.records) == 2


def test_a_replica_that_is_somewhere_else_now_does_not_lead_by_that() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster, (1,))
    cluster.apply(assign_replicas_to_dirs(cluster.controller, directories_request((UNKNOWN, topic.id))).records)
    assert (topic.partitions[0].leader, topic.partitions[0].elr) == (-1, (1,))
    cluster.apply(assign_replicas_to_dirs(cluster.controller, directories_request((ANOTHER, topic.id))).records)
    assert (topic.partitions[0].leader, topic.partitions[0].directories) == (-1, (ANOTHER,)), "it may be empty there"


def test_each_replica_has_its_own_error() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster, (2, 3))
    asked = directories_request((ANOTHER, topic.id), (ANOTHER, b"?" * 16))
    asked.directories[0].topics[0].partitions.append(assign_request.PartitionData(7))
    told = assign_replicas_to_dirs(cluster.controller, asked)
    codes = [[each.error_code for each in place.topics[0].partitions] for place in told.reply.directories]
    assert codes == [
        [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_ID],
    ]
    assert told.records == []


def test_a_broker_of_another_time_says_nothing_of_this_one() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster)
    told = assign_replicas_to_dirs(cluster.controller, directories_request((ANOTHER, topic.id), epoch=12))
    assert (told.reply.error_code, told.records) == (ErrorCode.STALE_BROKER_EPOCH, [])
