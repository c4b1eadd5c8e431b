"""The seeds a minute that a small application is simulated for, and the cost of a broker within the process.

    python -m bench.simulation [--seeds 100]

Rule: the larger application is a producer and a group of two consumers of aiokafka on three brokers, with two
partitions. The leader of the first is killed in the middle; every record that was acknowledged is read. The smaller one
writes and reads three records on one broker.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import socket
import statistics
import struct
import time
from collections.abc import Callable, Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.simulation import SimulatedCluster, simulate

RECORDS = 12
LIMIT_S = 300.0


async def work_through_a_kill(seed: int) -> SimulatedCluster:
    """Run the application; return the cluster with its trace."""
    async with SimulatedCluster(brokers=3, seed=seed) as cluster:
        await cluster.create_topic("orders", partitions=2)
        servers, read = cluster.bootstrap_servers, set()

        async def consume() -> None:
            consumer = AIOKafkaConsumer(
                "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest"
            )
            await consumer.start()
            async for record in consumer:
                read.add(record.value)

        group = [asyncio.create_task(consume()) for _ in range(2)]
        async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True) as producer:
            for number in range(RECORDS):
                if number == RECORDS // 2:
                    cluster.leader("orders").kill()
                await producer.send_and_wait("orders", b"%d" % number, partition=number % 2)
            await cluster.until(lambda: len(read) == RECORDS)
        for member in group:
            member.cancel()
        await asyncio.gather(*group, return_exceptions=True)
        return cluster


async def write_and_read(seed: int) -> SimulatedCluster:
    """Write three records to one broker, and read them; return the cluster with its trace."""
    async with SimulatedCluster(brokers=1, seed=seed) as cluster:
        await cluster.create_topic("orders")
        servers = cluster.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            for number in range(3):
                await producer.send_and_wait("orders", b"%d" % number)
        async with AIOKafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            assert [(await consumer.getone()).value for _ in range(3)] == [b"0", b"1", b"2"]
        return cluster


def measure_seeds(run: Callable[[int], Coroutine[Any, Any, SimulatedCluster]], seeds: int) -> None:
    simulate(run(0), limit_s=LIMIT_S)  # imports
    begun, cpu, virtual_ms = time.perf_counter(), time.process_time(), 0
    for seed in range(seeds):
        virtual_ms += simulate(run(seed), limit_s=LIMIT_S).arrivals[-1].at_ms
    wall_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    print(f"{run.__name__}, {seeds} seeds: {seeds / wall_s * 60:.0f} a minute, {seeds / cpu_s * 60:.0f} of CPU time")
    print(f"  {cpu_s / seeds * 1000:.0f} ms of CPU time for {virtual_ms / seeds / 1000:.1f} virtual seconds")


def measure_brokers(count: int) -> None:
    KafkaBroker(in_process=True).start().close()  # imports
    brokers, cpus, walls, answered = [], [], [], []
    for _ in range(count):
        begun, cpu = time.perf_counter(), time.process_time()
        broker = KafkaBroker(in_process=True).start()
        cpus.append(time.process_time() - cpu)
        walls.append(time.perf_counter() - begun)
        ask_for_versions(broker.host, broker.port)
        answered.append(time.perf_counter() - begun)
        brokers.append(broker)
    for broker in brokers:
        broker.close()
    print(f"brokers within the process, the least and the median of {count}:")
    for what, times in (("CPU time of a start", cpus), ("a start", walls), ("the first answer after", answered)):
        print(f"  {what:<22} {min(times) * 1000:5.1f} {statistics.median(times) * 1000:5.1f} ms")


def ask_for_versions(host: str, port: int) -> None:
    request = struct.pack(">hhih", 18, 0, 1, -1)  # ApiVersions 0
    with socket.create_connection((host, port)) as client, client.makefile("rb") as answers:
        client.sendall(struct.pack(">i", len(request)) + request)
        answers.read(*struct.unpack(">i", answers.read(4)))


def main() -> None:
    parser = argparse.ArgumentParser(description="seeds a minute of a small simulation; brokers within the process")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=50)
    options = parser.parse_args()
    logging.disable(logging.ERROR)  # what clients say about killed brokers
    measure_brokers(options.brokers)
    measure_seeds(write_and_read, options.seeds)
    measure_seeds(work_through_a_kill, options.seeds)


if __name__ == "__main__":
    main()
