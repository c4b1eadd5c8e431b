"""Decisions about topics on more than one broker, and what the recorded answers of one broker can't show."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, creatable_topic
from pykafka_broker.cluster.topics import create_partitions, create_topics, delete_topics
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.delete_topics_request import DeleteTopicsRequest
from pykafka_broker.protocol.stored.fence_broker_record import FenceBrokerRecord
from tests.cluster.support import DIRECTORY, Cluster

IN_TIME_MS = 1_000


def grow(cluster: Cluster, topic: str, count: int, assignments: Any = None, **fields: Any) -> Any:
    request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count, assignments)], IN_TIME_MS, **fields)
    return cluster.do(create_partitions(cluster.controller, request)).results[0]


def test_leaders_go_round_the_brokers() -> None:
    cluster = Cluster(3)
    cluster.create("t", 6, 2)
    partitions = cluster.image.topics["t"].partitions.values()
    assert sorted(partition.leader for partition in partitions) == [1, 1, 2, 2, 3, 3]
    assert all(
        partition.leader == partition.replicas[0] and partition.isr == partition.replicas for partition in partitions
    )
    assert all(partition.directories == (DIRECTORY, DIRECTORY) for partition in partitions)


def test_new_partitions_go_round_them_too() -> None:
    cluster = Cluster(3)
    cluster.create("t", 3, 1)
    assert grow(cluster, "t", 6).error_code == 0
    partitions = cluster.image.topics["t"].partitions.values()
    assert sorted(partition.leader for partition in partitions) == [1, 1, 2, 2, 3, 3]


def test_fenced_brokers_get_nothing_and_are_not_in_sync() -> None:
    cluster = Cluster(2)
    cluster.apply([ApiMessageAndVersion(FenceBrokerRecord(2, 12), 0)])
    assert cluster.create("t", 2, 1).error_code == 0
    assert [partition.leader for partition in cluster.image.topics["t"].partitions.values()] == [1, 1]
    cluster.create("u", -1, -1, assignments=[CreatableReplicaAssignment(0, [2, 1])])
    partition = cluster.image.partition("u", 0)
    assert partition is not None
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1,), 1)
    refused = cluster.create("v", -1, -1, assignments=[CreatableReplicaAssignment(0, [2])])
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused.error_message == (
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown."
    )


def test_without_a_usable_broker_there_is_no_placement() -> None:
    cluster = Cluster()
    cluster.apply([ApiMessageAndVersion(FenceBrokerRecord(1, 11), 0)])
    result = cluster.create("t")
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert result.error_message == (
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned."
    )


def test_replica_counts_of_manual_assignments_must_agree() -> None:
    cluster = Cluster(2)
    result = cluster.create(
        "t", -1, -1, assignments=[CreatableReplicaAssignment(0, [1, 2]), CreatableReplicaAssignment(1, [1])]
    )
    assert result.error_message == (
        "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
        "previous partitions, which have 2 replica(s)."
    )
    cluster.create("u", 1, 1)
    assert (
        grow(cluster, "u", 2, [CreatePartitionsAssignment([1, 2])]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


def test_a_repeated_config_holds_its_last_value() -> None:
    cluster = Cluster()
    configs = [CreatableTopicConfig("retention.ms", "1"), CreatableTopicConfig("retention.ms", "2")]
    result = cluster.create("t", configs=configs)
    assert cluster.image.topic_config("t") == {"retention.ms": "2"}
    shown = {config.name: config for config in result.configs}
    assert (shown["retention.ms"].value, shown["retention.ms"].config_source) == ("2", 1)


def test_validate_only_writes_nothing() -> None:
    cluster = Cluster()
    request = CreateTopicsRequest([CreatableTopic("t", 1, 1)], validate_only=True)
    effects = create_topics(cluster.controller, request, 7)
    assert effects.records == []
    assert effects.reply.topics[0].error_code == 0
    cluster.create("u")
    assert grow(cluster, "u", 5, validate_only=True).error_code == 0
    assert len(cluster.image.topics["u"].partitions) == 1


def test_defaults_are_the_brokers() -> None:
    cluster = Cluster(2, num_partitions="3", default_replication_factor="2")
    result = cluster.create("t", -1, -1)
    assert (result.num_partitions, result.replication_factor) == (3, 2)


def test_9999_partitions_are_the_most_of_one_request() -> None:
    cluster = Cluster()
    assert cluster.create("t", 9_999).error_code == 0
    assert cluster.create("u", 10_000).error_code == ErrorCode.POLICY_VIOLATION
    assert grow(cluster, "t", 9_999 + 10_001).error_code == ErrorCode.POLICY_VIOLATION
    wanted = [CreatePartitionsTopic("t", 16_000, None), CreatePartitionsTopic("s", 6_000, None)]
    many = CreatePartitionsRequest(wanted, IN_TIME_MS)
    cluster.create("s")
    results = cluster.do(create_partitions(cluster.controller, many)).results
    assert [result.error_code for result in results] == [0, ErrorCode.POLICY_VIOLATION]


def test_a_topic_created_again_is_another_one() -> None:
    cluster = Cluster()
    first = cluster.create("t").topic_id
    request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=IN_TIME_MS)
    cluster.do(delete_topics(cluster.controller, request, 5))
    assert cluster.image.topics == {}
    assert cluster.create("t").topic_id != first


def test_messages_are_left_out_where_all_is_well() -> None:
    cluster = Cluster()
    assert cluster.create("t").error_message is None
    assert grow(cluster, "t", 2).error_message is None


@pytest.mark.parametrize(
    ("name", "partitions", "configs"),
    [
        (
            CONSUMER_OFFSETS,
            50,
            {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
        ),
        (
            TRANSACTION_STATE,
            50,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",
                "segment.bytes": "104857600",
                "unclean.leader.election.enable": "false",
            },
        ),
        (
            SHARE_GROUP_STATE,
            50,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": "1",
                "retention.ms": "-1",
                "segment.bytes": "104857600",
            },
        ),
    ],
)
def test_internal_topics_need_no_settings_on_one_broker(name: str, partitions: int, configs: dict[str, str]) -> None:
    cluster = Cluster()
    request = CreateTopicsRequest([creatable_topic(name, cluster.controller.config, 1)])
    result = cluster.do(create_topics(cluster.controller, request, 7)).topics[0]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, partitions, 1)
    assert cluster.image.topic_config(name) == configs


def test_internal_topics_take_the_brokers_settings() -> None:
    cluster = Cluster(offsets_topic_num_partitions="5", offsets_topic_segment_bytes="2000000")
    topic = creatable_topic(CONSUMER_OFFSETS, cluster.controller.config, 1)
    assert topic.num_partitions == 5
    assert {config.name: config.value for config in topic.configs}["segment.bytes"] == "2000000"
