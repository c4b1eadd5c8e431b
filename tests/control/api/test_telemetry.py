"""Clients that push their metrics: the operation, their part of /metrics, and the request log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka_broker.control.api import telemetry
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from pykafka_broker.protocol.messages.push_telemetry_request import PushTelemetryRequest
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.testing import KafkaBroker
from tests.control.raw_client import RawClient, raw_client
from tests.control.test_otlp import of_every_kind

EMPTY = b""


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker({"pykafka.telemetry": "true"}, in_process=True) as broker:
        yield broker


class PushingProgram:
    """A client that has asked for its telemetry subscription, and can push."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        client.ask(ApiVersionsRequest("soft", "1.2"), 4)
        self.asked = client.ask(GetTelemetrySubscriptionsRequest(), 0)

    def push(self, metrics: bytes, *, terminating: bool = False) -> int:
        asked = self.asked
        push = PushTelemetryRequest(asked.client_instance_id, asked.subscription_id, terminating, 0, metrics)
        return int(self._client.ask(push, 0).error_code)


def clients(broker: KafkaBroker, **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = broker.control.call("GET", "/telemetry", query=query)
    return found


def test_a_client_and_its_pushes_are_told(broker: KafkaBroker) -> None:
    with raw_client(broker) as connection:
        program = PushingProgram(connection)
        assert clients(broker) == []
        program.push(EMPTY)
        (client,) = clients(broker)
        assert client["client_instance_id"] == uuid_text(program.asked.client_instance_id)
        assert (client["software"], client["connected"], client["terminating"]) == ("soft 1.2", True, False)
        assert (client["pushes"], client["bytes"]) == (1, 0)
        assert clients(broker, client_id="another") == []
        assert program.push(b"\xff", terminating=True) == 0
    (client,) = clients(broker)
    assert (client["pushes"], client["bytes"], client["terminating"], client["metrics"]) == (2, 1, True, None)
    assert client["problem"].startswith("1 bytes")


def test_the_last_to_push_are_told(broker: KafkaBroker) -> None:
    with raw_client(broker) as connection:
        first, second = PushingProgram(connection), PushingProgram(connection)
        for program in (first, second):
            program.push(EMPTY)
        first.push(EMPTY, terminating=True)
        told = [each["client_instance_id"] for each in clients(broker)]
        assert told == [uuid_text(each.asked.client_instance_id) for each in (second, first)]
        assert [each["client_instance_id"] for each in clients(broker, limit="1")] == told[1:]


def test_pushes_are_counted_for_prometheus(broker: KafkaBroker) -> None:
    with raw_client(broker) as connection:
        program = PushingProgram(connection)
        program.push(EMPTY)
        program.push(EMPTY)
        told = broker.metrics()
    instance = uuid_text(program.asked.client_instance_id)
    assert "kafka_server_client_metrics_instance_count 1.0" in told
    assert f'kafka_server_client_metrics_plugin_export_count_total{{client_instance_id="{instance}"}} 1.0' in told
    assert "kafka_server_client_metrics_throttle_count_total 1.0" in told
    assert "kafka_server_client_metrics_unknown_subscription_request_count_total 0.0" in told


def test_a_value_that_is_pushed_twice_is_told_once(broker: KafkaBroker) -> None:
    """Prometheus takes nothing of an answer that has a series twice."""
    pushed = of_every_kind()
    with raw_client(broker) as connection:
        PushingProgram(connection).push(pushed + pushed)  # OTLP's messages may follow each other
        assert broker.metrics().count("kafka_client_g{") == 1


def test_metrics_of_clients_are_shown_while_they_push(broker: KafkaBroker) -> None:
    pushed = of_every_kind()
    with raw_client(broker) as connection:
        program = PushingProgram(connection)
        program.push(pushed)
        (line,) = [each for each in broker.metrics().splitlines() if each.startswith("kafka_client_g{")]
        assert 'topic="orders"' in line
        assert 'client_software_name="soft"' in line
        assert line.endswith(" 1.5")
        (logged,) = broker.requests("PushTelemetry", bodies=True)
        assert logged["request"]["metrics"][0] == clients(broker)[0]["metrics"][0]
        program.push(EMPTY, terminating=True)
        assert "kafka_client_g{" not in broker.metrics()
        assert clients(broker)[0]["metrics"][0]["value"] == 1.5


def test_metrics_have_so_many_values_of_the_clients_that_pushed_last(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each client is there as a whole or not at all."""
    monkeypatch.setattr(telemetry, "_MOST_VALUES", 6)
    with raw_client(broker) as first, raw_client(broker) as second, raw_client(broker) as third:
        for each in map(PushingProgram, (first, second, third)):
            assert each.push(of_every_kind()) == 0
        lines = str(broker.control.call("GET", "/metrics")).splitlines()
    shown = [line for line in lines if line.startswith("kafka_client_")]
    assert [len(shown), len({line.split("client_instance_id=")[1][:24] for line in shown})] == [10, 2]
