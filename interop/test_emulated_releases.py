"""Clients of today and of old, against this broker passing for each release of Kafka that they can talk to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as Partition

from interop import toolchains
from interop.test_languages import BOTH_LEVELS, run
from interop.test_old_releases import KAFKA_PYTHON, folder_of
from pykafka_broker.releases.release import release_names
from pykafka_broker.testing import KafkaBroker

pytestmark = pytest.mark.ours_only

WITHOUT_GROUPS = ("0.8",)
WITHOUT_API_VERSIONS = {"0.8": (0, 8, 2), "0.9": (0, 9)}
JAVA_OF_ITS_AGE = [
    ("0.9", "0.9.0.1"),
    ("0.10.2", "0.10.2.2"),
    ("0.11.0", "0.11.0.3"),
    ("1.1", "1.1.1"),
    ("2.0", "2.0.1"),
    ("2.8", "2.8.2"),
    ("3.9", "3.9.2"),
]
VALUES = [b"%d" % number for number in range(20)]


@pytest.fixture(params=release_names())
def emulated(request: pytest.FixtureRequest) -> Iterator[tuple[str, KafkaBroker]]:
    with KafkaBroker(emulate=request.param) as broker:
        yield request.param, broker


def test_kafka_python(emulated: tuple[str, KafkaBroker]) -> None:
    """kafka-python works with a broker that passes for each release.

    Today's kafka-python must be told that an old broker does not answer ApiVersions; 1.4 and 2.0 find that out.
    """
    name, broker = emulated
    settings: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers}
    if name in WITHOUT_API_VERSIONS:
        settings["api_version"] = WITHOUT_API_VERSIONS[name]
    producer = KafkaProducer(**settings, enable_idempotence=False)
    for value in VALUES:
        producer.send("t", value)
    producer.flush(60)
    producer.close()
    settings |= {"auto_offset_reset": "earliest", "consumer_timeout_ms": 60_000}
    consumer = KafkaConsumer(**settings, group_id=None if name in WITHOUT_GROUPS else "g")
    if name in WITHOUT_GROUPS:
        consumer.assign([Partition("t", 0)])
    else:
        consumer.subscribe(["t"])
    assert [next(consumer).value for _ in VALUES] == VALUES
    if name not in WITHOUT_GROUPS:
        consumer.commit()
        assert consumer.committed(Partition("t", 0)) == len(VALUES)
    consumer.close()


def test_librdkafka(emulated: tuple[str, KafkaBroker]) -> None:
    name, broker = emulated
    if name in WITHOUT_API_VERSIONS:
        pytest.skip("a Metadata v0 with one short topic does not fit into the buffer that librdkafka reads it into")
    settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer(settings)
    for value in VALUES:
        producer.produce("t", value)
    assert producer.flush(60) == 0
    consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["t"])
    found: list[bytes | None] = []
    while len(found) < len(VALUES):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None, message.error()
        found.append(message.value())
    assert found == VALUES
    consumer.commit(asynchronous=False)
    assert consumer.committed([TopicPartition("t", 0)], timeout=60)[0].offset == len(VALUES)
    consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.4.7", "2.0.2"])
def test_old_kafka_python(emulated: tuple[str, KafkaBroker], version: str) -> None:
    name, broker = emulated
    if name in WITHOUT_GROUPS or name.startswith("4."):
        pytest.skip("its script needs groups, which 0.8 has not, and versions that 4.0 dropped")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KAFKA_PYTHON, broker.bootstrap_servers, "t"],
        env={**os.environ, "PYTHONPATH": str(folder_of("kafka-python", version))},
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.parametrize(("name", "release"), JAVA_OF_ITS_AGE)
def test_java_of_its_age(name: str, release: str) -> None:
    """Kafka's own client of a release's age works: groups, seeking, commits, and transactions where it has them."""
    age = tuple(map(int, release.split(".")))
    codecs = ["none", "gzip", "snappy", "lz4", *(["zstd"] if age >= (2, 1) else [])]
    with KafkaBroker(emulate=name) as broker:
        broker.create_topic("basic", 4)
        said = run([*toolchains.java("Basic", release), broker.bootstrap_servers, "basic", ",".join(codecs)])
        assert said == {"group": str(200 * len(codecs)), "offsets": "0 7 true"}
        if age >= (0, 11):
            broker.create_topic("transactions")
            said = run([*toolchains.java("Transactions", release), broker.bootstrap_servers, "transactions"])
            assert said == {"transactions": f"{BOTH_LEVELS} 20", "fenced": "yes"}


@pytest.mark.slow
@pytest.mark.java
def test_java_of_0_8() -> None:
    with KafkaBroker(emulate="0.8") as broker:
        broker.create_topic("t")
        said = run([*toolchains.java("Old", "0.8.2.2"), broker.bootstrap_servers, "t"])
        assert said == {"read": "300 300 1", "committed": "OffsetMetadataAndError[17,m,0]"}
