"""A broker that stops or dies under open groups: its clients go on by themselves, and what was committed stays."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from interop.conftest import NewBroker
from interop.crew import COMES_BACK, CONSUMER_PROTOCOL, Crew, Kind, one_of_each, patient
from interop.targets import Target
from interop.waiting import eventually

# Longer than the restart of a real Kafka: a member that is thrown out meanwhile would prove nothing.
SESSION_MS = 45_000
CLASSIC = one_of_each(SESSION_MS)
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
GROUPS = {
    "classic": CLASSIC,
    "static": [
        Kind(kind.client, {**kind.settings, name: f"i-{kind.client}"})
        for kind, name in zip(CLASSIC, ("group.instance.id", "group_instance_id", "group_instance_id"), strict=True)
    ],
    "cooperative": [Kind("confluent", {**patient(SESSION_MS), **COMES_BACK, **COOPERATIVE})] * 3,
    "consumer": [Kind("confluent", {**COMES_BACK, **CONSUMER_PROTOCOL})] * 3,
}
NOT_YET = {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE}
ENDS: dict[str, Callable[[Target], None]] = {"stop": lambda broker: broker.stop(), "kill": lambda broker: broker.kill()}


@pytest.fixture
def broker(new_broker: NewBroker) -> Target:
    return new_broker(group_consumer_heartbeat_interval_ms=300, group_consumer_min_heartbeat_interval_ms=300)


@pytest.fixture(params=GROUPS)
def crew(request: pytest.FixtureRequest, broker: Target, tmp_path: Path) -> Iterator[Crew]:
    with Crew(broker.bootstrap_servers, request.param, tmp_path) as working:
        for kind in GROUPS[request.param]:
            working.start(kind)
        working.await_shares()
        yield working


def at_rest(crew: Crew, before: Mapping[int, int]) -> list[int]:
    """Return the partitions whose committed offset has not risen."""
    committed = crew.committed()
    return [partition for partition, offset in before.items() if committed.get(partition, -1) <= offset]


def test_a_group_goes_on(crew: Crew, broker: Target) -> None:
    members = crew.described()
    for end in ENDS.values():
        before = crew.committed()
        end(broker)
        broker.restart()
        # It is the group of before: the same members with the same partitions, and none had to join again.
        crew.await_shares()
        assert crew.described() == members
        eventually(partial(at_rest, crew, before), [], 90)  # on a busy machine clients come back slowly
    crew.finish()


def commit(consumer: Consumer, topic: str, offsets: dict[int, int]) -> None:
    wanted = [TopicPartition(topic, p, offset, metadata=f"note {offset}") for p, offset in offsets.items()]
    deadline = time.monotonic() + 60
    while True:
        try:
            consumer.commit(offsets=wanted, asynchronous=False)
            return
        except KafkaException as error:  # a Kafka that has just started has no coordinator yet
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise


@pytest.mark.parametrize("end", ENDS)
def test_offsets_survive(end: str, broker: Target, tmp_path: Path) -> None:
    with Crew(broker.bootstrap_servers, "idle", tmp_path, partitions=3) as crew:
        crew.feed.stop()
        with closing(Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "idle"})) as consumer:
            for offset in range(100):
                commit(consumer, crew.topic, {0: offset, 1: 2 * offset})
        ENDS[end](broker)
        broker.restart()
        eventually(crew.committed, {0: 99, 1: 198})
        with closing(Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "idle"})) as consumer:
            [found] = consumer.committed([TopicPartition(crew.topic, 1)], timeout=20)
        assert (found.offset, found.metadata) == (198, "note 198")
