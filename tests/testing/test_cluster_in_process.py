"""A cluster whose nodes are threads of the test's process: what one with processes does, it does."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

from pykafka_broker.testing import BrokerError, ControlError, KafkaCluster, WaitTimeout
from pykafka_broker.testing.in_process import BrokerInProcess

INTERNAL = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=2, config=INTERNAL, in_process=True, history=True) as cluster:
        assert all(isinstance(node._process, BrokerInProcess) for node in cluster.nodes.values())
        yield cluster


@pytest.fixture
def cluster(shared: KafkaCluster) -> KafkaCluster:
    shared.reset()
    shared.history.clear()
    return shared


def values(cluster: KafkaCluster) -> list[object]:
    return [record.value for record in cluster.records("orders")]


def test_a_cluster_that_runs_is_entered_with_a_loop(cluster: KafkaCluster) -> None:
    """A running cluster is entered with `async with` too. The test never leaves it, since that would stop its nodes."""

    async def use() -> str:
        entered = await cluster.__aenter__()
        return entered.bootstrap_servers

    assert asyncio.run(use()) == cluster.bootstrap_servers


def test_clients_outlive_a_killed_leader(cluster: KafkaCluster) -> None:
    cluster.create_topic("orders")
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
    producer.send("orders", b"1").get(TIMEOUT_S)
    leader = cluster.leader_of("orders")
    cluster.broker(leader).kill()
    assert not cluster.broker(leader).running
    producer.send("orders", b"2").get(TIMEOUT_S)
    cluster.broker(leader).start()
    cluster.wait_for_isr("orders", size=2, timeout=TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    assert [next(consumer).value for _ in range(2)] == [b"1", b"2"]
    consumer.close()
    assert cluster.check() == []


def test_a_reset_needs_no_silence_of_clients(cluster: KafkaCluster) -> None:
    """Clients look for their group's coordinator, and so make the topic of offsets anew, at once."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.is_set():
            with suppress(ControlError):
                cluster.coordinator("lasting")

    client = threading.Thread(target=go_on)
    client.start()
    try:
        cluster.create_topic("orders")
        cluster.commit("lasting", "orders", 0)
        cluster.reset()
    finally:
        ended.set()
        client.join()
    assert cluster.topics() == cluster.groups() == []


def test_clock_and_faults(cluster: KafkaCluster) -> None:
    cluster.create_topic("orders")
    before = cluster.clock.now()
    assert cluster.clock.advance(hours=1) >= before + 3_600_000
    with cluster.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=1) as fault:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, retries=5)
        producer.send("orders", b"1").get(TIMEOUT_S)
        producer.close()
        assert fault.hits == 1
    assert values(cluster) == ["1"]


def test_state(cluster: KafkaCluster) -> None:
    cluster.create_topic("orders")
    cluster.produce("orders", ["1"])
    cluster.snapshot("one")
    cluster.produce("orders", ["2"])
    with cluster.fork() as fork:
        assert fork.broker(1).in_process
        assert values(fork) == ["1", "2"]
    cluster.restore("one")
    assert values(cluster) == ["1"]


def test_a_node_without_a_process_has_no_id(cluster: KafkaCluster) -> None:
    with pytest.raises(BrokerError, match="in_process=True"):
        _ = cluster.broker(1).pid


def test_on_an_event_loop_and_nothing_is_left() -> None:
    async def main() -> None:
        async with KafkaCluster(brokers=1, config=INTERNAL, in_process=True) as cluster:
            await cluster.create_topic("orders")
            async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send_and_wait("orders", b"1")
            assert [each.value for each in await cluster.records("orders")] == ["1"]

    before = _brokers()
    asyncio.run(main())
    assert _brokers() <= before


def _brokers() -> set[threading.Thread]:
    """Return the threads of brokers; those that other tests have left may end at any time."""
    return {each for each in threading.enumerate() if each.name == "pykafka-broker"}


def test_records_that_nobody_can_read_are_not_missing() -> None:
    """Assertions about records of a dead leader time out: no live node knows the records."""
    with KafkaCluster(brokers=2, config=INTERNAL, in_process=True) as cluster:
        cluster.create_topic("orders", replication_factor=1)
        cluster.produce("orders", ["1"])
        leader = cluster.leader_of("orders")
        fault = cluster.faults.add(api="Produce", nth=99, delay_ms=1)
        cluster.history.start()
        cluster.broker(leader).kill()
        for in_vain in (
            lambda: cluster.assert_records("orders", [], timeout=0.5),
            lambda: cluster.assert_contains("orders", ["1"]),
        ):
            with pytest.raises(WaitTimeout, match="orders"):
                in_vain()
        with pytest.raises(WaitTimeout, match="orders"):
            cluster.assert_no_more("orders", within_ms=1)
        with pytest.raises(BrokerError, match=f"broker {leader} is not running, and its history has ended with it"):
            cluster.check()
        assert list(fault.describe()["nodes"]) == [3 - leader]
        assert fault.remove() == 0
        cluster.broker(3 - leader).kill()
        with pytest.raises(BrokerError, match="has ended with the brokers"):
            fault.describe()


def test_at_an_address_of_version_6() -> None:
    with socket.socket(socket.AF_INET6) as there:
        try:
            there.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"this machine has no ::1: {error}")
    with KafkaCluster(brokers=2, host="::1", config=INTERNAL, in_process=True) as cluster:
        assert cluster.bootstrap_servers.count("[::1]:") == 2
        cluster.create_topic("orders")
        cluster.produce("orders", ["1"])
        assert values(cluster) == ["1"]
