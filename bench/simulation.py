"""How many seeds a minute a small application is simulated for, and what a broker within the process costs.

    python -m bench.simulation [--seeds 100]

Rule: the application is a producer and a group of two consumers of aiokafka on three brokers, with two partitions. The
leader of the first is killed in the middle; every record that was acknowledged is read.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time

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


def measure_seeds(seeds: int) -> None:
    simulate(work_through_a_kill(0), limit_s=LIMIT_S)  # imports
    begun, cpu, virtual_ms = time.perf_counter(), time.process_time(), 0
    for seed in range(seeds):
        virtual_ms += simulate(work_through_a_kill(seed), limit_s=LIMIT_S).arrivals[-1].at_ms
    wall_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu
    print(f"{seeds} seeds: {seeds / wall_s * 60:.0f} a minute, {seeds / cpu_s * 60:.0f} a minute of CPU time")
    print(f"  {cpu_s / seeds * 1000:.0f} ms of CPU time for {virtual_ms / seeds / 1000:.1f} virtual seconds")


def measure_brokers(count: int) -> None:
    KafkaBroker(in_process=True).start().close()  # imports
    brokers, walls, cpus = [], [], []
    for _ in range(count):
        begun, cpu = time.perf_counter(), time.process_time()
        broker = KafkaBroker(in_process=True).start()
        walls.append(time.perf_counter() - begun)
        cpus.append(time.process_time() - cpu)
        brokers.append(broker)
    for broker in brokers:
        broker.close()
    middle = count // 2
    print(
        f"a broker within the process, of {count}: {sorted(walls)[middle] * 1000:.1f} ms, "
        f"{sorted(cpus)[middle] * 1000:.1f} ms of CPU time"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="seeds a minute of a small simulation; brokers within the process")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=50)
    options = parser.parse_args()
    logging.disable(logging.ERROR)  # what clients say about killed brokers
    measure_brokers(options.brokers)
    measure_seeds(options.seeds)


if __name__ == "__main__":
    main()
