"""Requests of brokers to their controller, on its listener: ISRs, directories, blocks of producer ids."""

from __future__ import annotations

from pathlib import Path

from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages import alter_partition_request, assign_replicas_to_dirs_request
from pykafka_broker.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from pykafka_broker.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState
from pykafka_broker.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest, DirectoryData
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tests.broker.controller_node import ControllerNode

GONE = b"gone" * 4


def with_topic(directory: Path) -> tuple[ControllerNode, bytes]:
    """Make a topic that broker 1 leads and broker 2 follows."""
    node = ControllerNode(directory)
    node.join(1, 2)
    topic = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, [1, 2])])
    return node, node.ask(CreateTopicsRequest([topic])).topics[0].topic_id


def test_a_leader_changes_the_isr(tmp_path: Path) -> None:
    node, topic_id = with_topic(tmp_path)
    epoch = node.image.brokers[1].epoch
    wanted = alter_partition_request.PartitionData(0, new_isr_with_epochs=[BrokerState(1, epoch)])
    topics = [alter_partition_request.TopicData(topic_id=topic_id, partitions=[wanted])]
    answer = node.ask(AlterPartitionRequest(1, epoch, topics)).topics[0].partitions[0]
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (0, [1], 1)
    assert node.image.topics["t"].partitions[0].isr == (1,)
    assert node.ask(AlterPartitionRequest(1, epoch + 1, topics)).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_replica_in_a_directory_that_is_not_there_leads_no_more(tmp_path: Path) -> None:
    node, topic_id = with_topic(tmp_path)
    partitions = [assign_replicas_to_dirs_request.PartitionData(0)]
    directories = [DirectoryData(GONE, [assign_replicas_to_dirs_request.TopicData(topic_id, partitions)])]
    answer = node.ask(AssignReplicasToDirsRequest(1, node.image.brokers[1].epoch, directories))
    assert answer.directories[0].topics[0].partitions[0].error_code == 0
    partition = node.image.topics["t"].partitions[0]
    assert (partition.directories[0], partition.isr, partition.leader) == (GONE, (2,), 2)


def test_producer_ids_come_in_blocks(tmp_path: Path) -> None:
    node, _ = with_topic(tmp_path)
    blocks = [node.ask(AllocateProducerIdsRequest(each, node.image.brokers[each].epoch)) for each in (1, 2)]
    assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [(0, 1000), (1000, 1000)]
