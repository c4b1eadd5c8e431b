"""Real clients that write histories, in a few words."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from time import monotonic, sleep
from typing import Any

from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from pykafka_broker.testing import KafkaBroker

PATIENCE_S = 30
EARLIEST = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
History = Callable[[KafkaBroker], None]


def producer(broker: KafkaBroker, **settings: Any) -> Producer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({**broker.client_config("confluent"), "client.id": "writer", "linger.ms": 0, **given})


def write(made: Producer, *values: str, topic: str = "orders", key: str | None = None, partition: int = 0) -> None:
    """Write records, each in a batch of its own."""
    for value in values:
        made.produce(topic, value.encode(), key, partition=partition)
        assert made.flush(PATIENCE_S) == 0


def transacting(broker: KafkaBroker, name: str = "writer") -> Producer:
    made = producer(broker, transactional_id=name, client_id=name)
    made.init_transactions(PATIENCE_S)
    return made


def consumer(broker: KafkaBroker, group: str = "billing", **settings: Any) -> Consumer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    own = {"group.id": group, "client.id": "reader", **EARLIEST}
    made = Consumer({**broker.client_config("confluent"), **own, **given})
    made.subscribe(["orders"])
    return made


def read(made: Consumer, count: int, commit: bool = True) -> list[str]:
    """Read some records, and commit where the client is by then."""
    values: list[str] = []
    until = monotonic() + PATIENCE_S
    while len(values) < count:
        assert monotonic() < until, values
        message = made.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            values.append((message.value() or b"").decode())
    if commit:
        made.commit(asynchronous=False)
    return values


def read_once(broker: KafkaBroker, count: int, group: str = "billing", commit: bool = True, **settings: Any) -> None:
    """Read some records with a consumer, and wait until its own connections have ended.

    Those of an earlier test may stay: kafka-python 3.0.12 leaves a socket open if it is closed just as it writes.
    """

    def connected() -> set[int]:
        return {each["connection"] for each in broker.connections(settings.get("client_id", "reader"))}

    before = connected()
    with closing(consumer(broker, group, **settings)) as made:
        read(made, count, commit)
    until = monotonic() + PATIENCE_S
    while left := connected() - before:
        assert monotonic() < until, left
        sleep(0.01)


def python_consumer(broker: KafkaBroker, **settings: Any) -> Any:
    own = {"group_id": "billing", "client_id": "reader", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    return KafkaConsumer(**broker.client_config("kafka-python"), **{**own, **settings})


def know_partitions(made: Any) -> None:
    """Let kafka-python know the partitions: a leader that learns of them after its first poll joins again."""
    for topic in made.subscription() or ():
        made.partitions_for_topic(topic)


def polled(made: Any, count: int) -> None:
    """Read some records with kafka-python."""
    know_partitions(made)
    until, found = monotonic() + PATIENCE_S, 0
    while found < count:
        assert monotonic() < until
        found += sum(map(len, made.poll(1000, max_records=count - found).values()))
