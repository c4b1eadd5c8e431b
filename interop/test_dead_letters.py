"""Dead-letter topics of share groups (KIP-1191) with the share consumer of Kafka 4.4.0.

The brokers are one of ours, a cluster of three of ours, and Apache Kafka 4.4.0 itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.cluster_clients import configure_group, create
from interop.java_shares import JavaShareConsumer
from interop.java_transactions import JavaClients
from interop.kafka_cluster import OURS, KafkaCluster
from interop.raw import RawClient
from interop.real_kafka import RealKafka
from interop.waiting import eventually
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka_broker.testing import KafkaBroker
from tests.releases.other import NEWEST_VERSION

pytestmark = [pytest.mark.java, pytest.mark.ours_only, pytest.mark.slow]

CONFIG = {"group.share.min.record.lock.duration.ms": "1000", "group.share.min.heartbeat.interval.ms": "500"}
PARTITIONS = 3
PATIENCE_S = 30
QUIET_S = 1.0
TOPIC_OF_LETTERS = "errors.deadletterqueue.topic.name"
Letter = tuple[int, bytes | None, bytes | None, dict[str, str]]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaClients]:
    with JavaClients(NEWEST_VERSION) as clients:
        yield clients


@pytest.fixture(scope="module", params=["ours", "three of ours", "Apache Kafka"])
def brokers(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """The addresses of the brokers, and the number of replicas of a topic."""
    with ExitStack() as stack:
        if request.param == "ours":
            yield stack.enter_context(KafkaBroker(CONFIG, emulate="4.4")).bootstrap_servers, 1
        elif request.param == "Apache Kafka":
            yield stack.enter_context(RealKafka(CONFIG, release=NEWEST_VERSION)).bootstrap_servers, 1
        else:
            config = {"pykafka.emulate": "4.4", **CONFIG}
            cluster = stack.enter_context(KafkaCluster(controllers=[OURS], brokers=[OURS] * 3, config=config))
            set_share_version(cluster.bootstrap_servers, 2)
            yield cluster.bootstrap_servers, 3


def set_share_version(bootstrap: str, level: int, *, upgrade: bool = True) -> None:
    update = FeatureUpdateKey("share.version", level, upgrade_type=1 if upgrade else 2)
    with RawClient(bootstrap) as client:
        answer = client.call(UpdateFeaturesRequest(feature_updates=[update]), 2)
    assert not answer.error_code, answer.error_message
    eventually(lambda: {level_at(address) for address in bootstrap.split(",")}, {level})


def level_at(address: str) -> int:
    """Return the level of share groups that a broker knows."""
    with RawClient(address) as client:
        features = client.call(ApiVersionsRequest("test", "1"), 3).finalized_features
    return next((int(each.max_version_level) for each in features if each.name == "share.version"), 0)


class Shop:
    """A topic, a share group with a dead-letter topic, and a member of the group; all have the same name."""

    def __init__(self, java: JavaClients, brokers: tuple[str, int], name: str, **configs: str) -> None:
        self.name, self.letters = name, f"dlq.{name}"
        self.bootstrap, replicas = brokers
        create(self.bootstrap, name, PARTITIONS, replicas)
        create(self.bootstrap, self.letters, PARTITIONS, replicas, errors_deadletterqueue_group_enable="true")
        self.configure({"share.auto.offset.reset": "earliest", TOPIC_OF_LETTERS: self.letters, **configs})
        self.member = JavaShareConsumer(java, self.bootstrap, name, [name])

    def configure(self, configs: dict[str, str]) -> None:
        """Set configs of the group."""
        configure_group(self.bootstrap.split(","), self.name, configs)

    def send(self, *values: str) -> None:
        """Write the values, each to the next partition in turn."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number, value in enumerate(values):
            producer.produce(self.name, value, f"k{value}", number % PARTITIONS, headers={"h": "1"})
        assert producer.flush(PATIENCE_S) == 0

    def handle(self, count: int, how: dict[str, str]) -> list[str]:
        """Acknowledge `count` deliveries, each as `how` says for its value, else by ACCEPT; return the values."""
        seen: list[str] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(seen) < count and time.monotonic() < deadline:
            for record in self.member.poll(1):
                seen.append(record.value())
                self.member.acknowledge(record, how.get(record.value(), "ACCEPT"))
            assert self.member.commit() == {}
        return sorted(seen)

    def read_letters(self, count: int) -> list[Letter]:
        """Return the dead letters once there are `count` of them and no more come."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
        )
        consumer.assign([TopicPartition(self.letters, number, 0) for number in range(PARTITIONS)])
        found: list[Letter] = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message: Any = consumer.poll(QUIET_S)
            if message is None:
                if len(found) >= count:
                    break
                continue
            assert message.error() is None
            headers = {name.removeprefix("__dlq.errors."): value.decode() for name, value in message.headers()}
            found.append((message.partition(), message.key(), message.value(), headers))
        consumer.close()
        return sorted(found, key=lambda letter: (letter[0], int(letter[3]["offset"])))

    def told(self, partition: int, offset: int, deliveries: int, cause: str) -> dict[str, str]:
        return {
            "topic": self.name,
            "partition": str(partition),
            "offset": str(offset),
            "group": self.name,
            "delivery.count": str(deliveries),
            "message": cause,
        }


def test_rejected_records_are_copied(java: JavaClients, brokers: tuple[str, int]) -> None:
    shop = Shop(java, brokers, "rejected", **{"errors.deadletterqueue.copy.record.enable": "true"})
    shop.send(*"abcdef")
    shop.handle(6, {"b": "REJECT", "c": "REJECT", "f": "REJECT"})
    cause = "Offset rejected by client."
    assert shop.read_letters(3) == [
        (1, b"kb", b"b", shop.told(1, 0, 1, cause)),
        (2, b"kc", b"c", shop.told(2, 0, 1, cause)),
        (2, b"kf", b"f", shop.told(2, 1, 1, cause)),
    ]
    shop.member.close()


def test_records_delivered_too_often_leave_letters(java: JavaClients, brokers: tuple[str, int]) -> None:
    shop = Shop(java, brokers, "released", **{"share.delivery.count.limit": "2"})
    shop.send(*"abc")
    assert shop.handle(5, {"a": "RELEASE", "c": "RELEASE"}) == ["a", "a", "b", "c", "c"]
    cause = "Offset delivery count exceeded the threshold."
    assert shop.read_letters(2) == [
        (0, None, None, shop.told(0, 0, 2, cause)),
        (2, None, None, shop.told(2, 0, 2, cause)),
    ]
    shop.member.close()


def test_a_group_without_the_config_writes_none(java: JavaClients, brokers: tuple[str, int]) -> None:
    """Letters of records that are rejected later, with the config, are the only ones."""
    shop = Shop(java, brokers, "plain", **{TOPIC_OF_LETTERS: ""})
    shop.send(*"ab")
    assert shop.handle(2, {"a": "REJECT", "b": "REJECT"}) == ["a", "b"]
    shop.configure({TOPIC_OF_LETTERS: shop.letters})
    shop.send(*"cd")
    assert shop.handle(2, {"c": "REJECT", "d": "REJECT"}) == ["c", "d"]
    cause = "Offset rejected by client."
    assert shop.read_letters(2) == [
        (0, None, None, shop.told(0, 1, 1, cause)),
        (1, None, None, shop.told(1, 1, 1, cause)),
    ]
    shop.member.close()


def test_the_feature_goes_down_and_up(java: JavaClients, brokers: tuple[str, int]) -> None:
    shop = Shop(java, brokers, "levels")
    set_share_version(shop.bootstrap, 1, upgrade=False)
    shop.send(*"ab")
    shop.handle(2, {"a": "REJECT"})
    set_share_version(shop.bootstrap, 2)
    shop.send(*"cd")
    shop.handle(2, {"c": "REJECT"})
    [letter] = shop.read_letters(1)
    assert letter[3] == shop.told(0, 1, 1, "Offset rejected by client.")
    shop.member.close()
