"""Ordinary clients use the broker's short ways for at least nine of ten Produce and Fetch requests.

Rule: a client writes its records one after the other and reads them, with its default settings.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from interop import toolchains
from interop.java import QUICK_JVM, java_command, kafka_classpath
from pykafka_broker.testing import KafkaBroker
from tests.control.api.test_metrics import Metrics

RECORDS = 300
LEAST = 0.9
Traffic = Callable[[str, str], None]


def kafka_python(bootstrap: str, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number).get(30)
    with KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=500
    ) as consumer:
        assert [next(consumer).value for _ in range(RECORDS)][-1] == b"%d" % (RECORDS - 1)


def confluent(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number)
        producer.flush(60)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 1000,
        }
    )
    consumer.subscribe([topic])
    messages = [consumer.poll(60) for _ in range(RECORDS)]
    assert all(message is not None and message.error() is None for message in messages)
    consumer.close()


def aiokafka(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(RECORDS):
                await producer.send_and_wait(topic, b"%d" % number)
        settings = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 500}
        async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **settings) as consumer:
            for _ in range(RECORDS):
                await consumer.getone()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def java(bootstrap: str, topic: str) -> None:
    def run(tool: str, *arguments: str) -> None:
        jvm = (*QUICK_JVM, "-Xmx64m", "-cp", kafka_classpath())
        command = java_command(*jvm, f"org.apache.kafka.tools.{tool}", *arguments)
        subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)

    sizes = ("--num-records", str(RECORDS), "--record-size", "100", "--throughput", "200")
    run(
        "ProducerPerformance",
        "--topic",
        topic,
        *sizes,
        "--producer-props",
        f"bootstrap.servers={bootstrap}",
        "batch.size=200",
    )
    some = ("--fetch-size", "500", "--timeout", "60000")
    run("ConsumerPerformance", "--topic", topic, "--bootstrap-server", bootstrap, "--messages", str(RECORDS), *some)


def franz_go(bootstrap: str, topic: str) -> None:
    subprocess.run([*toolchains.go("plain"), bootstrap, topic, str(RECORDS)], check=True, timeout=120)


@pytest.mark.parametrize("traffic", [kafka_python, confluent, aiokafka, java, franz_go], ids=lambda each: each.__name__)
def test_nearly_all_that_a_plain_client_asks_goes_the_short_way(traffic: Traffic) -> None:
    with KafkaBroker() as broker:
        broker.create_topic("plain")
        traffic(broker.bootstrap_servers, "plain")
        told = Metrics(broker)
    for request in ("Produce", "Fetch"):
        short, general = (
            told("pykafka_broker_requests_by_way_total", request=request, way=way) or 0 for way in ("short", "general")
        )
        assert short >= LEAST * (short + general), f"{request}: {short} short, {general} general"
        assert short + general >= RECORDS / 20
