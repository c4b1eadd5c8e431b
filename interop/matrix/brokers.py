"""The brokers that cells run against. Rule: each is started when the first cell needs it, and cells that do not change
it share it. One real Kafka runs at a time.

`ours` is a broker of this checkout, `kafka` Apache Kafka, `older` ours that passes for an older release (`--emulate`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from interop.jars import KAFKA_VERSION
from interop.raw import RawClient
from interop.real_kafka import RealKafka
from interop.secured_targets import secured
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from pykafka_broker.releases.release import release
from pykafka_broker.testing import KafkaBroker

OURS, KAFKA, OLDER = TARGETS = ("ours", "kafka", "older")
LASTING = {"retention.ms": "-1"}  # scenarios write records that are years old
USER, PASSWORD = "alice", "alice-secret"
B = TypeVar("B")
_KNOWN_WITHIN_S = 20


class Broker(Protocol):
    """A broker as a cell needs it."""

    bootstrap_servers: str

    def create_topic(self, name: str, partitions: int) -> None: ...

    def restart(self) -> None: ...


class _Ours:
    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker
        self.bootstrap_servers = broker.bootstrap_servers

    def create_topic(self, name: str, partitions: int) -> None:
        self._broker.create_topic(name, partitions, config=LASTING)

    def restart(self) -> None:
        self._broker.restart()


class _Kafka:
    def __init__(self, kafka: RealKafka) -> None:
        self._kafka = kafka
        self.bootstrap_servers = kafka.bootstrap_servers

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic and wait until the broker knows it: Kafka answers before."""
        configs = [CreatableTopicConfig(key, value) for key, value in LASTING.items()]
        topic = CreatableTopic(name, num_partitions=partitions, replication_factor=1, configs=configs)
        request = CreateTopicsRequest([topic])
        asked = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        with RawClient(self.bootstrap_servers) as client:
            [answer] = client.call(request).topics
            assert answer.error_code == ErrorCode.NONE, answer.error_message
            deadline = time.monotonic() + _KNOWN_WITHIN_S
            while client.call(asked, 12).topics[0].error_code != ErrorCode.NONE:
                assert time.monotonic() < deadline, f"nobody leads {name}"
                time.sleep(0.02)

    def restart(self) -> None:
        self._kafka.restart()


@contextlib.contextmanager
def plain(target: str, older: str) -> Iterator[Broker]:
    """Start a broker without security, for any number of cells, or for one that restarts it."""
    if target == KAFKA:
        with RealKafka() as kafka:
            yield _Kafka(kafka)
        return
    with KafkaBroker(quick_groups=False, emulate=older if target == OLDER else None) as broker:
        yield _Ours(broker)


@contextlib.contextmanager
def secure(target: str, older: str) -> Iterator[tuple[Broker, dict[str, str]]]:
    """Start a broker with users and TLS; yield it with a client's variables of the environment."""
    emulate = {"emulate": older} if target == OLDER else {}
    wanted: dict[str, Any] = {"users": {USER: PASSWORD}, "mechanisms": ("SCRAM-SHA-512",), **emulate}
    with secured("kafka" if target == KAFKA else "pykafka", "sasl_ssl", **wanted) as running:
        config = running.client_config("confluent")
        broker: Broker
        if isinstance(running, KafkaBroker):
            broker = _Ours(running)
        else:
            kafka: RealKafka = running.kafka  # type: ignore[attr-defined]
            broker = _Kafka(kafka)
        environment = {"MATRIX_USER": USER, "MATRIX_PASSWORD": PASSWORD, "MATRIX_CA": config["ssl.ca.location"]}
        yield _At(broker, config["bootstrap.servers"]), environment


class _At:
    """A broker whose clients use another listener than the one that topics are made through."""

    def __init__(self, broker: Broker, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.create_topic = broker.create_topic
        self.restart = broker.restart


class Shared:
    """The brokers of a target that run until `close`: a plain and a secure one for each release."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._stack = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._plain: dict[str, Broker] = {}  # by release
        self._secure: dict[str, tuple[Broker, dict[str, str]]] = {}

    def plain(self, older: str) -> Broker:
        return self._started(plain, older, self._plain)

    def secure(self, older: str) -> tuple[Broker, dict[str, str]]:
        return self._started(secure, older, self._secure)

    def _started(self, start: Callable[[str, str], AbstractContextManager[B]], older: str, running: dict[str, B]) -> B:
        with self._lock:
            key = older if self.target == OLDER else ""
            if key not in running:
                running[key] = self._stack.enter_context(start(self.target, older))
            return running[key]

    def close(self) -> None:
        self._stack.close()


def release_of(target: str, older: str) -> str:
    """Return the release that a target's broker is, or passes for."""
    return older if target == OLDER else release(KAFKA_VERSION).name
