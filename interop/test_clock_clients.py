"""Half an hour goes by in a moment, and each client goes on: it has lost its membership and its connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from interop.fault_clients import Aiokafka, Client, Confluent, Java, KafkaPython
from interop.fault_programs import franz_go, kafkajs
from interop.java_transactions import JavaClients
from pykafka_broker.testing import KafkaBroker

pytestmark = pytest.mark.ours_only
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def movable() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.mark.parametrize("client", [KafkaPython(), Confluent(), Aiokafka()], ids=lambda client: client.name)
def test_a_consumer_joins_again_and_reads_on(movable: KafkaBroker, client: Client) -> None:
    reads_on(movable, client)


@pytest.mark.slow
@pytest.mark.parametrize("client", [franz_go(), kafkajs()], ids=lambda client: client.name)
def test_a_program_joins_again_and_reads_on(movable: KafkaBroker, client: Client) -> None:
    reads_on(movable, client)


@pytest.mark.java
def test_a_java_consumer_joins_again_and_reads_on(movable: KafkaBroker, java: JavaClients) -> None:
    reads_on(movable, Java(java))


def reads_on(broker: KafkaBroker, client: Client) -> None:
    topic = group = f"clock-{client.name}"
    broker.create_topic(topic)
    broker.produce(topic, ["before"])
    reader = client.reader(broker.bootstrap_servers, topic, group)
    assert reader.read(PATIENCE_S) == "before"
    reader.commit()
    (member,) = members(broker, group)
    begin = broker.clock.now()
    assert broker.clock.advance(minutes=30) - begin >= 30 * 60_000
    assert member not in members(broker, group)
    assert until(lambda: reader.read(1.0) is None and broker.group(group)["state"] == "Stable")
    assert members(broker, group).isdisjoint({member})
    client.send(broker.bootstrap_servers, topic, "after")
    assert until(lambda: reader.read(1.0) == "after")
    reader.commit()
    assert broker.lag(group) == 0
    reader.close()


def members(broker: KafkaBroker, group: str) -> set[str]:
    return {each["member_id"] for each in broker.group(group)["members"]}


def until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if holds():
            return True
    return False
