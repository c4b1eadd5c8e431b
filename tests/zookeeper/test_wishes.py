"""Nodes that tools write, as requests: also those that no tool should have written."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.protocol.enums import ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from pykafka_broker.zookeeper import wishes


def test_nodes_of_topics() -> None:
    assert wishes.assignment_of({"version": 1, "partitions": {"0": [1], "1": [2, 1]}}) == {0: [1], 1: [2, 1]}
    refused: list[Any] = [None, 5, {}, {"partitions": 5}, {"partitions": {"a": [1]}}, {"partitions": {"0": 1}}]
    refused.append({"partitions": {"0": [float("inf")]}})  # JSON that Python reads
    for nonsense in refused:
        assert wishes.assignment_of(nonsense) == {}


def test_nodes_of_admin() -> None:
    node = {"partitions": [{"topic": "a", "partition": 0, "replicas": [2]}, {"topic": "a", "partition": 1}]}
    assert wishes.partitions_of(node) == [("a", 0, [2]), ("a", 1, [])]
    refused: list[Any] = [None, [], {"partitions": 5}, {"partitions": [{"topic": "a"}]}]
    for nonsense in refused:
        assert wishes.partitions_of(nonsense) == []


def test_a_topic_with_everything() -> None:
    request: Any = wishes.topic_creation("a", {1: [2], 0: [1]}, {"retention.ms": "5"})
    [topic] = request.topics
    assert [(each.partition_index, each.broker_ids) for each in topic.assignments] == [(0, [1]), (1, [2])]
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(each.name, each.value) for each in topic.configs] == [("retention.ms", "5")]
    grown: Any = wishes.topic_growth("a", {0: [1], 1: [2], 2: [3]}, 1)
    assert (grown.topics[0].count, [each.broker_ids for each in grown.topics[0].assignments]) == (3, [[2], [3]])


def test_settings_are_taken_as_a_whole() -> None:
    image = MetadataImage()
    image.configs[ConfigResourceType.TOPIC, "a"] = {"retention.ms": "1", "segment.ms": "2"}
    assert wishes.config_change("topics/a", {"retention.ms": "1", "segment.ms": "2"}, image) is None
    request: Any = wishes.config_change("topics/a", {"retention.ms": "5", "retention.bytes": "6"}, image)
    ops = {each.name: (each.config_operation, each.value) for each in request.resources[0].configs}
    assert ops == {"retention.ms": (0, "5"), "retention.bytes": (0, "6"), "segment.ms": (1, None)}


def test_quotas_without_the_credentials_beside_them() -> None:
    image = MetadataImage()
    image.client_quotas[("user", "a"),] = {"producer_byte_rate": 1.0}
    scram = {"SCRAM-SHA-256": "salt=x,iterations=4096"}
    assert wishes.config_change("users/a", {"producer_byte_rate": "1", **scram}, image) is None
    image.client_quotas[("user", "b"),] = {"producer_byte_rate": float("nan")}
    assert wishes.config_change("users/b", {"producer_byte_rate": "NaN"}, image) is None
    request: Any = wishes.config_change("users/a", {"consumer_byte_rate": "2", **scram}, image)
    ops = {each.key: None if each.remove else each.value for each in request.entries[0].ops}
    assert ops == {"consumer_byte_rate": 2.0, "producer_byte_rate": None}
    assert wishes.config_change("nonsense/a", {"consumer_byte_rate": "2"}, image) is None


@pytest.mark.parametrize(
    ("code", "count"), [(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, 0), (ErrorCode.INVALID_REPLICA_ASSIGNMENT, 1)]
)
def test_refusals_are_found_wherever_they_are(code: ErrorCode, count: int) -> None:
    partition = ReassignablePartitionResponse(3, code, "no")
    answer = AlterPartitionReassignmentsResponse(responses=[ReassignableTopicResponse("a", [partition])])
    assert len(list(wishes.refusals(answer))) == count
    wanted = [("a", 3, [1]), ("a", 4, [1])]
    assert wishes.begun_reassignments(wanted, answer) == wanted[1:]
    answer.error_code = code
    assert wishes.begun_reassignments(wanted, answer) == wishes.begun_reassignments(wanted, None) == []
