"""Three brokers of ours and their controller: what clients see of a failover."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from interop.cluster_load import PATIENCE_S, Load, read
from pykafka_broker.broker.coordinators.coordinator_log import partition_for
from pykafka_broker.testing import ControlError, KafkaCluster

pytestmark = pytest.mark.ours_only


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3, config={"min.insync.replicas": 2, "offsets.topic.num.partitions": 3}) as running:
        yield running


@pytest.fixture(autouse=True)
def whole_again(cluster: KafkaCluster) -> Iterator[None]:
    yield
    cluster.heal_network()
    for node in cluster.nodes.values():
        if not node.running:
            node.start()


def load_on(cluster: KafkaCluster, topic: str) -> Load:
    """Return a load on a topic of one partition, with several requests under way."""
    return Load(cluster.bootstrap_servers, topic, 1, **{"max.in.flight": 5})


def test_a_topic_has_a_replica_on_each(cluster: KafkaCluster) -> None:
    cluster.create_topic("replicated", partitions=3)
    leaders = {cluster.leader_of("replicated", partition) for partition in range(3)}
    assert leaders == {1, 2, 3}
    for partition in range(3):
        cluster.wait_for_isr("replicated", partition, nodes=[1, 2, 3])


def test_an_early_client_gets_internal_topics_with_all_replicas() -> None:
    with contextlib.closing(KafkaCluster(brokers=3)) as forming:
        forming._make_nodes()
        for node_id in (100, 1):
            forming._nodes[node_id].start()
        producer = Producer({"bootstrap.servers": forming._nodes[1].bootstrap_servers, "transactional.id": "early"})
        with pytest.raises(KafkaException, match="_TIMED_OUT"):
            producer.init_transactions(1.5)
        for node_id in (2, 3):
            forming._nodes[node_id].start()
        producer.init_transactions(PATIENCE_S)
        assert sorted(forming.partition("__transaction_state")["replicas"]) == [1, 2, 3]


@pytest.mark.parametrize("ends", ["kill", "stop"])
def test_nothing_is_lost_when_the_leader_goes(cluster: KafkaCluster, ends: str) -> None:
    topic = f"leader-{ends}"
    cluster.create_topic(topic)
    leader = cluster.leader_of(topic)
    with load_on(cluster, topic) as load:
        load.wait_for(100)
        getattr(cluster.broker(leader), ends)()
        assert cluster.wait_for_leader(topic, other_than=leader) != leader
        load.wait_for(100)
        cluster.broker(leader).start()
        cluster.wait_for_isr(topic, size=3)
        load.wait_for(100)
    load.check()


def test_a_leader_may_be_moved_while_producers_write(cluster: KafkaCluster) -> None:
    cluster.create_topic("moved")
    with load_on(cluster, "moved") as load:
        for to in (1, 2, 3, 1):
            cluster.move_leader("moved", to)
            assert cluster.leader_of("moved") == to
            load.wait_for(50)
    load.check()


def test_a_follower_that_is_cut_off_leaves_the_isr_and_comes_back(cluster: KafkaCluster) -> None:
    cluster.create_topic("cut")
    leader = cluster.leader_of("cut")
    follower = next(each for each in (1, 2, 3) if each != leader)
    with load_on(cluster, "cut") as load:
        load.wait_for(50)
        cluster.partition_network({follower}, {each for each in (1, 2, 3, 100) if each != follower})
        cluster.wait_for_isr("cut", size=2)
        load.wait_for(50)
        cluster.heal_network()
        cluster.wait_for_isr("cut", size=3)
    load.check()


def test_too_few_in_sync_are_told(cluster: KafkaCluster) -> None:
    cluster.create_topic("few")
    leader = cluster.leader_of("few")
    others = [each for each in (1, 2, 3) if each != leader]
    for other in others:
        cluster.broker(other).kill()
    cluster.wait_for_isr("few", nodes=[leader])
    settings = {"bootstrap.servers": cluster.broker(leader).bootstrap_servers, "delivery.timeout.ms": 30_000}
    producer = Producer({**settings, "retries": 0, "log_level": 0})
    told: list[KafkaError | None] = []
    producer.produce("few", b"x", on_delivery=lambda error, _: told.append(error))
    producer.flush(40)
    assert told[0] is not None
    assert told[0].code() == KafkaError.NOT_ENOUGH_REPLICAS
    for other in others:
        cluster.broker(other).start()
    cluster.wait_for_isr("few", size=3)


def test_a_group_goes_on_when_its_coordinator_dies(cluster: KafkaCluster) -> None:
    cluster.create_topic("grouped")
    with load_on(cluster, "grouped") as load:
        load.wait_for(50)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "survivors",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["grouped"])
    got: list[bytes | None] = []

    def poll() -> None:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            got.append(message.value())

    def poll_until(count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(got) < count and time.monotonic() < deadline:
            poll()
        assert len(got) >= count

    def commit(offset: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                consumer.commit(offsets=[TopicPartition("grouped", 0, offset)], asynchronous=False)
                return
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                poll()  # takes part in a rebalance, and may get a record

    poll_until(20)
    commit(20)
    coordinator = cluster.leader_of("__consumer_offsets", partition_for("survivors", 3))
    cluster.broker(coordinator).kill()
    poll_until(40)
    commit(40)
    consumer.close()
    assert got == load.done[0][: len(got)]
    again = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "survivors", "log_level": 0})
    (position,) = again.committed([TopicPartition("grouped", 0)], timeout=PATIENCE_S)
    again.close()
    assert position.offset == 40


@pytest.mark.parametrize("ends", ["coordinator", "leader"])
def test_transactions_stay_whole_when_a_broker_dies(cluster: KafkaCluster, ends: str) -> None:
    topic = f"transactions-{ends}"
    cluster.create_topic(topic)
    # One request at a time: as `Load`.
    settings = {"transactional.id": f"tx-{ends}", "max.in.flight": 1, "log_level": 0}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    producer.init_transactions(PATIENCE_S)
    coordinator = cluster.leader_of("__transaction_state", partition_for(f"tx-{ends}", 50))
    leader = coordinator % 3 + 1
    cluster.move_leader(topic, leader)
    kept: list[bytes] = []
    for number in range(11):  # the last one commits
        producer.begin_transaction()
        values = [b"%d-%d" % (number, each) for each in range(3)]
        for value in values:
            producer.produce(topic, value, partition=0)
        if number == 4:
            cluster.broker(coordinator if ends == "coordinator" else leader).kill()
        if number % 3 == 2:
            producer.flush(PATIENCE_S)  # an abort before the first delivery is fatal: librdkafka's issue 4849
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
            kept += values
    cluster.wait_for_transaction(f"tx-{ends}", "CompleteCommit", PATIENCE_S)  # markers are written after the answer
    assert read(cluster.bootstrap_servers, topic, 0, "read_committed") == kept


def test_the_controller_may_be_away_for_a_while(cluster: KafkaCluster) -> None:
    cluster.create_topic("without-controller")
    with load_on(cluster, "without-controller") as load:
        load.wait_for(50)
        cluster.controller.kill()
        load.wait_for(100)
        cluster.controller.start()
        with contextlib.suppress(Exception):
            cluster.create_topic("with-controller-again")
        cluster.wait_for_isr("without-controller", size=3)
        load.wait_for(50)
    load.check()
    cluster.create_topic("after-the-controller")


def test_what_only_a_node_alone_can_do_is_refused(cluster: KafkaCluster) -> None:
    cluster.create_topic("not-alone")
    broker = cluster.broker(1)
    attempts = (
        broker.reset,
        lambda: broker.snapshot("kept"),
        lambda: broker.restore("none"),
        broker.fork,
        broker.dump,
        lambda: broker.bump_leader_epoch("not-alone"),
    )
    for attempt in attempts:
        with pytest.raises(ControlError, match="belongs to a cluster") as refused:
            attempt()
        assert refused.value.status == 409
    with pytest.raises(ControlError, match="node 100 leads the metadata"):
        broker.move_leader("not-alone", 1)
