"""Clients that ask the wrong broker: one of ours and one of Kafka's send them to each other in the same words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from interop.batches import batch
from interop.kafka_cluster import NOBODY_DIES, OURS, THEIRS, KafkaCluster, Node
from interop.raw import RawClient
from interop.waiting import eventually
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from pykafka_broker.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pykafka_broker.protocol.messages.share_fetch_request import AcknowledgementBatch as FetchedBatch
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition as SharePartition
from pykafka_broker.protocol.messages.share_fetch_request import FetchTopic as ShareTopic
from pykafka_broker.protocol.messages.share_fetch_request import ShareFetchRequest
from pykafka_broker.protocol.runtime import Message

pytestmark = [pytest.mark.ours_only, pytest.mark.java]
TOPIC = "t"
# Two partitions with replicas on both brokers, and two with one replica, for each broker.
REPLICAS = [[1, 2], [2, 1], [1], [2]]
LEADERS = [1, 2, 1, 2]
MEMBER = ("g", "m" * 22)
TIMEOUT_MS = 10_000


def leaders_told_by(node: Node) -> list[int]:
    """Return the leaders by a broker's own metadata: an admin client would ask any broker."""
    with RawClient(node.address) as client:
        [topic] = client.call(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 12).topics
    return [each.leader_id for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))]


def lead_by(cluster: KafkaCluster, replicas: list[list[int]]) -> None:
    """Move the partitions to other replicas, with the first of them as leaders."""
    address = cluster.broker(1).address
    moves = [ReassignablePartition(index, those) for index, those in enumerate(replicas)]
    with RawClient(address) as client:
        client.call(AlterPartitionReassignmentsRequest(TIMEOUT_MS, topics=[ReassignableTopic(TOPIC, moves)]), 1)

    def elected(node: Node) -> list[int]:
        with RawClient(address) as client:
            every = [TopicPartitions(TOPIC, [*range(len(replicas))])]
            client.call(ElectLeadersRequest(0, every, TIMEOUT_MS), 2)
        return leaders_told_by(node)

    for node in cluster.brokers:
        eventually(partial(elected, node), [those[0] for those in replicas])


@pytest.fixture(scope="module", params=[THEIRS, OURS], ids=["their-controller", "our-controller"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    directory = tmp_path_factory.mktemp("leaders")
    with KafkaCluster(directory, controllers=[request.param], brokers=[OURS, THEIRS], config=NOBODY_DIES) as running:
        spread = [CreatableReplicaAssignment(index, those) for index, those in enumerate([[1, 2], [2, 1]] * 2)]
        with RawClient(running.broker(1).address) as client:
            client.call(CreateTopicsRequest([CreatableTopic(TOPIC, -1, -1, spread)], TIMEOUT_MS), 7)
        lead_by(running, [[2, 1], [1, 2], *REPLICAS[2:]])
        lead_by(running, REPLICAS)
        yield running


def asked(topic_id: bytes, partition: int, current: int) -> Iterator[tuple[int, Message]]:
    """Yield versions and requests for a partition; current: its leader epoch."""
    records = [TopicProduceData(TOPIC, topic_id, [PartitionProduceData(partition, batch(b"v"))])]
    for version in (9, 10, 12, 13):
        yield version, ProduceRequest(None, 1, 1000, records)
    for version in (11, 12, 15, 16, 18):
        for epoch in (-1, current - 1, current, current + 1):
            wanted = FetchPartition(partition, epoch, partition_max_bytes=1000)
            yield version, FetchRequest(topics=[FetchTopic(TOPIC, topic_id, [wanted])])


def asked_by_member(topic_id: bytes, partition: int, current: int) -> Iterator[tuple[int, Message]]:
    """Yield versions and requests of a member of a share group."""
    acknowledged = [ShareTopic(topic_id, [SharePartition(partition, 0, [FetchedBatch(0, 0, [1])])])]
    for version in (1, 2):
        wanted = [ShareTopic(topic_id, [SharePartition(partition)])]
        yield version, ShareFetchRequest(*MEMBER, 0, 0, 0, 1000, 10, 10, topics=wanted)
        yield version, ShareFetchRequest(*MEMBER, 1, 0, 0, 1000, 10, 10, topics=acknowledged)
        last = [AcknowledgeTopic(topic_id, [AcknowledgePartition(partition, [AcknowledgementBatch(0, 0, [1])])])]
        yield version, ShareAcknowledgeRequest(*MEMBER, -1, topics=last)


def told(node: Node, other: Node, partition: int, asked: Callable[..., Iterator[tuple[int, Message]]]) -> list[Any]:
    """Return the errors, leaders and endpoints in a broker's answers."""
    names = {node.id: "asked", node.port: "asked", other.id: "other", other.port: "other"}
    with RawClient(node.address) as client:
        [topic] = client.call(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 12).topics
        [epoch] = [one.leader_epoch for one in topic.partitions if one.partition_index == partition]
        eventually(lambda: _knows(client, topic.topic_id, partition, epoch), True)
        requests = asked(topic.topic_id, partition, epoch)
        return [_told(client.call(request, version), names, epoch) for version, request in requests]


def _knows(client: RawClient, topic_id: bytes, partition: int, epoch: int) -> bool:
    """Return whether a broker's partition has the epoch in the broker's metadata, which may be ahead in Kafka."""
    wanted = FetchPartition(partition, epoch, partition_max_bytes=1000)
    answer = client.call(FetchRequest(topics=[FetchTopic(TOPIC, topic_id, [wanted])]), 12)
    [partition_answer] = answer.responses[0].partitions
    return ErrorCode(partition_answer.error_code) != ErrorCode.UNKNOWN_LEADER_EPOCH


def _told(answer: Any, names: dict[int, str], current: int) -> Any:
    topics = getattr(answer, "responses", ())
    partitions = [one for topic in topics for one in getattr(topic, "partitions", None) or topic.partition_responses]
    leaders = [(one.current_leader.leader_id, one.current_leader.leader_epoch) for one in partitions]
    return (
        type(answer).__name__,
        [(one.error_code, getattr(one, "acknowledge_error_code", 0)) for one in partitions],
        [(names[leader_id], epoch == current) if leader_id in names else epoch for leader_id, epoch in leaders],
        [(names[node.node_id], node.host, names[node.port], node.rack) for node in answer.node_endpoints],
    )


@pytest.mark.parametrize("partitions", [(0, 1), (1, 0), (2, 3), (3, 2)])
def test_a_client_is_sent_to_the_leader(cluster: KafkaCluster, partitions: tuple[int, int]) -> None:
    ours, theirs = cluster.brokers
    for each in [asked] if LEADERS[partitions[0]] == ours.id else [asked, asked_by_member]:
        assert told(ours, theirs, partitions[0], each) == told(theirs, ours, partitions[1], each)
