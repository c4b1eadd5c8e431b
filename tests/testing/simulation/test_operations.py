"""The operations of every cluster, in a simulated one: data, clock, faults, requests, history, the whole state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from pykafka_broker.testing import AnomaliesFound, BrokerError, ControlError, RecordsDiffer, WaitTimeout
from pykafka_broker.testing.simulation import SimulatedCluster, simulate

LIMIT_S = 300.0
HOUR_MS = 3_600_000


def on_a_cluster(
    step: Callable[[SimulatedCluster], Coroutine[Any, Any, None]], brokers: int = 2, **options: Any
) -> SimulatedCluster:
    async def main() -> SimulatedCluster:
        async with SimulatedCluster(brokers=brokers, seed=3, **options) as cluster:
            await step(cluster)
            return cluster

    return simulate(main(), limit_s=LIMIT_S)


def producer_of(cluster: SimulatedCluster, **settings: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **settings)


async def values(cluster: SimulatedCluster, topic: str = "orders") -> list[object]:
    return [record.value for record in await cluster.records(topic)]


# -- data and waits


@pytest.mark.parametrize("brokers", [1, 3])
def test_data_waits_and_assertions(brokers: int) -> None:
    async def step(cluster: SimulatedCluster) -> None:
        topic = await cluster.create_topic("orders", partitions=2)
        assert (await cluster.topic("orders"))["topic_id"] == topic["topic_id"]
        assert topic["partitions"] == 2
        assert await cluster.create_topic("orders", 2, exist_ok=True) == topic
        for given in ({"partitions": 1}, {"partitions": 2, "config": {"retention.ms": 1}}):
            with pytest.raises(ControlError, match="topic orders exists with "):
                await cluster.create_topic("orders", exist_ok=True, **given)
        await cluster.produce("orders", ["1", "2", "3"])
        assert {*await values(cluster)} == {"1", "2", "3"}
        await cluster.commit("billing", "orders", 1)
        assert await cluster.lag("billing") >= 1
        with pytest.raises(RecordsDiffer):
            await cluster.assert_records("orders", ["1"])
        with pytest.raises(WaitTimeout):
            await cluster.wait_for_records("orders", 9, timeout=5)
        reading = asyncio.create_task(cluster.wait_for_records("orders", 4, timeout=60))
        async with producer_of(cluster) as producer:
            await producer.send_and_wait("orders", b"4")
        assert len(await reading) == 4
        assert {each["node_id"] for each in (await cluster.controller.cluster())["brokers"]} == {*range(1, brokers + 1)}

    on_a_cluster(step, brokers)


def test_a_group_is_waited_for() -> None:
    async def step(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders")
        await cluster.produce("orders", ["1"])
        async with AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer:
            group = await cluster.wait_for_group("g", "Stable", members=1)
            assert group["members"][0]["partitions"] == {"orders": [0]}
            await consumer.getone()
            await consumer.commit()
            assert await cluster.wait_for_lag("g", 0) == 0

    on_a_cluster(step)


# -- the clock


def test_the_clock_of_brokers_is_moved() -> None:
    async def step(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders", config={"retention.ms": HOUR_MS, "segment.ms": HOUR_MS // 2})
        await cluster.produce("orders", ["1"])
        loop, now_ms = asyncio.get_running_loop(), await cluster.clock.now()
        begun = loop.time()
        assert await cluster.clock.advance(hours=2) >= now_ms + 2 * HOUR_MS
        assert loop.time() - begun < 60  # clients have not waited for it
        await cluster.produce("orders", ["2"])
        await cluster.apply_retention("orders")
        assert await values(cluster) == ["2"]
        assert (await cluster.records("orders"))[0].timestamp >= now_ms + 2 * HOUR_MS

    on_a_cluster(step)


def test_the_clock_stands() -> None:
    async def step(cluster: SimulatedCluster) -> None:
        broker = cluster.broker(1)
        now_ms = await broker.clock.freeze()
        assert await broker.clock.frozen
        await asyncio.sleep(5)
        assert await broker.clock.now() == now_ms
        await broker.clock.advance(seconds=7)
        assert await broker.clock.now() == now_ms + 7_000
        await broker.clock.resume()
        await asyncio.sleep(1)
        assert now_ms + 8_000 <= await broker.clock.now() < now_ms + 9_000

    on_a_cluster(step, brokers=1)


# -- faults and requests


def test_requests_are_disturbed_and_looked_at() -> None:
    async def step(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders")
        async with cluster.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2) as fault:
            async with producer_of(cluster, client_id="shop") as producer:
                await producer.send_and_wait("orders", b"1")
            assert await fault.hits == 2
        loop = asyncio.get_running_loop()
        async with producer_of(cluster) as producer:
            async with cluster.faults.add(api="Produce", delay_ms=3_000, times=1):
                begun = loop.time()
                await producer.send_and_wait("orders", b"2")
                assert loop.time() - begun >= 3
            async with cluster.faults.add(api="Produce", drop="before", times=1) as dropped:
                await producer.send_and_wait("orders", b"3")
                assert await dropped.hits == 1
            async with cluster.faults.add(api="Produce", cut=True, times=1) as cut:
                await producer.send_and_wait("orders", b"4")
                assert await cut.hits == 1
        seen = await cluster.requests(api="Produce", client_id="shop")
        assert [each["errors"] for each in seen] == [["NOT_LEADER_OR_FOLLOWER"]] * 2 + [[]]
        assert (await values(cluster))[:3] == ["1", "2", "3"]
        assert not any(node.violations for node in cluster._nodes.values())

    on_a_cluster(step)


@pytest.mark.parametrize("connect", ["refuse", "hang"])
def test_connections_are_disturbed(connect: str) -> None:
    async def step(cluster: SimulatedCluster) -> None:
        async def refused() -> None:
            reader, _ = await asyncio.open_connection("n1", 9092)
            await reader.read()

        fault = await cluster.faults.add(connect=connect, times=1)
        if connect == "refuse":
            with pytest.raises(ConnectionError):
                await refused()
            return
        reader, writer = await asyncio.open_connection("n1", 9092)
        request = bytes.fromhex("0012 0000 0000002a ffff")
        writer.write(len(request).to_bytes(4, "big") + request)
        answer = asyncio.create_task(reader.readexactly(8))
        await asyncio.sleep(5)
        assert not answer.done()
        await fault.remove()
        assert (await answer)[4:] == b"\0\0\0*"

    on_a_cluster(step, brokers=1)


# -- the history


def test_what_an_application_did_is_checked(tmp_path: Path) -> None:
    async def step(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders")
        async with producer_of(cluster, enable_idempotence=True) as producer:
            for number in range(6):
                if number == 3:
                    cluster.leader("orders").kill()
                await producer.send_and_wait("orders", b"%d" % number)
        assert await cluster.check() == []  # with the history of the broker that is gone
        await cluster.calm()
        assert await cluster.check() == []

    on_a_cluster(step, brokers=3, history=True)


def test_a_lost_record_is_found() -> None:
    def lost(seed: int) -> list[str]:
        async def main() -> list[str]:
            async with SimulatedCluster(brokers=1, seed=seed, history=True) as cluster:
                await cluster.create_topic("orders")
                async with producer_of(cluster, acks=1) as producer:
                    for number in range(5):
                        await producer.send_and_wait("orders", b"%d" % number)
                await cluster.broker(1).cut_power()
                await cluster.calm()
                try:
                    await cluster.check()
                except AnomaliesFound as found:
                    return [each.anomaly for each in found.findings]
                return []

        return simulate(main(), limit_s=LIMIT_S)

    assert "lost write" in {anomaly for seed in range(8) for anomaly in lost(seed)}


def test_a_history_begins_and_ends() -> None:
    async def step(cluster: SimulatedCluster) -> None:
        with pytest.raises(ControlError, match="no history"):
            await cluster.check()
        await cluster.history.start()
        await cluster.create_topic("orders")
        await cluster.produce("orders", ["1"])
        assert await cluster.check() == []
        await cluster.history.stop()
        with pytest.raises(ControlError, match="no history"):
            await cluster.check()

    on_a_cluster(step)


# -- the whole state


@pytest.mark.parametrize("brokers", [1, 2])
def test_the_state_is_kept_restored_and_reset(brokers: int) -> None:
    async def step(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders")
        await cluster.produce("orders", ["1"])
        assert (await cluster.snapshot("one"))["size_bytes"] > 0
        await cluster.produce("orders", ["2"])
        epoch = (await cluster.partition("orders"))["leader_epoch"]
        cluster.broker(1).kill()
        for _ in range(2):
            await cluster.restore("one")
            assert await values(cluster) == ["1"]
            assert (await cluster.partition("orders"))["leader_epoch"] > epoch
            await cluster.produce("orders", ["other"])
        assert [each["name"] for each in await cluster.snapshots()] == ["one"]
        await cluster.delete_snapshot("one")
        with pytest.raises(ControlError, match="there are none"):
            await cluster.restore("one")
        await cluster.reset()
        assert await cluster.topics() == []
        assert await cluster.groups() == []

    on_a_cluster(step, brokers)


def test_a_restore_mends_disks() -> None:
    async def step(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("orders")
        await cluster.produce("orders", ["1"])
        await cluster.snapshot("sound")
        cluster.broker(2).break_disk()
        await cluster.snapshot("broken")
        for name in ("sound", "broken"):
            cluster.broker(1).break_disk()
            await cluster.restore(name)
            assert await values(cluster) == ["1"]
            await cluster.wait_for_isr("orders", size=2)

    on_a_cluster(step)


def test_a_disk_that_breaks_is_one_of_the_brokers() -> None:
    async def step(cluster: SimulatedCluster) -> None:
        with pytest.raises(ValueError, match=r"^there is no directory /data/log2: there are /data/logs$"):
            cluster.broker(1).break_disk("/data/log2")
        cluster.broker(1).break_disk("/data/logs/orders-0")

    on_a_cluster(step, brokers=1)


def test_the_state_is_the_clusters() -> None:
    async def step(cluster: SimulatedCluster) -> None:
        broker = cluster.broker(1)
        for refused in (broker.reset(), broker.snapshot("one"), broker.snapshots()):
            with pytest.raises(ControlError, match="its cluster's"):
                await refused
        with pytest.raises(BrokerError, match="can't be forked"):
            await broker.fork()

    on_a_cluster(step, brokers=1)


# -- a seed


async def look(seed: int) -> str:
    async with SimulatedCluster(brokers=2, seed=seed, history=True) as cluster:
        await cluster.create_topic("orders")
        await cluster.faults.add(api="Produce", delay_ms=20, probability=0.5, seed=seed)
        async with producer_of(cluster) as producer:
            for number in range(5):
                await producer.send_and_wait("orders", b"%d" % number)
        await cluster.wait_for_records("orders", 5)
        await cluster.clock.advance(seconds=30)
        assert await cluster.check() == []
        await cluster.calm()
        return cluster.trace


def test_operations_leave_a_seed_as_it_is() -> None:
    first = simulate(look(5), limit_s=LIMIT_S)
    assert first == simulate(look(5), limit_s=LIMIT_S)
    assert first != simulate(look(6), limit_s=LIMIT_S)
