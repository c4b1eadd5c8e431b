"""Transactions from every client: commits, aborts, takeovers of a transactional id, and the records that readers see.

kafka-python, aiokafka and librdkafka speak the classic protocol, Java the one of KIP-890; they take turns on the same
transactional ids.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import aiokafka
import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from interop.conftest import NewBroker
from interop.java_transactions import JavaClients
from interop.waiting import eventually


class Writer(Protocol):
    """A transactional producer of some client."""

    def write(self, topic: str, values: list[str], commit: bool) -> None: ...

    def leave_open(self, topic: str, value: str) -> None: ...

    def close(self) -> None: ...


class KafkaPython:
    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        self._producer.init_transactions()

    def _send(self, topic: str, values: list[str]) -> None:
        self._producer.begin_transaction()
        for future in [self._producer.send(topic, value.encode(), partition=0) for value in values]:
            future.get(60)

    def write(self, topic: str, values: list[str], commit: bool) -> None:
        self._send(topic, values)
        if commit:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()

    def leave_open(self, topic: str, value: str) -> None:
        self._send(topic, [value])

    def close(self) -> None:
        self._producer.close(timeout=0)


class Confluent:
    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
        self._producer.init_transactions(20)

    def _send(self, topic: str, values: list[str]) -> None:
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(topic, value.encode(), partition=0)
        assert self._producer.flush(60) == 0

    def write(self, topic: str, values: list[str], commit: bool) -> None:
        self._send(topic, values)
        if commit:
            self._producer.commit_transaction(20)
        else:
            self._producer.abort_transaction(20)

    def leave_open(self, topic: str, value: str) -> None:
        self._send(topic, [value])

    def close(self) -> None:
        del self._producer


class AioKafka:
    def __init__(self, bootstrap: str, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer = self._loop.run_until_complete(self._start(bootstrap, name))

    async def _start(self, bootstrap: str, name: str) -> Any:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await producer.start()
        return producer

    async def _write(self, topic: str, values: list[str], commit: bool | None) -> None:
        await self._producer.begin_transaction()
        for value in values:
            await self._producer.send_and_wait(topic, value.encode(), partition=0)
        if commit is not None:
            await (self._producer.commit_transaction() if commit else self._producer.abort_transaction())

    def write(self, topic: str, values: list[str], commit: bool) -> None:
        self._loop.run_until_complete(self._write(topic, values, commit))

    def leave_open(self, topic: str, value: str) -> None:
        self._loop.run_until_complete(self._write(topic, [value], None))

    def close(self) -> None:
        self._loop.run_until_complete(asyncio.wait_for(self._producer.stop(), 10))
        self._loop.close()


class Java:
    clients: JavaClients

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = self.clients.producer(bootstrap, name)

    def write(self, topic: str, values: list[str], commit: bool) -> None:
        self._producer.begin().send(topic, *values)
        if commit:
            self._producer.commit()
        else:
            self._producer.abort()

    def leave_open(self, topic: str, value: str) -> None:
        self._producer.begin().send(topic, value)

    def close(self) -> None:
        self._producer.leave()


CLIENTS = [KafkaPython, Confluent, AioKafka, Java]
NewWriter = Callable[[type[Any], str], Writer]


@pytest.fixture(scope="module", autouse=True)
def clients_of_java(java: JavaClients) -> None:
    Java.clients = java


@pytest.fixture
def new_writer(bootstrap: str) -> Iterator[NewWriter]:
    made: list[Writer] = []

    def make(kind: type[Any], name: str) -> Writer:
        made.append(kind(bootstrap, name))
        return made[-1]

    yield make
    for writer in made:
        writer.close()


def committed(bootstrap: str, topic: str, isolation_level: str = "read_committed") -> list[str]:
    """Return the values that a reader gets up to the end offset that the broker tells it."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest", group_id=None
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    end = consumer.end_offsets([partition])[partition]
    found: list[str] = []
    deadline = time.monotonic() + 60
    while consumer.position(partition) < end and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=200).values():
            found += [record.value.decode() for record in records]
    consumer.close()
    return found


@pytest.mark.parametrize("kind", CLIENTS)
def test_only_what_was_committed_is_read(kind: type[Any], new_writer: NewWriter, topic: str, bootstrap: str) -> None:
    writer = new_writer(kind, f"alone-{kind.__name__}")
    writer.write(topic, ["a", "b"], commit=True)
    writer.write(topic, ["c"], commit=False)
    writer.write(topic, ["d"], commit=True)
    writer.leave_open(topic, "e")
    assert committed(bootstrap, topic) == ["a", "b", "d"]
    assert committed(bootstrap, topic, "read_uncommitted") == ["a", "b", "c", "d", "e"]


def test_clients_of_both_protocols_write_to_one_partition(new_writer: NewWriter, topic: str, bootstrap: str) -> None:
    writers = {kind.__name__: new_writer(kind, f"many-{kind.__name__}") for kind in CLIENTS}
    expected = []
    for turn in range(4):
        for number, (name, writer) in enumerate(writers.items()):
            commit = (turn + number) % 2 == 0
            writer.write(topic, [f"{name} {turn}"], commit)
            if commit:
                expected.append(f"{name} {turn}")
    eventually(lambda: committed(bootstrap, topic), expected)  # the last marker may come after the answer to its client


def test_one_transactional_id_goes_from_client_to_client(new_writer: NewWriter, topic: str, bootstrap: str) -> None:
    expected = []
    for turn in range(2):
        for kind in CLIENTS:
            writer = new_writer(kind, "handed-on")
            writer.write(topic, [f"{kind.__name__} {turn}"], commit=True)
            expected.append(f"{kind.__name__} {turn}")
            writer.leave_open(topic, "never")  # the next to take over aborts it
    assert committed(bootstrap, topic) == expected


def test_offsets_count_with_the_commit_alone(make_topic: Any, bootstrap: str) -> None:
    source = TopicPartition(make_topic(), 0)
    plain = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(3):
        plain.send(source.topic, b"%d" % number, partition=0).get(60)
    plain.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id="offsets-in-transactions", enable_auto_commit=False)
    consumer.assign([source])
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="offsets-in-transactions")
    producer.init_transactions()
    for offset, commit, expected in [(1, True, 1), (2, False, 1), (3, True, 3)]:
        producer.begin_transaction()
        offsets = {source: OffsetAndMetadata(offset, "", -1)}
        producer.send_offsets_to_transaction(offsets, "offsets-in-transactions")
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        eventually(lambda: consumer.committed(source), expected)
    producer.close()
    consumer.close()


def test_an_abandoned_transaction_times_out(new_broker: NewBroker) -> None:
    broker = new_broker(transaction_abort_timed_out_transaction_cleanup_interval_ms=100)
    where = broker.bootstrap_servers
    short = Producer({"bootstrap.servers": where, "transactional.id": "short", "transaction.timeout.ms": 1_000})
    short.init_transactions(20)
    short.begin_transaction()
    short.produce("t", b"abandoned", partition=0)
    assert short.flush(60) == 0
    writer = Confluent(where, "other")
    writer.write("t", ["after it"], commit=True)
    eventually(lambda: committed(where, "t"), ["after it"], timeout_s=60)
    writer.close()
