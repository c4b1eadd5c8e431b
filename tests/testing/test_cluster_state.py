"""Snapshots and forks of a cluster: the state of all nodes at one moment, as a power cut everywhere would leave it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from errno import ENOSPC
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from pykafka_broker.control.history.facts import Produced
from pykafka_broker.control.history.findings import evidence_of
from pykafka_broker.testing import AsyncKafkaCluster, BrokerError, ControlError, KafkaCluster, NewRecord

INTERNAL = {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3, config=INTERNAL, in_process=True) as running:
        yield running


@pytest.fixture
def cluster(shared: KafkaCluster) -> KafkaCluster:
    shared.reset()
    for each in shared.snapshots():
        shared.delete_snapshot(each["name"])
    return shared


def test_a_snapshot_has_all_directories_of_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dirs = f"{tmp_path}/a, {tmp_path}/b"  # Kafka reads a list without the blanks
    with KafkaCluster(1, configs={1: {"log.dirs": dirs}}, in_process=True) as cluster:
        cluster.create_topic("orders", 2)
        cluster.produce("orders", ["1", "2"])
        cluster.snapshot("two")
        cluster.produce("orders", ["3", "4"])
        cluster.restore("two")
        assert sorted(map(str, values(cluster))) == ["1", "2"]
    assert {each.name for each in tmp_path.iterdir()} == {"a", "b"}


def test_a_snapshot_that_failed_can_be_repeated(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create_topic("orders")

    def full(source: str, target: str) -> None:
        raise OSError(ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", full)
        with pytest.raises(OSError, match="no room"):
            cluster.snapshot("one")
    assert cluster.snapshots() == []
    cluster.snapshot("one")
    cluster.produce("orders", ["1"])
    cluster.restore("one")
    assert values(cluster) == []


def values(cluster: KafkaCluster, topic: str = "orders") -> list[object]:
    return [record.value for record in cluster.records(topic, limit=100_000)]


def test_a_snapshot_has_records_offsets_topics_and_settings(cluster: KafkaCluster) -> None:
    cluster.create_topic("orders")
    cluster.produce("orders", ["1", "2"])
    cluster.commit("billing", "orders", 1)
    cluster.delete_records("orders", 1)
    first = cluster.partition("orders")
    (topic,) = cluster.topics()
    assert cluster.snapshot("two")["size_bytes"] > 0
    cluster.produce("orders", ["3"])
    cluster.commit("billing", "orders", 3)
    cluster.create_topic("later")
    for leader in (*first["isr"], *first["isr"]):
        cluster.move_leader("orders", leader)
    seen = cluster.partition("orders")["leader_epoch"]
    cluster.broker(2).kill()
    for _ in range(2):  # as often as one likes
        cluster.restore("two")
        assert values(cluster) == ["2"]
        assert cluster.topics() == [topic]
        assert [each["committed"] for each in cluster.group("billing")["offsets"]] == [1]
        assert all(broker.running for broker in cluster.brokers)
        assert cluster.wait_for_isr("orders", size=3)
        assert cluster.partition("orders")["leader_epoch"] > seen
        cluster.produce("orders", ["other"])
        assert values(cluster) == ["2", "other"]


@pytest.fixture
def processes() -> Iterator[KafkaCluster]:
    """A cluster of processes: the other nodes run on while one node makes its part of a snapshot."""
    with KafkaCluster(brokers=2, config=INTERNAL) as running:
        yield running


@pytest.mark.whole
def test_whatever_is_acknowledged_before_is_there_and_nothing_twice(processes: KafkaCluster) -> None:
    cluster = processes
    cluster.create_topic("orders")
    producer = Producer(cluster.client_config("confluent") | {"enable.idempotence": True, "linger.ms": 1})
    acknowledged: list[object] = []
    over = Event()

    def delivered(error: KafkaError | None, message: object) -> None:
        assert error is None
        acknowledged.append(message)

    def write() -> None:
        number = 0
        while not over.is_set():
            while number - len(acknowledged) > 1_000 and not over.is_set():
                producer.poll(0.01)
            producer.produce("orders", str(number), on_delivery=delivered)
            number += 1
            producer.poll(0.0005)
        producer.flush(60)

    def wait_for_more(count: int) -> int:
        enough = len(acknowledged) + count
        while len(acknowledged) < enough:
            assert writer.is_alive()
            over.wait(0.01)
        return len(acknowledged)

    writer = Thread(target=write)
    writer.start()
    before: dict[str, int] = {}  # how many were acknowledged, by the snapshot that came then
    try:
        for name in ("at-0", "at-1", "at-2", "at-3", "at-4"):
            before[name] = wait_for_more(100)
            cluster.snapshot(name)
        wait_for_more(1_100)  # more than are on their way at once: some of them are in no snapshot
    finally:
        over.set()
        writer.join()
    assert [each["name"] for each in cluster.snapshots()] == sorted(before)
    for name in ("at-0", "at-4"):
        cluster.restore(name)
        found = values(cluster)
        assert found == [str(number) for number in range(len(found))], name
        assert len(found) >= before[name]
    assert len(found) < len(acknowledged)


def test_an_idempotent_producer_goes_on_whose_latest_records_are_undone(cluster: KafkaCluster) -> None:
    cluster.create_topic("orders")
    producer = Producer(cluster.client_config("confluent") | {"enable.idempotence": True})
    failed: list[object] = []

    def send(value: str) -> None:
        producer.produce("orders", value, on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(60) == 0

    send("before")
    cluster.snapshot("one")
    send("undone")
    send("undone too")
    cluster.restore("one")
    send("after")
    assert failed == []
    assert values(cluster) == ["before", "after"]


def test_a_fork_goes_its_own_way(cluster: KafkaCluster) -> None:
    cluster.create_topic("orders")
    open_one = Producer(cluster.client_config("confluent") | {"transactional.id": "open"})
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce("orders", "in a transaction")
    assert open_one.flush(30) == 0
    cluster.broker(3).stop()
    with cluster.fork() as other:
        assert not cluster.broker(3).running
        assert other.cluster_id == cluster.cluster_id
        assert not {*other.bootstrap_servers.split(",")} & {*cluster.bootstrap_servers.split(",")}
        assert len(other.records("orders", isolation_level="read_uncommitted")) == 1
        later = Producer(other.client_config("confluent") | {"transactional.id": "open"})
        later.init_transactions(30)  # which aborts there what is open here
        other.produce("orders", ["2"])
        assert values(other) == ["2"]
        assert other.wait_for_isr("orders", size=3)
    open_one.commit_transaction(30)  # answered once the outcome is on disk; markers follow
    cluster.wait_for_transaction("open", "CompleteCommit")
    assert values(cluster) == ["in a transaction"]


@pytest.mark.whole
def test_the_clock_stays_as_it_was_moved(cluster: KafkaCluster) -> None:
    cluster.create_topic("orders")
    cluster.snapshot("now")
    cluster.clock.advance(hours=1)
    moved = cluster.clock.freeze()
    cluster.restore("now")
    assert cluster.clock.frozen
    assert moved <= cluster.clock.now() < moved + 600_000


def test_a_snapshot_needs_a_name_and_a_controller(cluster: KafkaCluster) -> None:
    for name in ("", ".hidden", "a/b"):
        with pytest.raises(ValueError, match="can't be the name of a snapshot"):
            cluster.snapshot(name)
    with pytest.raises(ControlError, match="there is no snapshot a; there are none") as refused:
        cluster.restore("a")
    assert refused.value.status == 404
    cluster.snapshot("b")
    with pytest.raises(ControlError, match="there is no snapshot a; there are b"):
        cluster.delete_snapshot("a")
    cluster.controller.kill()
    with pytest.raises(BrokerError, match="the controller of the cluster is not running"):
        cluster.fork()


@pytest.mark.whole
@pytest.mark.parametrize(
    "form",
    [
        {"brokers": 2, "controllers": 0, "in_process": True},
        {"brokers": 1, "security": "sasl_plaintext", "users": {"alice": "secret"}},
    ],
)
def test_clusters_of_other_forms(form: dict[str, Any]) -> None:
    with KafkaCluster(config=INTERNAL, **form) as cluster:
        cluster.create_topic("orders")
        cluster.produce("orders", ["1"])
        cluster.snapshot("one")
        cluster.produce("orders", ["2"])
        with cluster.fork() as other:
            producer = Producer(other.client_config("confluent"))
            producer.produce("orders", "3")
            assert producer.flush(30) == 0
            assert values(other) == ["1", "2", "3"]
        cluster.restore("one")
        assert values(cluster) == ["1"]


def test_the_form_for_an_event_loop() -> None:
    async def scenario() -> None:
        async with AsyncKafkaCluster(brokers=1, config=INTERNAL, in_process=True) as cluster:
            await cluster.create_topic("orders")
            await cluster.produce("orders", ["1"])
            await cluster.snapshot("one")
            await cluster.produce("orders", ["2"])
            async with cluster.fork() as other:
                assert len(await other.records("orders")) == 2
            await cluster.restore("one")
            assert len(await cluster.records("orders")) == 1
            assert [each["name"] for each in await cluster.snapshots()] == ["one"]
            await cluster.delete_snapshot("one")
            assert await cluster.snapshots() == []

    asyncio.run(scenario())


def test_directories_of_the_config_are_not_shared(tmp_path: object) -> None:
    with KafkaCluster(brokers=1, configs={1: {"log.dirs": f"{tmp_path}/logs"}}, in_process=True) as cluster:
        cluster.create_topic("orders")
        cluster.snapshot("empty")
        cluster.produce("orders", ["1"])
        with pytest.raises(BrokerError, match="can't be forked"):
            cluster.fork()
        cluster.restore("empty")
        assert values(cluster) == []


def test_a_reset_begins_new_histories() -> None:
    """Facts from before, by a clock that was ahead, would seem to come after what follows."""
    with KafkaCluster(2, in_process=True, history=True) as cluster:
        cluster.clock.advance(minutes=1)
        for value in ("before", "after"):
            cluster.create_topic("t", 2, replication_factor=1)
            cluster.produce("t", [NewRecord(value, partition=partition) for partition in range(2)])
            if value == "before":
                cluster.reset()
        evidence = evidence_of(cluster._histories())
        assert evidence.whole
        assert sorted((each.partition, each.offset) for each in evidence.of(Produced)) == [(0, 0), (1, 0)]
        assert cluster.check() == []
