"""kill -9 in the middle of load, again and again: every acknowledged record is there afterwards, once, in order."""
# mypy: disable-error-code="attr-defined"

import threading
import time
from itertools import pairwise
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.conftest import NewBroker

PARTITIONS = 3
LOAD_S = 0.4


class Load:
    """Producers that write numbered records until told to stop and note every acknowledgement."""

    def __init__(self, bootstrap: str, topic: str, start: int, **settings: Any) -> None:
        options = {key.replace("_", "."): value for key, value in settings.items()}
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 2, "message.timeout.ms": 60_000, **options}
        )
        self._topic, self.sent = topic, start
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for _ in range(50):
                self._producer.produce(
                    self._topic, b"%d" % self.sent, partition=self.sent % PARTITIONS, on_delivery=self._noted
                )
                self.sent += 1
            self._producer.poll(0.002)

    def _noted(self, error: Any, message: Message) -> None:
        if error is None:
            self.acknowledged[int(message.value() or b"-1")] = (message.partition() or 0, message.offset() or 0)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def finish(self) -> None:
        """Waits until everything is acknowledged or given up."""
        assert self._producer.flush(60) == 0

    def abandon(self) -> None:
        self._producer.purge()
        self._producer.flush(5)


def create(bootstrap: str, *topics: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in client.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        future.result(20)


def read_all(bootstrap: str, topic: str) -> list[list[tuple[int, int]]]:
    """Offset and number of every record, for each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    found: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        for message in consumer.consume(10_000, timeout=0.2):
            partition = message.partition() or 0
            if message.error():
                ended.add(partition)
            else:
                found[partition].append((message.offset() or 0, int(message.value() or b"-1")))
    consumer.close()
    assert len(ended) == PARTITIONS
    return found


def check(found: list[list[tuple[int, int]]], acknowledged: dict[int, tuple[int, int]]) -> None:
    places = {number: (p, offset) for p, log in enumerate(found) for offset, number in log}
    lost = {number: place for number, place in acknowledged.items() if places.get(number) != place}
    assert not lost, f"{len(lost)} of {len(acknowledged)} are not where the answer said: {list(lost.items())[:5]}"
    numbers = [number for log in found for _, number in log]
    assert len(numbers) == len(set(numbers)), "a record is there twice"
    for log in found:
        turns = [(a, b) for a, b in pairwise(log) if a[1] > b[1]]
        assert not turns, f"the order is not that of the producer: {turns[:5]}"
        assert [offset for offset, _ in log] == list(range(len(log))), "offsets have gaps"


def test_ten_crashes(new_broker: NewBroker, target_name: str) -> None:
    broker = new_broker()
    where = broker.bootstrap_servers
    create(where, "plain", "idempotent")
    plain: dict[int, tuple[int, int]] = {}
    safe: dict[int, tuple[int, int]] = {}
    next_plain = next_safe = 0

    for _ in range(10 if target_name == "pykafka" else 2):
        # The first never sends anything twice, so nothing may be there twice; the second goes on after the restart with
        # what was in flight, and the broker must know which of it is there already.
        first = Load(where, "plain", next_plain, retries=0)
        second = Load(where, "idempotent", next_safe, enable_idempotence=True)
        time.sleep(LOAD_S)
        broker.kill()
        first.stop()
        second.stop()
        first.abandon()
        broker.restart()
        second.finish()
        plain |= first.acknowledged
        safe |= second.acknowledged
        next_plain, next_safe = first.sent, second.sent
        assert len(second.acknowledged) > 0
    check(read_all(where, "plain"), plain)
    check(read_all(where, "idempotent"), safe)
    assert len(safe) == next_safe, "an idempotent producer gave records up"
