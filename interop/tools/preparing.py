"""The topics, records and groups that tables of tools need."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.waiting import eventually

HOUR_MS = 3_600_000
T0 = 1_700_000_000_000  # 2023-11-14T22:13:20; record n of a partition is n hours later


def make_topics(bootstrap: str, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
    """Create topics with that many partitions for each name, and without retention: their records are old."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, count, 1, config={"retention.ms": "-1", **(config or {})}) for name, count in topics.items()]
    for made in admin.create_topics(new).values():
        made.result(20)


def send(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    """Write `count` records, an hour apart, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=T0 + number * HOUR_MS)
        assert producer.flush(20) == 0


def commit(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets of a group without members. A new group is then one that only has offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]

    def done() -> bool:
        try:
            return all(each.error is None for each in consumer.commit(offsets=places, asynchronous=False))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            return False

    try:
        eventually(done, True, 20)
    finally:
        consumer.close()


@contextmanager
def member(bootstrap: str, group: str, topics: list[str], count: int, **config: str) -> Iterator[None]:
    """Run a member that has read `count` records and committed them, and that reads on."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": "false"}
    settings |= {"auto.offset.reset": "earliest", "client.id": "reader"}
    consumer = Consumer(settings | {key.replace("_", "."): value for key, value in config.items()})
    consumer.subscribe(topics)
    ready, over = threading.Event(), threading.Event()

    def read() -> None:
        found = 0
        while not over.is_set():
            found += sum(1 for m in consumer.consume(100, timeout=0.05) if not m.error())
            if found >= count and not ready.is_set():
                if count:
                    consumer.commit(asynchronous=False)
                ready.set()
        consumer.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        assert ready.wait(20)
        yield
    finally:
        over.set()
        thread.join(20)


def settled(bootstrap: str, group: str, members: int) -> None:
    """Wait until the group has `members` members, and all of them have their partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def seen() -> tuple[str, int]:
        described = admin.describe_consumer_groups([group])[group].result(60)
        return described.state.name, len(described.members)

    eventually(seen, ("STABLE", members), 20)
