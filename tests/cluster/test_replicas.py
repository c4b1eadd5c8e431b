"""Metadata changes for this node's partitions: directories, leaders, directories out of reach."""

from __future__ import annotations

from typing import Any

from pykafka_broker.cluster.image import PartitionImage, TopicImage
from pykafka_broker.cluster.partition_change import Elections, directories_with, partition_changes
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.log.checkpoints import LOST, MIGRATING, UNASSIGNED
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord
from tests.cluster.support import DIRECTORY, Cluster

OTHER = b"o" * 16


def changes(cluster: Cluster, place: bytes = DIRECTORY, **elections: bool) -> list[Any]:
    def locate(topic: TopicImage, partition: PartitionImage) -> bytes:
        return place

    return list(partition_changes(cluster.controller, locate, Elections(**elections)))


def left_leaderless(topic_id: bytes, partition: int, **fields: Any) -> ApiMessageAndVersion:
    return ApiMessageAndVersion(PartitionChangeRecord(partition, topic_id, leader=-1, **fields), 2)


def test_after_a_crash_every_partition_gets_a_new_epoch_and_otherwise_those_without_a_leader() -> None:
    cluster = Cluster()
    cluster.create("t", 2)
    topic = cluster.image.topics["t"]
    cluster.apply([left_leaderless(topic.id, 1, isr=[], eligible_leader_replicas=[1], last_known_elr=[1])])
    clean = changes(cluster, leaderless=True)
    assert [record.message.partition_id for record in clean] == [1]
    cluster.apply(changes(cluster, leaderless=True, all_partitions=True))
    first, second = topic.partitions.values()
    assert (first.leader, first.leader_epoch) == (1, 1)
    assert (second.leader, second.isr, second.elr, second.last_known_elr, second.leader_epoch) == (1, (1,), (), (), 2)


def test_a_partition_whose_log_lags_is_not_led_by_it() -> None:
    cluster = Cluster(2)
    cluster.create("t", 1, 2)
    cluster.apply([left_leaderless(cluster.image.topics["t"].id, 0, isr=[2])])
    assert changes(cluster, leaderless=True, all_partitions=True) == []


def test_a_directory_is_told_once() -> None:
    cluster = Cluster()
    cluster.create("t", 2)
    assert changes(cluster) == []
    told = changes(cluster, OTHER)
    assert [(each.message.directories, each.message.leader, each.version) for each in told] == [([OTHER], -2, 2)] * 2
    cluster.apply(told)
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.directories, partition.leader_epoch, partition.partition_epoch) == ((OTHER,), 0, 1)
    assert changes(cluster, OTHER) == []


def test_what_has_no_log_yet_is_led_all_the_same() -> None:
    cluster = Cluster()
    cluster.create("t")
    assert changes(cluster, UNASSIGNED, leaderless=True) == []


def test_what_is_out_of_reach_has_no_leader_and_gets_it_back() -> None:
    cluster = Cluster()
    cluster.create("t")
    cluster.apply(changes(cluster, LOST))
    partition = cluster.image.topics["t"].partitions[0]
    # as a 4.4.0 broker records it
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (1,), (1,))
    assert partition.directories == (DIRECTORY,)
    assert changes(cluster, LOST, leaderless=True, all_partitions=True) == []
    cluster.apply(changes(cluster, leaderless=True))
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr, partition.leader_epoch) == (1, (1,), (), 2)


def test_others_in_sync_stay() -> None:
    cluster = Cluster(2)
    cluster.create("t", 1, 2)
    cluster.apply(changes(cluster, LOST))
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (-1, (1, 2))


def test_without_eligible_leaders_the_last_one_stays_in_sync() -> None:
    cluster = Cluster()
    cluster.apply([ApiMessageAndVersion(FeatureLevelRecord("eligible.leader.replicas.version", 0), 0)])
    cluster.create("t")
    cluster.apply(changes(cluster, LOST))
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr) == (-1, (1,), ())


def test_before_directories_were_recorded_none_is_told() -> None:
    cluster = Cluster()
    cluster.create("t")
    cluster.apply([ApiMessageAndVersion(FeatureLevelRecord("metadata.version", 16), 0)])
    assert changes(cluster, OTHER) == []


def test_directories_of_the_other_replicas() -> None:
    partition = PartitionImage(0, (3, 1), (3, 1), 3)
    assert directories_with(partition, 1, DIRECTORY) == [MIGRATING, DIRECTORY]
    partition.directories = (OTHER, UNASSIGNED)
    assert directories_with(partition, 1, DIRECTORY) == [OTHER, DIRECTORY]


def test_a_replica_is_offline_with_its_broker_or_its_directory() -> None:
    cluster = Cluster()
    cluster.create("t")
    partition, broker = cluster.image.topics["t"].partitions[0], cluster.image.brokers[1]
    assert not cluster.image.is_offline(partition, 1)
    for directory, offline in ((OTHER, True), (LOST, True), (UNASSIGNED, False), (MIGRATING, False)):
        partition.directories = (directory,)
        assert cluster.image.is_offline(partition, 1) is offline
    partition.directories = (OTHER,)
    broker.log_dirs = ()  # a broker that does not tell
    assert not cluster.image.is_offline(partition, 1)
    broker.fenced = True
    assert cluster.image.is_offline(partition, 1)
    del cluster.image.brokers[1]
    assert cluster.image.is_offline(partition, 1)


def test_a_start_finds_nobody_else_in_sync() -> None:
    cluster = Cluster(2)
    cluster.create("t", 2, 2)
    topic = cluster.image.topics["t"]
    cluster.apply([ApiMessageAndVersion(PartitionChangeRecord(1, topic.id, leader=2), 2)])
    assert changes(cluster) == [], "as long as it runs it believes what the metadata says"
    cluster.apply(changes(cluster, leaderless=True))
    led, taken_over = topic.partitions.values()
    assert (led.leader, led.isr, led.replicas, led.leader_epoch) == (1, (1,), (1, 2), 0)
    assert (taken_over.leader, taken_over.isr, taken_over.leader_epoch) == (1, (1,), 2)
    assert changes(cluster, leaderless=True) == []


def test_what_is_out_of_reach_at_a_start_keeps_who_is_in_sync() -> None:
    cluster = Cluster(2)
    cluster.create("t", 1, 2)
    cluster.apply(changes(cluster, LOST, leaderless=True))
    assert cluster.image.topics["t"].partitions[0].isr == (1, 2)
