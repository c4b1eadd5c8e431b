"""Releases of the Python clients that people still run, each fetched into a folder of its own: only with `--slow`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop.toolchains import made_once

FOLDERS = Path(__file__).resolve().parents[1] / ".cache" / "clients"

KAFKA_PYTHON = """
import sys
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
bootstrap, topic = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", compression_type="gzip", linger_ms=10)
for i in range(100):
    producer.send(topic, key=b"k", value=b"%d" % i)
producer.flush()
consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id="old-" + topic, auto_offset_reset="earliest")
values = [int(next(consumer).value) for _ in range(100)]
assert values == list(range(100)), values
consumer.commit()
assert consumer.committed(TopicPartition(topic, 0)) == 100
assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 100}
consumer.close()
"""
AIOKAFKA = """
import asyncio, sys
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
async def main(bootstrap, topic):
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    await producer.start()
    for i in range(100):
        await producer.send_and_wait(topic, b"%d" % i, key=b"k")
    await producer.stop()
    settings = {"group_id": "old-" + topic, "auto_offset_reset": "earliest"}
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **settings)
    await consumer.start()
    assert [int((await consumer.getone()).value) for _ in range(100)] == list(range(100))
    await consumer.commit()
    await consumer.stop()
asyncio.run(main(*sys.argv[1:]))
"""
CONFLUENT = """
import sys
from confluent_kafka import Consumer, Producer, TopicPartition
bootstrap, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
for i in range(100):
    producer.produce(topic, b"%d" % i, key=b"k")
assert producer.flush(60) == 0
settings = {"bootstrap.servers": bootstrap, "group.id": "old-" + topic, "auto.offset.reset": "earliest"}
consumer = Consumer(settings)
consumer.subscribe([topic])
values = []
while len(values) < 100:
    message = consumer.poll(60)
    assert message is not None and message.error() is None, message
    values.append(int(message.value()))
assert values == list(range(100))
consumer.commit(asynchronous=False)
assert consumer.committed([TopicPartition(topic, 0)], timeout=60)[0].offset == 100
consumer.close()
"""
PYKAFKA = """
import sys
from pykafka import KafkaClient
from pykafka.common import OffsetType
bootstrap, name = sys.argv[1:]
client = KafkaClient(hosts=bootstrap)
topic = client.topics[name.encode()]
for compression in (0, 1, 2):
    settings = {"min_queued_messages": 1, "linger_ms": 5, "required_acks": -1}
    with topic.get_producer(compression=compression, **settings) as producer:
        for i in range(50):
            producer.produce(b"%d" % i, partition_key=b"k")
settings = {"consumer_group": name.encode(), "auto_offset_reset": OffsetType.EARLIEST, "consumer_timeout_ms": 20_000}
consumer = topic.get_balanced_consumer(managed=True, **settings)
assert sorted(int(consumer.consume().value) for _ in range(150)) == sorted(3 * list(range(50)))
consumer.commit_offsets()
assert [offset for _, offset in consumer.held_offsets.items()] == [149]
consumer.stop()
assert topic.latest_available_offsets()[0].offset == [150]
"""
RELEASES = [
    *(("kafka-python", version, KAFKA_PYTHON) for version in ("1.4.7", "2.0.2", "2.2.15")),
    *(("aiokafka", version, AIOKAFKA) for version in ("0.8.1", "0.10.0", "0.11.0")),
    *(("confluent-kafka", version, CONFLUENT) for version in ("2.0.2", "2.3.0")),
    ("pykafka", "2.8.0", PYKAFKA),
]
BESIDES = {"aiokafka-0.8.1": ["kafka-python==2.0.2"], "pykafka-2.8.0": ["kazoo", "setuptools<81", "six", "tabulate"]}


def folder_of(package: str, version: str) -> Path:
    folder = FOLDERS / f"{package}-{version}"
    wanted = [f"{package}=={version}", *BESIDES.get(folder.name, [])]
    fetch = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *wanted]
    return made_once(folder, " ".join(wanted), lambda: subprocess.run(fetch, check=True))


@pytest.mark.slow
@pytest.mark.parametrize(("package", "version", "script"), RELEASES, ids=[f"{p}-{v}" for p, v, _ in RELEASES])
def test_an_old_release(package: str, version: str, script: str, bootstrap: str, topic: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder_of(package, version))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, bootstrap, topic],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
