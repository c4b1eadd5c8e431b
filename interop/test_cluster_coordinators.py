"""Coordinators of ours and of Apache Kafka's in one cluster: each finds what it needs at the other.

Rule: everything is placed on purpose. Broker 1 is ours and has partition 0 of every topic, broker 2 is Kafka's and has
partition 1; an id or a group is chosen by the partition that its key falls into.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from interop.cluster_clients import configure_group
from interop.kafka_cluster import NOBODY_DIES, OURS, THEIRS, KafkaCluster
from interop.raw import RawClient
from interop.waiting import eventually
from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.coordinators.share.state import ShareKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka_broker.protocol.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pykafka_broker.protocol.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from pykafka_broker.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.records.builder import BatchBuilder

pytestmark = pytest.mark.java

OUR_BROKER, THEIR_BROKER = 1, 2
NAMES = {OUR_BROKER: "ours", THEIR_BROKER: "theirs"}
BOTH = (OUR_BROKER, THEIR_BROKER)
ACCEPT = 1
_COMPACTED = {"cleanup.policy": "compact"}
# Three for states: the key of a state falls into an even one of an even number if its group does.
INTERNAL: dict[str, tuple[int, dict[str, str]]] = {
    "__consumer_offsets": (2, _COMPACTED),
    "__transaction_state": (2, _COMPACTED),
    "__share_group_state": (3, {}),
}


# The requests that get a final answer while the markers of a commit are written; all others have to be repeated.
ENDING = {"a stranger's classic end": ErrorCode.PRODUCER_FENCED}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {
        **NOBODY_DIES,
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.share.heartbeat.interval.ms": "500",
        "group.share.min.heartbeat.interval.ms": "500",
    }
    with KafkaCluster(controllers=[OURS], brokers=[OURS, THEIRS], config=config) as cluster:
        for topic, (partitions, overrides) in INTERNAL.items():
            create(cluster, topic, partitions, **overrides)
        yield cluster


def create(cluster: KafkaCluster, topic: str, partitions: int = 2, **overrides: str) -> bytes:
    """Create a topic with partitions at each broker in turn; return its id."""
    placed = [number % 2 + 1 for number in range(partitions)]
    assignments = [CreatableReplicaAssignment(number, [broker]) for number, broker in enumerate(placed)]
    configs = [CreatableTopicConfig(key, value) for key, value in overrides.items()]
    with RawClient(cluster.broker(OUR_BROKER).address, 30) as client:
        [made] = client.call(CreateTopicsRequest([CreatableTopic(topic, -1, -1, assignments, configs)], 20_000)).topics
    assert made.error_code == ErrorCode.NONE, made.error_message
    for broker in BOTH:
        admin = AdminClient({"bootstrap.servers": cluster.broker(broker).address})
        eventually(partial(leaders, admin, topic), sorted(placed))
    return bytes(made.topic_id)


def leaders(admin: AdminClient, topic: str) -> list[int]:
    return sorted(each.leader for each in admin.list_topics(topic, timeout=60).topics[topic].partitions.values())


def key_at(broker: int, prefix: str) -> str:
    """Return a name whose coordinator is that broker."""
    names = (f"{prefix}-{NAMES[broker]}-{number}" for number in range(1000))
    return next(name for name in names if partition_for(name, 2) == broker - 1)


def topic_name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:6]}"


def committed(cluster: KafkaCluster, topic: str, count: int) -> list[str]:
    """Return the values that a read_committed reader sees, sorted, once exactly `count` are there."""
    settings = {"group.id": f"readers of {topic}", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in (0, 1)])
    values: list[str] = []

    def enough() -> int:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append((message.value() or b"").decode())
        return len(values)

    try:
        eventually(enough, count)
        assert consumer.poll(1) is None
    finally:
        consumer.close()
    return sorted(values)


@pytest.mark.parametrize("coordinator", BOTH, ids=NAMES.__getitem__)
def test_transactions_in_partitions_of_both(cluster: KafkaCluster, coordinator: int) -> None:
    topic = topic_name("t")
    create(cluster, topic)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": key_at(coordinator, topic)}
    )
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, f"{number} in {partition}", partition=partition)
        if number % 2:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    expected = [f"{number} in {partition}" for number in (0, 2, 4) for partition in (0, 1)]
    assert committed(cluster, topic, len(expected)) == expected


@pytest.mark.parametrize("groups", BOTH, ids=NAMES.__getitem__)
def test_offsets_of_a_transaction_whose_coordinator_is_the_other(cluster: KafkaCluster, groups: int) -> None:
    topic = topic_name("o")
    create(cluster, topic)
    group, other = key_at(groups, f"group-{topic}"), 3 - groups
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": key_at(other, topic)})
    producer.init_transactions(30)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        for number, commit in enumerate((True, False, True), 1):
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, number)], consumer.consumer_group_metadata(), 30
            )
            if commit:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
            expected = number if commit else number - 1
            eventually(lambda: consumer.committed([TopicPartition(topic, 0)], 10)[0].offset, expected)
    finally:
        consumer.close()


def transactional(producer: tuple[int, int], sequence: int, value: bytes) -> bytes:
    builder = BatchBuilder(
        producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence, transactional=True
    )
    builder.append(None, value, 1_700_000_000_000)
    return bytes(builder.build())


def new_producer(coordinating: RawClient, name: str) -> tuple[int, int]:
    """Return id and epoch of a producer, from a coordinator that may be loading its partition still."""
    request = InitProducerIdRequest(name, 60_000)
    eventually(lambda: coordinating.call(request).error_code, ErrorCode.NONE)
    made = coordinating.call(request)
    return made.producer_id, made.producer_epoch


@pytest.mark.parametrize("coordinator", BOTH, ids=NAMES.__getitem__)
def test_producing_is_joining_at_the_other(cluster: KafkaCluster, coordinator: int) -> None:
    """Producing adds the partition to the transaction through its leader, and each end raises the epoch (KIP-890)."""
    topic = topic_name("j")
    topic_id = create(cluster, topic)
    name, other = key_at(coordinator, topic), 3 - coordinator
    with (
        RawClient(cluster.broker(coordinator).address, 30) as coordinating,
        RawClient(cluster.broker(other).address, 30) as leading,
    ):

        def produced(producer: tuple[int, int], value: bytes) -> ErrorCode:
            data = PartitionProduceData(other - 1, transactional(producer, 0, value))
            request = ProduceRequest(name, -1, 10_000, [TopicProduceData(topic_id=topic_id, partition_data=[data])])
            return ErrorCode(leading.call(request, 13).responses[0].partition_responses[0].error_code)

        producer = new_producer(coordinating, name)
        ahead = producer[0], producer[1] + 5
        # A leader that does not know the coordinator yet says NOT_LEADER_OR_FOLLOWER.
        eventually(partial(produced, ahead, b"never"), ErrorCode.INVALID_PRODUCER_EPOCH)
        for number in range(4):
            eventually(partial(produced, producer, b"%d" % number), ErrorCode.NONE)
            ended = coordinating.call(EndTxnRequest(name, *producer, number % 2 == 0), 5)
            assert ended.error_code == ErrorCode.NONE
            producer = ended.producer_id, ended.producer_epoch
    assert committed(cluster, topic, 2) == ["0", "2"]


@pytest.mark.parametrize("coordinator", BOTH, ids=NAMES.__getitem__)
def test_who_goes_on_before_the_markers_are_written(cluster: KafkaCluster, coordinator: int) -> None:
    """Requests that follow a commit before its markers are written have to be repeated.

    The partition's leader is paused, so that the markers stay unwritten while the coordinator is asked.
    """
    topic = topic_name("e")
    topic_id = create(cluster, topic)
    name, other = key_at(coordinator, topic), 3 - coordinator
    with (
        RawClient(cluster.broker(coordinator).address, 30) as coordinating,
        RawClient(cluster.broker(other).address, 30) as leading,
    ):
        producer = new_producer(coordinating, name)
        data = [PartitionProduceData(other - 1, transactional(producer, 0, b"one"))]
        produce = ProduceRequest(name, -1, 10_000, [TopicProduceData(topic_id=topic_id, partition_data=data)])

        def produced() -> ErrorCode:
            return ErrorCode(leading.call(produce, 13).responses[0].partition_responses[0].error_code)

        eventually(produced, ErrorCode.NONE)
        cluster.broker(other).pause()
        try:
            ended = coordinating.call(EndTxnRequest(name, *producer, True), 5)
            assert ended.error_code == ErrorCode.NONE
            following, stranger = (ended.producer_id, ended.producer_epoch), (ended.producer_id, 77)
            joining = [AddPartitionsToTxnTopic(topic, [other - 1])]
            asked: dict[str, tuple[Message, int]] = {
                "the same end": (EndTxnRequest(name, *producer, True), 5),
                "the other end": (EndTxnRequest(name, *producer, False), 5),
                "the next commit": (EndTxnRequest(name, *following, True), 5),
                "the next abort": (EndTxnRequest(name, *following, False), 5),
                "a stranger's end": (EndTxnRequest(name, *stranger, False), 5),
                "a classic end": (EndTxnRequest(name, *following, False), 4),
                "a stranger's classic end": (EndTxnRequest(name, *stranger, False), 4),
                "joining": (AddPartitionsToTxnRequest([], name, *following, joining), 3),
                "a stranger's joining": (AddPartitionsToTxnRequest([], name, *stranger, joining), 3),
                "a new producer": (InitProducerIdRequest(name, 60_000), 4),
                "the producer anew": (InitProducerIdRequest(name, 60_000, *following), 4),
                "a stranger anew": (InitProducerIdRequest(name, 60_000, *stranger), 4),
            }
            told = {what: error_of(coordinating.call(*request)) for what, request in asked.items()}
        finally:
            cluster.broker(other).resume()
        assert told == dict.fromkeys(asked, ErrorCode.CONCURRENT_TRANSACTIONS) | ENDING
    assert committed(cluster, topic, 1) == ["one"]


def error_of(answer: Any) -> ErrorCode:
    if isinstance(answer, AddPartitionsToTxnResponse):
        return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    return ErrorCode(answer.error_code)


class ShareMember:
    """One member of a share group, whose coordinator and partition's leader are different brokers."""

    def __init__(
        self, cluster: KafkaCluster, group: str, coordinator: int, topic: str, topic_id: bytes, partition: int
    ):
        self.group, self.topic, self.topic_id, self.partition = group, topic, topic_id, partition
        self.member = str(uuid.uuid4())
        self.coordinating = RawClient(cluster.broker(coordinator).address, 30)
        self.leading = RawClient(cluster.broker(partition + 1).address, 30)
        self.epoch = self.session = 0
        self.assigned: set[tuple[bytes, int]] = set()

    def close(self) -> None:
        self.coordinating.close()
        self.leading.close()

    def beat(self) -> set[tuple[bytes, int]]:
        names = [self.topic] if not self.epoch else None
        request = ShareGroupHeartbeatRequest(self.group, self.member, self.epoch, None, names)
        answer = self.coordinating.call(request, 1)
        if answer.error_code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return self.assigned
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {
                (bytes(each.topic_id), number)
                for each in answer.assignment.topic_partitions
                for number in each.partitions
            }
        return self.assigned

    def fetch(self) -> list[tuple[int, int, int]]:
        topics = [FetchTopic(self.topic_id, [FetchPartition(self.partition)])] if not self.session else []
        request = ShareFetchRequest(self.group, self.member, self.session, 500, 1, 1 << 20, 100, 100, topics=topics)
        answer = self.leading.call(request, 1)
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self.session += 1
        return [
            (run.first_offset, run.last_offset, run.delivery_count)
            for topic in answer.responses
            for one in topic.partitions
            for run in one.acquired_records
        ]

    def acknowledge(self, first: int, last: int) -> ErrorCode:
        batches = [AcknowledgementBatch(first, last, [ACCEPT])]
        topics = [AcknowledgeTopic(self.topic_id, [AcknowledgePartition(self.partition, batches)])]
        answer = self.leading.call(ShareAcknowledgeRequest(self.group, self.member, self.session, topics=topics), 1)
        assert answer.error_code == ErrorCode.NONE
        self.session += 1
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    def described(self) -> list[Any]:
        """Return the index, start offset and lag of each partition."""
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(self.group, None)])
        [group] = self.coordinating.call(request, 1).groups
        assert group.error_code == ErrorCode.NONE, group.error_message
        found = [one for topic in group.topics for one in topic.partitions]
        return sorted((one.partition_index, one.start_offset, one.lag) for one in found)


@pytest.mark.parametrize("states", BOTH, ids=NAMES.__getitem__)
def test_shares_whose_states_are_at_the_other(cluster: KafkaCluster, states: int) -> None:
    """A share group works whose coordinator and state are at one broker and whose partition is led by the other."""
    topic = topic_name("s")
    topic_id, other = create(cluster, topic), 3 - states
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    partition = other - 1
    groups = (f"{topic}-{number}" for number in range(1000))
    group = next(
        name
        for name in groups
        if partition_for(name, 2) == other - 1
        and partition_for(ShareKey(name, topic_id, partition).coordinator_key(), 3) % 2 == states - 1
    )
    # The records may come before the leader has read the share group's state.
    configure_group([node.address for node in cluster.brokers], group, {"share.auto.offset.reset": "earliest"})
    member = ShareMember(cluster, group, other, topic, topic_id, partition)
    try:
        eventually(lambda: (topic_id, partition) in member.beat(), True)
        for number in range(4):
            producer.produce(topic, f"v{number}", partition=partition)
        assert producer.flush(60) == 0
        got: list[tuple[int, int, int]] = []

        def records() -> int:
            got.extend(member.fetch())
            return sum(last - first + 1 for first, last, _ in got)

        eventually(records, 4)
        assert member.acknowledge(0, 2) == ErrorCode.NONE
        eventually(lambda: [each for each in member.described() if each[0] == partition], [(partition, 0, 1)])
    finally:
        member.close()
