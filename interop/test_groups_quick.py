"""Groups on a broker for tests: members do not wait for intervals that were made for production."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from pykafka_broker.testing import KafkaBroker

PARTITIONS = 4
KAFKAS_SESSION_S = 40.0  # at the least: a member that was killed may have sent a heartbeat some seconds before
MEMBER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g", "group.protocol": sys.argv[2]})
consumer.subscribe(["t"])
while not consumer.assignment():
    consumer.poll(0.05)
print("in", flush=True)
while True:
    consumer.poll(0.1)
"""


@pytest.fixture
def broker(target_name: str) -> Iterator[KafkaBroker]:
    if target_name != "pykafka":
        pytest.skip("it is about the settings of KafkaBroker")
    with KafkaBroker() as running:
        running.create_topic("t", partitions=PARTITIONS)
        yield running


def member(address: str, protocol: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "group.protocol": protocol})
    consumer.subscribe(["t"])
    return consumer


def seconds_until(count: int, one: Consumer, *others: Consumer) -> float:
    """Return the seconds until the first consumer has `count` partitions, 60 at most; poll all consumers meanwhile."""
    began = time.monotonic()
    while len(one.assignment()) != count and time.monotonic() < began + 60:
        for consumer in (one, *others):
            consumer.poll(0.01)
    return time.monotonic() - began


def test_a_second_consumer_has_its_partitions_soon(broker: KafkaBroker) -> None:
    one = member(broker.bootstrap_servers, "consumer")
    seconds_until(PARTITIONS, one)
    two = member(broker.bootstrap_servers, "consumer")
    seconds_until(PARTITIONS // 2, two, one)
    assert len(two.assignment()) == PARTITIONS // 2
    beats = broker.requests("ConsumerGroupHeartbeat", bodies=True)
    assert {each["response"]["heartbeat_interval_ms"] for each in beats if each["response"]} == {100}  # Kafka's: 5 s
    one.close()
    two.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_one_that_was_killed_leaves_its_partitions_to_the_other(broker: KafkaBroker, protocol: str) -> None:
    address = broker.bootstrap_servers
    with subprocess.Popen([sys.executable, "-c", MEMBER, address, protocol], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        one = member(address, protocol)
        seconds_until(PARTITIONS // 2, one)
        process.kill()
    assert seconds_until(PARTITIONS, one) < KAFKAS_SESSION_S
    one.close()
