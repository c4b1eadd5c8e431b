"""What tables of tools need to be there: topics, records, groups."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

HOUR_MS = 3_600_000
T0 = 1_700_000_000_000  # 2023-11-14T22:13:20; record n of a partition is n hours later


def make_topics(bootstrap: str, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
    """So many partitions for each name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, count, 1, config=dict(config or {})) for name, count in topics.items()]
    for made in admin.create_topics(new).values():
        made.result(20)


def send(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    """So many records, an hour apart, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=T0 + number * HOUR_MS)
        assert producer.flush(20) == 0


def commit(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Offsets of a group that has no members: a simple one, if it is new."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    for place in consumer.commit(offsets=places, asynchronous=False):
        assert place.error is None
    consumer.close()
