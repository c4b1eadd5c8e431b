"""The state goes back to what it was, and each client goes on by itself: it joins again, and reads what comes then."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from interop.fault_clients import Aiokafka, Client, Confluent, Java, KafkaPython, Reader
from interop.fault_programs import StepFailed, franz_go, kafkajs
from interop.java_transactions import JavaClients
from pykafka_broker.testing import KafkaBroker

pytestmark = pytest.mark.ours_only
PATIENCE_S = 30.0
PYTHON = [KafkaPython(), Confluent(), Aiokafka()]
HOW = ["reset", "restore"]
# Java's consumer of the newer protocol loses its partitions in another thread than polls, and may stumble over that.
RACE_OF_JAVA = "No current assignment for partition"


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


def read(reader: Reader, timeout_s: float) -> str | None:
    try:
        return reader.read(timeout_s)
    except Exception as error:
        if RACE_OF_JAVA not in str(error):
            raise
        return None


def comes(reader: Reader, value: str) -> bool:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if read(reader, 1.0) == value:
            return True
    return False


def joins(broker: KafkaBroker, reader: Reader, group: str) -> bool:
    """Return whether the group becomes stable. The reader reads meanwhile: some clients join again only then."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        read(reader, 1.0)
        if any(each["group_id"] == group and each["state"] == "Stable" for each in broker.groups()):
            return True
    return False


def goes_on(broker: KafkaBroker, client: Client, how: str, times: int = 1) -> None:
    broker.reset()
    topic = group = f"state-{client.name}"
    broker.create_topic(topic)
    broker.snapshot("empty")
    broker.produce(topic, ["before"])
    reader = client.reader(broker.bootstrap_servers, topic, group)
    assert comes(reader, "before")
    reader.commit()
    for number in range(times):
        if how == "reset":
            broker.reset(keep=["topics"])
        else:
            broker.restore("empty")
        client.send(broker.bootstrap_servers, topic, f"after {number}")
        assert comes(reader, f"after {number}")
    assert joins(broker, reader, group)
    reader.close()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("client", PYTHON, ids=lambda client: client.name)
def test_a_consumer_goes_on(broker: KafkaBroker, client: Client, how: str) -> None:
    goes_on(broker, client, how)


@pytest.mark.slow
@pytest.mark.parametrize(("client", "how"), [(franz_go(), "restore"), (kafkajs(), "reset"), (kafkajs(), "restore")])
def test_a_program_goes_on(broker: KafkaBroker, client: Client, how: str) -> None:
    goes_on(broker, client, how)


@pytest.mark.slow
def test_franz_go_gives_a_topic_up_that_was_made_anew(broker: KafkaBroker) -> None:
    """franz-go gives up a topic that was deleted and created again, as it does with any broker.

    Its users purge the topic, or add it under another name.
    """
    with pytest.raises(StepFailed, match="UNKNOWN_TOPIC_ID"):
        goes_on(broker, franz_go(), "reset")


@pytest.mark.java
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_java_consumer_goes_on(broker: KafkaBroker, java: JavaClients, protocol: str) -> None:
    for how in HOW:
        goes_on(broker, Java(java, protocol), how)


@pytest.mark.slow
@pytest.mark.java
def test_a_java_consumer_goes_on_thirty_times(broker: KafkaBroker, java: JavaClients) -> None:
    goes_on(broker, Java(java, "consumer"), "restore", 30)
