"""Clients that meet faults: each sends a value and waits for its acknowledgement, or reads one value after the other.

Rule: their settings are their defaults but for times, which are short, and what is read first.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any, Protocol

from interop.java_transactions import SERIALIZER, JavaClients

TIMEOUT_S = 30.0
_BACKOFF_MS = 100
_HEARTBEAT_MS = 200
_SESSION_MS = 6_000


class Reader(Protocol):
    def read(self, timeout_s: float) -> str | None:
        """Return the next value; None if none comes in time."""

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Client(Protocol):
    name: str

    def send(self, bootstrap: str, topic: str, value: str) -> None:
        """Send a value and wait for its acknowledgement. Raises the client's own exception if it gives up."""

    def reader(self, bootstrap: str, topic: str, group: str) -> Reader: ...


class KafkaPython:
    name = "kafka-python"

    def send(self, bootstrap: str, topic: str, value: str) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", retry_backoff_ms=_BACKOFF_MS)
        try:
            producer.send(topic, value.encode()).get(TIMEOUT_S)
        finally:
            producer.close(timeout=5)

    def reader(self, bootstrap: str, topic: str, group: str) -> Reader:
        return _KafkaPythonReader(bootstrap, topic, group)


class _KafkaPythonReader:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        from kafka import KafkaConsumer

        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            session_timeout_ms=_SESSION_MS,
            retry_backoff_ms=_BACKOFF_MS,
            max_poll_records=1,
        )
        self._consumer.partitions_for_topic(topic)  # a leader that learns of them after its first poll joins again

    def read(self, timeout_s: float) -> str | None:
        # A single poll: kafka-python 3.0 forgets an assignment that comes just when a poll's time is over.
        for records in self._consumer.poll(timeout_ms=int(timeout_s * 1000)).values():
            return str(records[0].value.decode())
        return None

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    name = "confluent-kafka"

    def send(self, bootstrap: str, topic: str, value: str) -> None:
        from confluent_kafka import KafkaException, Producer

        told: list[Any] = []
        settings = {"bootstrap.servers": bootstrap, "retry.backoff.ms": _BACKOFF_MS, "log_level": 0}
        producer = Producer(settings)
        producer.produce(topic, value.encode(), partition=0, on_delivery=lambda error, _: told.append(error))
        producer.flush(TIMEOUT_S)
        if not told or told[0] is not None:
            raise KafkaException(told[0] if told else "not delivered")

    def reader(self, bootstrap: str, topic: str, group: str) -> Reader:
        return _ConfluentReader(bootstrap, topic, group)


class _ConfluentReader:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": _HEARTBEAT_MS,
                "session.timeout.ms": _SESSION_MS,
                "retry.backoff.ms": _BACKOFF_MS,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def read(self, timeout_s: float) -> str | None:
        from confluent_kafka import KafkaException

        message = self._consumer.poll(timeout_s)
        if message is None:
            return None
        if message.error() is not None:
            raise KafkaException(message.error())
        value = message.value()
        assert value is not None
        return value.decode()

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class Aiokafka:
    name = "aiokafka"

    def send(self, bootstrap: str, topic: str, value: str) -> None:
        from aiokafka import AIOKafkaProducer

        async def send() -> None:
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", retry_backoff_ms=_BACKOFF_MS)
            await producer.start()
            try:
                await asyncio.wait_for(producer.send_and_wait(topic, value.encode()), TIMEOUT_S)
            finally:
                await producer.stop()

        asyncio.run(send())

    def reader(self, bootstrap: str, topic: str, group: str) -> Reader:
        return _AiokafkaReader(bootstrap, topic, group)


class _AiokafkaReader:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        from aiokafka import AIOKafkaConsumer

        async def start() -> Any:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=_HEARTBEAT_MS,
                session_timeout_ms=_SESSION_MS,
                retry_backoff_ms=_BACKOFF_MS,
            )
            await asyncio.wait_for(consumer.start(), TIMEOUT_S)
            return consumer

        self._runner = asyncio.Runner()
        self._consumer = self._runner.run(start())

    def read(self, timeout_s: float) -> str | None:
        async def read() -> str | None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    return str((await self._consumer.getone()).value.decode())
            return None

        return self._runner.run(read())

    def commit(self) -> None:
        self._runner.run(self._consumer.commit())

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


class Java:
    def __init__(self, clients: JavaClients, group_protocol: str = "classic") -> None:
        self.name = "Java" if group_protocol == "classic" else f"Java-{group_protocol}"
        self._group_protocol = group_protocol
        self._clients = clients

    def send(self, bootstrap: str, topic: str, value: str) -> None:
        jvm = self._clients.jvm
        settings = self._clients.properties(
            bootstrap_servers=bootstrap,
            key_serializer=SERIALIZER,
            value_serializer=SERIALIZER,
            retry_backoff_ms=_BACKOFF_MS,
        )
        producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)
        try:
            producer.send(jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, 0, None, value)).get()
        finally:
            producer.close(jvm.java.time.Duration.ofSeconds(5))

    def reader(self, bootstrap: str, topic: str, group: str) -> Reader:
        timing: dict[str, Any] = {"heartbeat_interval_ms": _HEARTBEAT_MS, "session_timeout_ms": _SESSION_MS}
        if self._group_protocol != "classic":
            timing = {"group_protocol": self._group_protocol}  # the broker says how often, and how long it waits
        return _JavaReader(self._clients, bootstrap, topic, group, timing)


class _JavaReader:
    def __init__(self, clients: JavaClients, bootstrap: str, topic: str, group: str, timing: dict[str, Any]) -> None:
        self._jvm = clients.jvm
        deserializer = SERIALIZER.replace("Serializer", "Deserializer")
        settings = clients.properties(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit="false",
            retry_backoff_ms=_BACKOFF_MS,
            max_poll_records=1,
            **timing,
            key_deserializer=deserializer,
            value_deserializer=deserializer,
        )
        self._consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        self._consumer.subscribe(self._jvm.java.util.List.of(topic))

    def read(self, timeout_s: float) -> str | None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            records = self._consumer.poll(self._jvm.java.time.Duration.ofMillis(100))
            if not records.isEmpty():
                return str(records.iterator().next().value())
        return None

    def commit(self) -> None:
        self._consumer.commitSync()

    def close(self) -> None:
        self._consumer.close()


@contextlib.contextmanager
def clients() -> Iterator[list[Client]]:
    """Yield all clients; Java's runs in a JVM until the block ends."""
    with JavaClients() as java:
        yield [KafkaPython(), Confluent(), Aiokafka(), Java(java)]
