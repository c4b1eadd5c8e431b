"""Clusters whose logs begin later and later: retention and DeleteRecords while followers fetch, are away or are dead.

Rule: whichever program leads or follows, a returning follower gets in sync again, and acknowledged records stay.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from interop.batches import batch
from interop.cluster_clients import TIMEOUT_S, admin_at, in_sync
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster, Node
from interop.raw import RawClient
from interop.waiting import eventually
from pykafka_broker.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykafka_broker.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = [pytest.mark.java, pytest.mark.ours_only]

PATIENCE_S = 40
FIRST, BATCH = 200, 300  # records: one batch each
DELETED = 350  # within the second batch
EARLIEST, LATEST = -2, -1
OUR_LEADER, OUR_FOLLOWER, THEIR_BROKER = 1, 2, 3
CONFIG = {
    "replica.lag.time.max.ms": "4000",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.segment.delete.delay.ms": "500",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    directory = tmp_path_factory.mktemp("trimmed")
    with KafkaCluster(directory, controllers=[OURS], brokers=[OURS, OURS, THEIRS], config=CONFIG) as running:
        yield running


@pytest.fixture(autouse=True)
def whole_again(cluster: KafkaCluster) -> None:
    cluster.make_whole()


def make(cluster: KafkaCluster, topic: str, *replicas: int, **config: str) -> None:
    """Create a topic of one partition, led by the first of its replicas, and wait until all are in sync."""
    settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in config.items()}}
    admin = admin_at(cluster.bootstrap_servers)
    new = NewTopic(topic, 1, replica_assignment=[list(replicas)], config=settings)
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    wait_for_isr(cluster, topic, *replicas)
    wait_for_offset(cluster.broker(replicas[0]), topic, LATEST, 0)  # the leader knows that it leads


def wait_for_isr(cluster: KafkaCluster, topic: str, *replicas: int) -> None:
    live = ",".join(node.address for node in cluster.brokers if node.runs)
    eventually(lambda: in_sync(live, topic), {0: sorted(replicas)}, PATIENCE_S)


def append(leader: Node, topic: str, count: int) -> None:
    """Write one batch, acknowledged by the leader alone."""
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch(*[b"v"] * count))])]
    with RawClient(leader.address) as client:
        [answer] = client.call(ProduceRequest(None, 1, 10_000, data), 12).responses[0].partition_responses
    assert not answer.error_code


def offset(node: Node, topic: str, which: int) -> int:
    wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, which)])
    with RawClient(node.address) as client:
        [found] = client.call(ListOffsetsRequest(-1, 0, [wanted]), 7).topics[0].partitions
    return -1 if found.error_code else int(found.offset)


def wait_for_offset(node: Node, topic: str, which: int, expected: int) -> None:
    eventually(lambda: offset(node, topic, which), expected, PATIENCE_S)


def delete_records(leader: Node, topic: str, before: int) -> tuple[int, int]:
    """Delete the records before an offset; return the error code and the low watermark."""
    wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, before)])
    with RawClient(leader.address, timeout_s=30) as client:
        [answer] = client.call(DeleteRecordsRequest([wanted], 20_000), 2).topics[0].partitions
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize(
    ("follower", "leaders"), [(OUR_FOLLOWER, (OUR_LEADER, THEIR_BROKER)), (THEIR_BROKER, (OUR_LEADER,))]
)
def test_a_follower_comes_back_into_the_middle_of_a_batch(
    cluster: KafkaCluster, follower: int, leaders: tuple[int, ...]
) -> None:
    for leader in leaders:
        topic = f"middle-{leader}-{follower}"
        make(cluster, topic, leader, follower)
        append(cluster.broker(leader), topic, FIRST)
        wait_for_offset(cluster.broker(leader), topic, LATEST, FIRST)
    cluster.broker(follower).kill()
    for leader in leaders:
        topic = f"middle-{leader}-{follower}"
        wait_for_isr(cluster, topic, leader)
        append(cluster.broker(leader), topic, BATCH)
        wait_for_offset(cluster.broker(leader), topic, LATEST, FIRST + BATCH)
        begun = time.monotonic()
        assert delete_records(cluster.broker(leader), topic, DELETED) == (0, DELETED)
        assert time.monotonic() - begun < 25, "the dead are not waited for"
    cluster.broker(follower).start()
    for leader in leaders:
        topic = f"middle-{leader}-{follower}"
        wait_for_isr(cluster, topic, leader, follower)
        append(cluster.broker(leader), topic, 1)
        wait_for_offset(cluster.broker(leader), topic, LATEST, FIRST + BATCH + 1)
    for leader in leaders:  # the follower has the same records as the leader
        topic = f"middle-{leader}-{follower}"
        cluster.broker(leader).stop()
        wait_for_isr(cluster, topic, follower)
        wait_for_offset(cluster.broker(follower), topic, EARLIEST, DELETED)
        wait_for_offset(cluster.broker(follower), topic, LATEST, FIRST + BATCH + 1)
        cluster.broker(leader).start()


def test_retention_does_not_stop_replication(cluster: KafkaCluster) -> None:
    leaders = (OUR_LEADER, OUR_FOLLOWER, THEIR_BROKER)
    for leader in leaders:
        others = [each for each in leaders if each != leader]
        make(cluster, f"kept-{leader}", leader, *others, retention_bytes="1048576", segment_bytes="1048576")
    errors: list[object] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0, "delivery.timeout.ms": 20_000}
    )

    def all_trimmed_twice() -> bool:  # a segment has 53 of the records
        return all(offset(cluster.broker(each), f"kept-{each}", EARLIEST) > 53 for each in leaders)

    deadline = time.monotonic() + PATIENCE_S
    while not all_trimmed_twice():
        assert time.monotonic() < deadline, "retention was not at work"
        for _ in range(20):
            for leader in leaders:
                name = f"kept-{leader}"
                producer.produce(name, b"v" * 20_000, on_delivery=lambda e, _: errors.append(e) if e else None)
            producer.poll(0.02)
    assert producer.flush(60) == 0
    assert errors == []
    for leader in leaders:
        wait_for_isr(cluster, f"kept-{leader}", *leaders)


def test_deleting_records_waits_for_nobody_who_is_dead(cluster: KafkaCluster) -> None:
    make(cluster, "alone", OUR_LEADER, OUR_FOLLOWER, THEIR_BROKER)
    leader = cluster.broker(OUR_LEADER)
    append(leader, "alone", BATCH)
    wait_for_isr(cluster, "alone", OUR_LEADER, OUR_FOLLOWER, THEIR_BROKER)
    wait_for_offset(leader, "alone", LATEST, BATCH)
    assert delete_records(leader, "alone", 10) == (0, 10)
    for gone in (OUR_FOLLOWER, THEIR_BROKER):
        cluster.broker(gone).kill()
    wait_for_isr(cluster, "alone", OUR_LEADER)
    begun = time.monotonic()
    assert delete_records(leader, "alone", 20) == (0, 20)
    assert time.monotonic() - begun < 25
    for back in (OUR_FOLLOWER, THEIR_BROKER):
        cluster.broker(back).start()
    wait_for_isr(cluster, "alone", OUR_LEADER, OUR_FOLLOWER, THEIR_BROKER)
    assert delete_records(leader, "alone", 30) == (0, 30)


# -- copies that are made anew

ABORTED, CUT, COMMITTED = 10, 5, 10  # records of a transaction, the new start within it, records of the next one


def append_transactions(cluster: KafkaCluster, topic: str, leader: int) -> None:
    """Write an aborted transaction at 0 to 9 and a committed one at 11 to 20; the log starts within the aborted one."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic, "linger.ms": 50})
    producer.init_transactions(PATIENCE_S)
    for count, end in ((ABORTED, producer.abort_transaction), (COMMITTED, producer.commit_transaction)):
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic, b"v", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        end(PATIENCE_S)
    wait_for_offset(cluster.broker(leader), topic, LATEST, ABORTED + COMMITTED + 2)
    assert delete_records(cluster.broker(leader), topic, CUT) == (0, CUT)


def offsets_read(cluster: KafkaCluster, topic: str, isolation_level: str) -> list[int]:
    """Return the offsets of all records that a consumer gets."""
    config = {"group.id": topic, "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**config, "bootstrap.servers": cluster.bootstrap_servers, "isolation.level": isolation_level})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message.offset() or 0)
        elif error.code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return found
    raise AssertionError(f"{topic} has no end: {found}")


def assert_whole(cluster: KafkaCluster, topic: str, leader: int) -> None:
    """Check that the broker that leads now has the same records as the leader before."""
    wait_for_offset(cluster.broker(leader), topic, EARLIEST, CUT)
    committed = list(range(ABORTED + 1, ABORTED + 1 + COMMITTED))
    assert offsets_read(cluster, topic, "read_committed") == committed
    assert offsets_read(cluster, topic, "read_uncommitted") == [*range(CUT, ABORTED), *committed]


@pytest.mark.parametrize(
    ("source", "target"), [(OUR_LEADER, OUR_FOLLOWER), (OUR_LEADER, THEIR_BROKER), (THEIR_BROKER, OUR_FOLLOWER)]
)
def test_a_trimmed_partition_moves_to_a_broker_without_it(cluster: KafkaCluster, source: int, target: int) -> None:
    topic = f"moves-{source}-{target}"
    make(cluster, topic, source)
    append_transactions(cluster, topic, source)
    wanted = ReassignableTopic(topic, [ReassignablePartition(0, [target])])
    with RawClient(cluster.broker(source).address) as client:
        [moved] = client.call(AlterPartitionReassignmentsRequest(10_000, topics=[wanted]), 0).responses
    assert not moved.partitions[0].error_code
    wait_for_isr(cluster, topic, target)
    assert_whole(cluster, topic, target)


@pytest.mark.parametrize(
    ("leader", "follower"), [(OUR_LEADER, OUR_FOLLOWER), (OUR_LEADER, THEIR_BROKER), (THEIR_BROKER, OUR_FOLLOWER)]
)
def test_a_follower_with_a_wiped_disk_copies_a_trimmed_partition(
    cluster: KafkaCluster, leader: int, follower: int
) -> None:
    topic = f"wiped-{leader}-{follower}"
    make(cluster, topic, leader, follower)
    append_transactions(cluster, topic, leader)
    node = cluster.broker(follower)
    node.stop()
    wait_for_isr(cluster, topic, leader)
    for path in (node.directory / "data-0").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "meta.properties":
            path.unlink()
    node.start()
    wait_for_isr(cluster, topic, leader, follower)
    cluster.broker(leader).stop()
    wait_for_isr(cluster, topic, follower)
    assert_whole(cluster, topic, follower)
