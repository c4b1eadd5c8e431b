"""kafka-python's consumer groups: join, share, leave, commit; and its admin client's view of them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from interop.conftest import MakeTopic
from interop.waiting import eventually

NewConsumer = Callable[..., KafkaConsumer]
# A member forgets its assignment if a poll ends before SyncGroup is answered (docs/troubleshooting.md).
LONG_MS = 20_000


@pytest.fixture
def new_consumer(bootstrap: str) -> Iterator[NewConsumer]:
    made: list[KafkaConsumer] = []

    def make(group: str, *topics: str, **settings: Any) -> KafkaConsumer:
        options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
        made.append(KafkaConsumer(*topics, bootstrap_servers=bootstrap, group_id=group, **options))
        for topic in topics:
            made[-1].partitions_for_topic(topic)  # a leader that learns of them after its first poll joins again
        return made[-1]

    yield make
    for consumer in made:
        consumer.close(autocommit=False)


@pytest.fixture
def numbers(make_topic: MakeTopic, bootstrap: str) -> str:
    """A topic of four partitions with ten records in each."""
    topic = make_topic(partitions=4)
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for i in range(40):
            producer.send(topic, b"%d" % i, partition=i % 4)
        producer.flush(60)
    return topic


def read(consumer: KafkaConsumer, count: int, timeout_s: float = 60) -> list[int]:
    values: list[int] = []
    deadline = time.monotonic() + timeout_s
    while len(values) < count and time.monotonic() < deadline:
        values += [int(r.value) for batch in consumer.poll(timeout_ms=LONG_MS).values() for r in batch]
    return values


def test_one_member_gets_everything(numbers: str, new_consumer: NewConsumer) -> None:
    consumer = new_consumer("one", numbers)
    assert sorted(read(consumer, 40)) == list(range(40))
    assert consumer.assignment() == {TopicPartition(numbers, p) for p in range(4)}


def test_commits_survive_the_consumer(numbers: str, new_consumer: NewConsumer) -> None:
    first = new_consumer("resumes", numbers)
    read(first, 40)
    partition = TopicPartition(numbers, 0)
    first.commit({partition: OffsetAndMetadata(7, "a note", -1)})
    assert first.committed(partition) == 7
    first.close(autocommit=False)
    second = new_consumer("resumes", numbers)
    assert sorted(read(second, 33))[:3] == [1, 2, 3]  # partition 0 goes on at its eighth record, 28
    assert second.committed(partition, metadata=True).metadata == "a note"
    assert second.committed(TopicPartition(numbers, 1)) is None


def test_two_members_share_and_one_takes_over(numbers: str, new_consumer: NewConsumer) -> None:
    first = new_consumer("shared", numbers, heartbeat_interval_ms=300)
    read(first, 40)
    second = new_consumer("shared", numbers, heartbeat_interval_ms=300)
    stop = threading.Event()

    def keep_polling() -> None:
        while not stop.is_set():
            second.poll(timeout_ms=1000)

    def owned() -> tuple[int, int]:
        first.poll(timeout_ms=1000)
        return len(first.assignment()), len(second.assignment())

    thread = threading.Thread(target=keep_polling)
    thread.start()
    try:
        eventually(owned, (2, 2), 60)
        assert len(first.assignment() | second.assignment()) == 4
    finally:
        stop.set()
        thread.join()
    second.close(autocommit=False)
    eventually(lambda: first.poll(timeout_ms=1000) or len(first.assignment()), 4, 60)


def test_a_static_member_comes_back_without_a_rebalance(
    numbers: str, new_consumer: NewConsumer, admin: KafkaAdminClient
) -> None:
    first = new_consumer("static", numbers, group_instance_id="me")
    read(first, 40)

    def generation() -> int:
        return int(first.group_metadata().generation_id)

    before = generation()
    first.close(autocommit=False)
    second = new_consumer("static", numbers, group_instance_id="me")
    read(second, 40)
    assert second.group_metadata().generation_id == before


def test_what_the_admin_client_sees(numbers: str, new_consumer: NewConsumer, admin: KafkaAdminClient) -> None:
    consumer = new_consumer("seen", numbers)
    read(consumer, 40)
    consumer.commit()
    assert "seen" in {g["group_id"] for g in admin.list_groups()}
    described = admin.describe_groups(["seen"])["seen"]
    assert described["group_state"] == "Stable"
    assert len(described["members"]) == 1
    offsets = admin.list_group_offsets({"seen": None})["seen"]
    assert {tp.partition: found.offset for tp, found in offsets.items()} == {0: 10, 1: 10, 2: 10, 3: 10}


def test_an_empty_group_is_reset_and_deleted(numbers: str, new_consumer: NewConsumer, admin: KafkaAdminClient) -> None:
    consumer = new_consumer("emptied", numbers)
    read(consumer, 40)
    consumer.commit()
    consumer.close(autocommit=False)
    partition = TopicPartition(numbers, 2)
    admin.alter_group_offsets("emptied", {partition: OffsetAndMetadata(3, "", -1)})
    eventually(lambda: admin.list_group_offsets({"emptied": None})["emptied"][partition].offset, 3)
    admin.delete_groups(["emptied"])
    eventually(lambda: "emptied" in {g["group_id"] for g in admin.list_groups()}, False)
