"""Producers that write to a cluster in the background, and what is read of it afterwards.

Rule: a load remembers what was acknowledged (or committed), in order, for each partition; `check` reads the partitions
from their beginning and wants exactly that. So whatever was lost, doubled or reordered is found.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from interop.cluster_clients import in_sync
from interop.waiting import eventually

PATIENCE_S = 90.0
# Settings of three brokers for the loads: a record is acknowledged once two brokers have it.
REPLICATED = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "5000",
    "min.insync.replicas": "2",
}
MARKERS_S = 60.0
# Loads go on while nodes start, and leave them the processor: records wait for others, and transactions have a pause.
LINGER_MS, PAUSE_S = 20, 0.02
_QUIET = {"log_level": 0}


def all_in_sync(address: str, topic: str, replicas: set[int]) -> None:
    """Wait until every partition of a topic has all these replicas in sync; brokers that are away answer nothing."""

    def found() -> set[tuple[int, ...]]:
        try:
            return {tuple(each) for each in in_sync(address, topic).values()}
        except KafkaException:
            return set()

    eventually(found, {tuple(sorted(replicas))}, PATIENCE_S)


class Writes:
    """A writer in a thread of its own, until the end of the `with`."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self.failed: list[str] = []
        self.done: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        self._address = address
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        """Write until the load is stopped; note finished writes and errors."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Wait until the writes under way have ended."""

    def wait_for(self, more: int) -> None:
        """Wait until `more` further values are done in each partition."""
        before = {partition: len(values) for partition, values in self.done.items()}
        deadline = time.monotonic() + PATIENCE_S
        while behind := [at for at, values in self.done.items() if len(values) < before[at] + more]:
            assert not self.failed, self.failed[:3]
            assert time.monotonic() < deadline, f"no progress in partitions {behind} of {self.topic}"
            time.sleep(0.02)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(PATIENCE_S)
        if error is None:
            assert not self._thread.is_alive(), f"what is written to {self.topic} never ends"
            assert not self.failed, self.failed[:3]
            self._finish()
            assert not self.failed, self.failed[:3]

    def check(self) -> None:
        """Check that the partitions hold exactly the acknowledged values."""
        self._compare("read_uncommitted")

    def _compare(self, isolation: str, patience_s: float = 0) -> None:
        """Compare each partition with what is done; one that is short may grow for a while."""
        deadline = time.monotonic() + patience_s
        for partition, values in self.done.items():
            assert values
            while (found := read(self._address, self.topic, partition, isolation)) != values:
                may_grow = len(found) < len(values) and time.monotonic() < deadline
                assert may_grow, _difference(values, found)
                time.sleep(0.2)


class Load(Writes):
    """A load by librdkafka's idempotent producer, with acks=all, to every partition of a topic in turn.

    One request at a time: where the second of two is refused because the first was, librdkafka 2.16 takes a new epoch
    and sends again what is there already (its issue 4953). `JavaLoad` has several under way.
    """

    def __init__(self, address: str, topic: str, partitions: int, **settings: Any) -> None:
        super().__init__(address, topic, partitions)
        patience = {"enable.idempotence": True, "max.in.flight": 1, "delivery.timeout.ms": int(PATIENCE_S * 1000)}
        self._producer = Producer(
            {"bootstrap.servers": address, "linger.ms": LINGER_MS, **_QUIET, **patience, **settings}
        )

    def _write(self) -> None:
        number = 0
        while not self._stopped.is_set():
            for partition in self.done:
                self._producer.produce(self.topic, b"%d" % number, partition=partition, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
            time.sleep(0.004)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.done[message.partition() or 0].append(message.value() or b"")
        else:
            self.failed.append(str(error))

    def _finish(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0


class TransactionalLoad(Load):
    """A load of transactions over all partitions of a topic; every third is aborted."""

    def __init__(self, address: str, topic: str, partitions: int, **settings: Any) -> None:
        self._whole = {"transactional.id": f"load of {topic}", "transaction.timeout.ms": int(PATIENCE_S * 1000)}
        super().__init__(address, topic, partitions, **self._whole, **settings)

    def _write(self) -> None:
        try:
            _until_done(lambda: self._producer.init_transactions(10))
            number = 0
            while not self._stopped.is_set():
                self._transaction(number)
                number += 1
                time.sleep(PAUSE_S)
        except (KafkaException, AssertionError) as error:
            self.failed.append(repr(error))

    def _transaction(self, number: int) -> None:
        values = [b"%d-%d" % (number, each) for each in range(3)]
        self._producer.begin_transaction()
        for value in values:
            for partition in self.done:
                self._producer.produce(self.topic, value, partition=partition)
        self._producer.flush(PATIENCE_S)  # an abort before the first delivery is fatal: librdkafka's issue 4849
        try:
            if number % 3 != 2:
                _until_done(lambda: self._producer.commit_transaction(10))
                for partition in self.done:
                    self.done[partition] += values
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        _until_done(lambda: self._producer.abort_transaction(10))

    def _finish(self) -> None:
        """Wait until the markers of the last transaction are written: another producer of its id waits for them."""
        super()._finish()
        successor = Producer({"bootstrap.servers": self._address, **_QUIET, **self._whole})
        _until_done(lambda: successor.init_transactions(10))

    def check(self) -> None:
        """Check that the partitions hold exactly the committed values; markers may come after a commit's answer."""
        self._compare("read_committed", MARKERS_S)


def _until_done(step: Callable[[], object]) -> None:
    """Take a step of a transaction, again where the client says that it may be repeated."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            step()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def _difference(wanted: list[bytes], found: list[bytes]) -> str:
    at = next(
        (at for at, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b), min(len(wanted), len(found))
    )
    return f"{len(wanted)} wanted, {len(found)} found; from {at} on {wanted[at : at + 3]}, found {found[at : at + 3]}"


def read(address: str, topic: str, partition: int, isolation: str = "read_uncommitted") -> list[bytes]:
    """Return the values in a partition, from its beginning to its end."""
    settings = {"group.id": "none", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": address, **_QUIET, **settings})
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while True:
        message = consumer.poll(1)
        assert time.monotonic() < deadline, f"no end of {topic}-{partition}"
        if message is None:
            continue
        error = message.error()
        if error is None:
            values.append(message.value() or b"")
        elif error.code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return values
