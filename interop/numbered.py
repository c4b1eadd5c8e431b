"""Numbered records for tests that kill the broker. Rule: a record's value begins with its number, numbers go to
partitions in turn, and every acknowledgement is noted, so that what must be in the log afterwards is known exactly.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 3
KEYS = 300  # a multiple of the partitions: a key stays in one of them
BURST = 25
PADDING = b" " * 60

Place = tuple[int, int]  # partition and offset
UNKNOWN_OFFSET = -1  # of a record that was a duplicate when it was sent again: no answer tells its place
Partitions = list[list[tuple[int, int]]]  # for each partition, offset and number of every record in it


class NumberedProducer:
    """One producer that writes the same numbers to several topics, in bursts, and notes what is acknowledged."""

    def __init__(
        self,
        bootstrap: str,
        topics: Iterable[str],
        first: int = 0,
        *,
        burst: int = BURST,
        pause_s: float = 0.003,
        **settings: Any,
    ) -> None:
        options = {key.replace("_", "."): value for key, value in settings.items()}
        quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}
        common = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 2, "message.timeout.ms": 120_000}
        self._producer = Producer({**common, **quick, "log_level": 0, **options})
        self._topics = list(topics)
        self._burst, self._pause_s = burst, pause_s
        self.sent = first
        self.acknowledged: dict[str, dict[int, Place]] = {topic: {} for topic in self._topics}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def resume(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def pause(self) -> None:
        assert self._thread is not None
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            for number in range(self.sent, self.sent + self._burst):
                for topic in self._topics:
                    self._producer.produce(
                        topic, b"%d%s" % (number, PADDING), key_of(number), number % PARTITIONS, on_delivery=self._noted
                    )
            self.sent += self._burst
            self._producer.poll(0)
            self._stop.wait(self._pause_s)

    def _noted(self, error: Any, message: Message) -> None:
        if error is None:
            offset = message.offset()
            place = message.partition() or 0, UNKNOWN_OFFSET if offset is None else offset
            self.acknowledged[str(message.topic())][number_in(message)] = place

    def finish(self) -> None:
        """Wait until everything is acknowledged or given up."""
        assert self._producer.flush(100) == 0

    def abandon(self) -> None:
        """Give up the records that are not acknowledged, so that none of them is sent later."""
        self._producer.purge()
        self._producer.flush(5)


def key_of(number: int) -> bytes:
    return b"%d" % (number % KEYS)


def number_in(message: Message) -> int:
    """Return the number of a record, or of the one that it is a copy of (`copier`)."""
    return int((message.value() or b"-1").removeprefix(b"copy of "))


def create(bootstrap: str, topics: Mapping[str, Mapping[str, object]]) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [
        NewTopic(topic, PARTITIONS, 1, config={name: str(value) for name, value in config.items()})
        for topic, config in topics.items()
    ]
    for future in client.create_topics(wanted).values():
        future.result(60)


def read_all(bootstrap: str, topic: str, **settings: Any) -> Partitions:
    """Return offset and number of every record, for each partition."""
    options = {key.replace("_", "."): value for key, value in settings.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            **options,
        }
    )
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    found: Partitions = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        for message in consumer.consume(10_000, timeout=0.2):
            partition, error = message.partition() or 0, message.error()
            if error is None:
                found[partition].append((message.offset() or 0, number_in(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
    consumer.close()
    assert len(ended) == PARTITIONS
    return found


def check_places(found: Partitions, acknowledged: Mapping[int, Place]) -> None:
    """Make sure that these records are where their acknowledgement said."""
    places = {number: (p, offset) for p, log in enumerate(found) for offset, number in log}
    lost = {
        number: place
        for number, place in acknowledged.items()
        if place not in (places.get(number), (places.get(number, place)[0], UNKNOWN_OFFSET)) or number not in places
    }
    assert not lost, f"{len(lost)} of {len(acknowledged)} are not where the answer said: {list(lost.items())[:5]}"


def check_once_in_order(found: Partitions) -> None:
    """Make sure that no record is there twice, and each partition has its producer's order."""
    numbers = [number for log in found for _, number in log]
    assert len(numbers) == len(set(numbers)), "a record is there twice"
    for log in found:
        turns = [(a, b) for a, b in pairwise(log) if a[1] > b[1] or a[0] >= b[0]]
        assert not turns, f"the order is not that of the producer: {turns[:5]}"


def check_no_gaps(found: Partitions) -> None:
    for log in found:
        first = log[0][0] if log else 0
        assert [offset for offset, _ in log] == list(range(first, first + len(log))), "offsets have gaps"
