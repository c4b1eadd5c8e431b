"""A broker of a simulated cluster: what it does by a plain call may be awaited, as of a broker with a process."""

from __future__ import annotations

import asyncio

import pytest

from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.testing import AsyncKafkaBroker, BrokerError, ControlError
from pykafka_broker.testing.simulation import SimulatedCluster, simulate

LIMIT_S = 300.0


def test_it_reads_as_a_broker_with_a_process() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=2, seed=1) as cluster:
            broker = cluster.broker(2)
            assert isinstance(broker, AsyncKafkaBroker)
            await cluster.create_topic("orders")
            await broker.kill()
            assert not broker.running
            with pytest.raises(BrokerError, match="not running"):
                _ = broker.control
            with pytest.raises(BrokerError, match="not running"):
                await broker.pause()
            await broker.start()
            assert broker.running
            with pytest.raises(BrokerError, match="already running"):
                await broker.start()
            await cluster.wait_for_isr("orders", size=2)
            await broker.stop()
            assert not broker.running
            await broker.start()
            await broker.restart()
            await cluster.wait_for_isr("orders", size=2)
            assert broker.bootstrap_servers == f"{broker.host}:{broker.port}"
            with pytest.raises(BrokerError, match="no process"):
                _ = broker.pid

    simulate(main(), limit_s=LIMIT_S)


def test_a_process_that_hangs_and_a_disk_that_fills() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=1, seed=1) as cluster:
            broker = cluster.broker(1)
            await cluster.create_topic("orders")
            await broker.pause()
            reading = asyncio.create_task(cluster.ask(ApiVersionsRequest()))
            await asyncio.sleep(2)
            assert not reading.done()
            await broker.unpause()
            await reading
            await broker.fill_disk()
            with pytest.raises(ControlError, match="KAFKA_STORAGE_ERROR"):
                await broker.produce("orders", ["1"])
            await broker.free_disk()
            await cluster.calm()
            await cluster.produce("orders", ["2"])

    simulate(main(), limit_s=LIMIT_S)


def test_nodes_are_cut_off_and_clients_are_not() -> None:
    async def main() -> None:
        async with SimulatedCluster(brokers=3, seed=1) as cluster:
            await cluster.create_topic("orders")
            leader = cluster.leader("orders").id
            others = {node_id for node_id in cluster.nodes if node_id != leader}
            await cluster.partition_network({leader}, others)
            await cluster.wait_for_leader("orders", other_than=leader)
            await cluster.broker(leader).topics()
            await cluster.heal_network()
            await cluster.wait_for_isr("orders", size=3)

    simulate(main(), limit_s=LIMIT_S)
