"""librdkafka's groups, in the classic protocol and in that of KIP-848."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.crew import CONSUMER_PROTOCOL
from interop.targets import start
from interop.waiting import eventually

NewConsumer = Callable[..., Consumer]
pytestmark = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture(scope="module")
def bootstrap(target_name: str) -> Iterator[str]:
    """A broker with short heartbeat intervals, by which members of the new protocol learn of each other sooner."""
    often = {f"group.consumer.{key}heartbeat.interval.ms": "500" for key in ("", "min.")}
    with start(target_name, often) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def make_topic(bootstrap: str, request: pytest.FixtureRequest) -> Callable[[int], str]:
    client = AdminClient({"bootstrap.servers": bootstrap})
    made: list[str] = []

    def make(partitions: int) -> str:
        name = re.sub(r"[^a-z]+", "-", f"{request.node.name}-{'x' * len(made)}")
        made.append(name)
        client.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        eventually(lambda: name in client.list_topics(timeout=60).topics, True)
        return name

    return make


@pytest.fixture
def new_consumer(bootstrap: str, protocol: str) -> Iterator[NewConsumer]:
    made: list[Consumer] = []

    def make(group: str, *topics: str, **settings: Any) -> Consumer:
        options: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": f"{group}-{protocol}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        if protocol == "classic":
            options |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
        else:
            options |= CONSUMER_PROTOCOL
        made.append(Consumer(options))
        made[-1].subscribe(list(topics))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


@pytest.fixture
def numbers(make_topic: Callable[[int], str], bootstrap: str) -> str:
    """A topic of four partitions with ten records in each."""
    topic = make_topic(4)
    producer = Producer({"bootstrap.servers": bootstrap})
    for i in range(40):
        producer.produce(topic, b"%d" % i, partition=i % 4)
    assert producer.flush(60) == 0
    return topic


def read(consumer: Consumer, count: int, timeout_s: float = 60) -> list[int]:
    values: list[int] = []
    deadline = time.monotonic() + timeout_s
    while len(values) < count and time.monotonic() < deadline:
        values += [int(m.value() or b"-1") for m in consumer.consume(100, timeout=0.2) if m.error() is None]
    return values


def poll_until(consumers: list[Consumer], owned: list[int], timeout_s: float = 60) -> None:
    """Poll all consumers until each owns its number of partitions."""
    deadline = time.monotonic() + timeout_s

    def now() -> list[int]:
        return [len(c.assignment()) for c in consumers]

    while now() != owned and time.monotonic() < deadline:
        for consumer in consumers:
            consumer.poll(0.05)
    assert now() == owned


def test_one_member_gets_everything(numbers: str, new_consumer: NewConsumer) -> None:
    assert sorted(read(new_consumer("one", numbers), 40)) == list(range(40))


def test_members_share_and_take_over(numbers: str, new_consumer: NewConsumer) -> None:
    first = new_consumer("shared", numbers)
    poll_until([first], [4])
    second = new_consumer("shared", numbers)
    poll_until([first, second], [2, 2])
    second.unsubscribe()
    poll_until([first, second], [4, 0])


def test_commits_survive_the_consumer(numbers: str, new_consumer: NewConsumer) -> None:
    first = new_consumer("resumes", numbers)
    read(first, 40)
    first.commit(offsets=[TopicPartition(numbers, 1, 8)], asynchronous=False)
    [found] = first.committed([TopicPartition(numbers, 1)], timeout=10)
    assert found.offset == 8
    first.unsubscribe()
    first.close()
    assert sorted(read(new_consumer("resumes", numbers), 32))[:3] == [0, 2, 3]


def test_a_pattern_finds_topics_that_come_later(make_topic: Callable[[int], str], new_consumer: NewConsumer) -> None:
    first = make_topic(1)
    stem = first.rstrip("-")
    consumer = new_consumer("pattern", f"^{stem}.*", topic_metadata_refresh_interval_ms=300)
    poll_until([consumer], [1])
    make_topic(1)
    poll_until([consumer], [2])


def test_what_the_admin_client_sees(numbers: str, new_consumer: NewConsumer, bootstrap: str, protocol: str) -> None:
    consumer = new_consumer("seen", numbers)
    read(consumer, 40)
    consumer.commit(asynchronous=False)
    group = f"seen-{protocol}"
    client = AdminClient({"bootstrap.servers": bootstrap})
    assert group in {g.group_id for g in client.list_consumer_groups().result(60).valid}

    def state() -> tuple[Any, int]:
        described = client.describe_consumer_groups([group])[group].result(60)
        return described.state, len(described.members)

    eventually(state, (ConsumerGroupState.STABLE, 1))
    asked = [ConsumerGroupTopicPartitions(group)]
    found = client.list_consumer_group_offsets(asked)[group].result(60).topic_partitions
    assert sorted((tp.partition, tp.offset) for tp in found) == [(0, 10), (1, 10), (2, 10), (3, 10)]
    consumer.unsubscribe()
    consumer.close()

    def is_empty() -> bool:
        return bool(client.describe_consumer_groups([group])[group].result(60).state == ConsumerGroupState.EMPTY)

    eventually(is_empty, True)
    client.delete_consumer_groups([group])[group].result(60)
    assert group not in {g.group_id for g in client.list_consumer_groups().result(60).valid}
