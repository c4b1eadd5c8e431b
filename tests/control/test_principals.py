"""Principals of clients, in the request log, in the list of connections and as targets of faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from pykafka_broker.testing import KafkaBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(security="sasl_plaintext", users=["alice", "bob"], in_process=True) as broker:
        broker.create_topic("t")
        yield broker


def send(broker: KafkaBroker, user: str) -> list[Any]:
    """Send one record; return a list with the name of its error, or with None."""
    told: list[Any] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        told.append(None if error is None else error.name())

    producer = Producer({**broker.client_config("confluent", user), "retries": 0})
    producer.produce("t", b"1", callback=delivered)
    assert producer.flush(60) == 0
    assert [each["principal"] for each in broker.connections() if each["client_id"] == "rdkafka"][-1] == f"User:{user}"
    return told


def test_requests_and_connections_say_who_it_is(broker: KafkaBroker) -> None:
    send(broker, "alice")
    send(broker, "bob")
    assert {each["principal"] for each in broker.requests("Produce")} == {"User:alice", "User:bob"}
    assert {each["principal"] for each in broker.wait_for_request("Produce", principal="User:a*")} == {"User:alice"}
    assert broker.requests("Produce", principal="User:carol") == []


def test_a_fault_is_meant_for_one_of_them(broker: KafkaBroker) -> None:
    with broker.faults.add(api="Produce", principal="User:bob", error="INVALID_RECORD") as fault:
        assert send(broker, "alice") == [None]
        assert send(broker, "bob") == ["INVALID_RECORD"]
        assert fault.describe()["principal"] == "User:bob"
        assert fault.hits == 1
