"""A broker says which directory has which replica. More of it is compared in test_like_kafka.py."""

from __future__ import annotations

from pykafka_broker.cluster.assign_directories import assign_replicas_to_dirs
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from tests.cluster.parts import all_told, cluster_of, directory, partition_in
from tests.cluster.support import Cluster

ANOTHER, UNKNOWN = b"a" * 16, b"u" * 16


def two_directories() -> Cluster:
    cluster = cluster_of(min_insync_replicas="2")
    cluster.image.brokers[1].log_dirs = (directory(1), ANOTHER)
    return cluster


def request(*places: tuple[bytes, bytes], broker: int = 1, epoch: int = 11) -> AssignReplicasToDirsRequest:
    directories = [DirectoryData(place, [TopicData(topic_id, [PartitionData(0)])]) for place, topic_id in places]
    return AssignReplicasToDirsRequest(broker, epoch, directories)


def test_what_is_so_already_is_not_written() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster)
    told = assign_replicas_to_dirs(cluster.controller, request((ANOTHER, topic.id)))
    assert all_told(told.records) == [{"directories": [ANOTHER, directory(2), directory(3)]}]
    cluster.apply(told.records)
    again = assign_replicas_to_dirs(cluster.controller, request((ANOTHER, topic.id)))
    assert (again.records, again.reply.directories[0].topics[0].partitions[0].error_code) == ([], 0)


def test_a_directory_that_is_not_there_takes_the_replica_with_it() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster)
    told = assign_replicas_to_dirs(cluster.controller, request((UNKNOWN, topic.id)))
    assert all_told(told.records) == [
        {"directories": [UNKNOWN, directory(2), directory(3)]},
        {"isr": [2, 3], "leader": 2},
    ]
    assert told.reply.directories[0].topics[0].partitions[0].error_code == 0


def test_of_a_replica_named_twice_the_later_word_holds() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster)
    told = assign_replicas_to_dirs(cluster.controller, request((ANOTHER, topic.id), (directory(1), topic.id)))
    cluster.apply(told.records)
    assert topic.partitions[0].directories[0] == directory(1)
    assert len(told.records) == 2


def test_a_replica_that_is_somewhere_else_now_does_not_lead_by_that() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster, (1,))
    cluster.apply(assign_replicas_to_dirs(cluster.controller, request((UNKNOWN, topic.id))).records)
    assert (topic.partitions[0].leader, topic.partitions[0].elr) == (-1, (1,))
    cluster.apply(assign_replicas_to_dirs(cluster.controller, request((ANOTHER, topic.id))).records)
    assert (topic.partitions[0].leader, topic.partitions[0].directories) == (-1, (ANOTHER,)), "it may be empty there"


def test_each_replica_has_its_own_error() -> None:
    cluster = two_directories()
    topic, _ = partition_in(cluster, (2, 3))
    asked = request((ANOTHER, topic.id), (ANOTHER, b"?" * 16))
    asked.directories[0].topics[0].partitions.append(PartitionData(7))
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
    told = assign_replicas_to_dirs(cluster.controller, request((ANOTHER, topic.id), epoch=12))
    assert (told.reply.error_code, told.records) == (ErrorCode.STALE_BROKER_EPOCH, [])
