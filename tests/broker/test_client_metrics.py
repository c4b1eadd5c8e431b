"""Telemetry beside what `tests/scenarios/telemetry` compares with Kafka: who is offered it, and what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.broker import client_metrics
from pykafka_broker.broker.client_metrics import (
    ClientInstance,
    ClientMetricsManager,
    Subscription,
    WantedMetrics,
    subscription_id,
    subscription_of,
)
from pykafka_broker.broker.requests.context import ConnectionContext, RequestContext
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.api_versions_request import ApiVersionsRequest
from pykafka_broker.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from pykafka_broker.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pykafka_broker.protocol.messages.push_telemetry_request import PushTelemetryRequest
from pykafka_broker.records.compression import compress
from pykafka_broker.steps import at_once
from tests.broker.api.real_broker import RealBroker

TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
MAX_BYTES = 1000
NOW = 1_000_000


def offered(broker: RealBroker) -> set[int]:
    return {each.api_key for each in broker.call(ApiVersionsRequest("a", "1"), 3).api_keys}


@pytest.mark.parametrize("release", ["", "4.0"])
def test_telemetry_is_offered_where_a_setting_asks_for_it(tmp_path: Path, release: str) -> None:
    emulated = {"pykafka.emulate": release} if release else {}
    assert not offered(RealBroker(tmp_path / "off", **emulated)) & TELEMETRY
    switched_on = {"pykafka.telemetry": "true", **emulated}
    assert offered(RealBroker(tmp_path / "on", **switched_on)) >= TELEMETRY


def test_a_release_before_telemetry_does_not_offer_it(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path, **{"pykafka.telemetry": "true", "pykafka.emulate": "3.6"})
    assert not offered(broker) & TELEMETRY


LATENCY, QUEUE = "org.apache.kafka.producer.request.latency.avg", "org.apache.kafka.producer.record.queue.time.max"
CONSUMER = "org.apache.kafka.consumer"
INSTANCE = b"8412z..........."


@pytest.mark.parametrize(
    ("instance_id", "metrics", "kafka_says"),
    [
        (b"1" * 16, ["a"], 1748318871),
        (bytes(15) + b"\5", ["a"], 1748318866),
        (bytes(range(16)), ["a"], 1748318871),
        (INSTANCE, ["*"], 1888595365),
        (INSTANCE, [*"abcdef"], -1042373983),
        (INSTANCE, [LATENCY, QUEUE, CONSUMER], -1758392610),
    ],
)
def test_a_subscription_has_kafkas_id(instance_id: bytes, metrics: list[str], kafka_says: int) -> None:
    """Brokers of Kafka and of this project in one cluster take a client's pushes under the same id."""
    assert subscription_id(instance_id, WantedMetrics([Subscription(metrics, 1000, {})]).checksum) == kafka_says


def test_a_push_is_kept_with_its_client(tmp_path: Path) -> None:
    broker = RealBroker(tmp_path)
    configs = [AlterableConfig("metrics", 0, "*"), AlterableConfig("interval.ms", 0, "100")]
    broker.call(IncrementalAlterConfigsRequest([AlterConfigsResource(16, "m", configs)]), 1)
    broker.call(ApiVersionsRequest("soft", "1.2"), 4)
    asked: Any = broker.call(GetTelemetrySubscriptionsRequest(), 0)
    assert asked.accepted_compression_types == [4, 3, 1, 2]
    for metrics, codec, last in ((b"first", 0, False), (compress(4, b"second"), 4, False), (b"", 0, True)):
        push = PushTelemetryRequest(asked.client_instance_id, asked.subscription_id, last, codec, metrics)
        assert broker.call(push, 0).error_code == 0
        broker.wait(100)
    (kept,) = broker.broker.services.client_metrics.pushed.values()
    assert (kept.pushes, kept.payload, kept.terminating) == (3, b"second", True)
    assert kept.attributes["client_software_name"] == "soft"


@pytest.mark.parametrize("before", ["last_get_ms", "last_push_ms"])
def test_a_subscription_is_asked_for_once_in_an_interval(before: str) -> None:
    client = ClientInstance(1, 0, INSTANCE, WantedMetrics([]))
    setattr(client, before, NOW)
    with pytest.raises(ApiError):
        client.check_get(NOW + client.interval_ms - 1)
    client.check_get(NOW + client.interval_ms)


def test_equals_signs_at_the_end_of_a_match_are_no_part_of_the_expression() -> None:
    assert subscription_of({"match": "client_id=a=="}).match["client_id"].fits("a")


def test_what_takes_long_to_match_counts_as_more_work() -> None:
    def work(expression: str) -> int:
        return subscription_of({"match": f"client_id={expression}"}).work({"client_id": "a" * 1000})

    assert (work("a"), work(".*"), work(".*.*.*"), work("(a+)+b")) == (2, 1001, 1001, 1001)


class Clients:
    """Clients of a manager without subscriptions, each with a connection of its own."""

    def __init__(self) -> None:
        self.manager = ClientMetricsManager(MetadataImage, MAX_BYTES)

    def push(self, client: int, payload: bytes = b"", *, now: int = NOW) -> bytes:
        instance_id = (client + 100).to_bytes(16, "big")
        address = ("127.0.0.1", 9092)
        connection = ConnectionContext(client, "PLAINTEXT", address, address)
        context = RequestContext(ApiKey.PUSH_TELEMETRY, 0, 0, f"client {client}", connection, now)
        asked = subscription_id(instance_id, WantedMetrics([]).checksum)
        at_once(self.manager.push(instance_id, context, asked, False, 0, payload, 0))
        return instance_id


def test_the_client_that_was_silent_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "_MOST_INSTANCES", 2)
    monkeypatch.setattr(client_metrics, "_MOST_PUSHES", 2)
    clients = Clients()
    first, second = clients.push(1), clients.push(2)
    clients.push(1, now=NOW + 300_000)
    third = clients.push(3)
    assert [*clients.manager.instances] == [*clients.manager.pushed] == [first, third]
    assert second not in clients.manager.instances


def test_the_clients_of_a_connection_go_with_it_without_a_look_at_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "_MOST_INSTANCES", 3)
    clients = Clients()
    _, second, _, _ = (clients.push(number) for number in (1, 2, 3, 4))
    assert len(clients.manager._of_connections) == 3, "the first client has made room"
    clients.manager.connection_closed(2)
    clients.manager.connection_closed(1)
    assert second not in clients.manager.instances
    assert len(clients.manager.instances) == len(clients.manager._of_connections) == 2


@pytest.mark.parametrize(
    ("expression", "attribute", "fits"),
    [
        ("(a+)+b", "a" * 40, False),
        ("(a+)+b", "a" * 40 + "b", True),
        ("a?" * 40 + "b", "a" * 40, False),
        ("(a|a)" * 40 + "b", "a" * 40, False),
        (".*.*.*b", "a" * 30_000, False),
        (r"(a+)+\1b", "a" * 40, False),
        ("(?=a)(a+)+", "a" * 40, False),
        ("app-(prod|test)-[0-9]+", "app-test-17", True),
        ("app-(?!test).*(-[0-9]+)?", "app-prod-17", True),
        ("(", "(", False),
    ],
)
def test_no_name_of_a_client_is_matched_for_ever(expression: str, attribute: str, fits: bool) -> None:
    assert client_metrics.Expression(expression).fits(attribute) is fits


def test_clients_share_what_is_wanted_and_subscriptions_that_stay_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_metrics, "_MOST_WANTED", 2)
    broker = RealBroker(tmp_path)

    def subscribe(name: str, metrics: str) -> list[Any]:
        configs = [AlterableConfig("metrics", 0, metrics)]
        broker.call(IncrementalAlterConfigsRequest([AlterConfigsResource(16, name, configs)]), 1)
        for _ in range(2):
            broker.call(GetTelemetrySubscriptionsRequest(), 0)
        return list(broker.broker.services.client_metrics.instances.values())[-2:]

    first, second = subscribe("one", "a,b")
    assert sorted(first.metrics) == ["a", "b"]
    assert first.metrics is second.metrics
    kept = broker.broker.services.client_metrics._subscriptions["one"]
    third, _ = subscribe("two", "c")
    assert sorted(third.metrics) == ["a", "b", "c"]
    manager = broker.broker.services.client_metrics
    assert manager._subscriptions["one"] is kept
    assert len(manager._wanted) == 2
    subscribe("three", "d")
    assert len(manager._wanted) == 1, "the two before have made room"


def test_old_pushes_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "_MOST_PUSHED_BYTES", 25)
    clients = Clients()
    kept = [clients.push(number, b"ten bytes.") for number in range(4)]
    assert [*clients.manager.pushed] == kept[2:]
    for later in (300_000, 600_000):
        clients.push(3, b"15 new bytes...", now=NOW + later)
    assert [*clients.manager.pushed] == kept[2:], "25 bytes: the push before is replaced"
    clients.push(3, b"16 newer bytes..", now=NOW + 900_000)
    assert [*clients.manager.pushed] == kept[3:]


def test_what_was_pushed_outlives_the_connection() -> None:
    clients = Clients()
    gone, stays = clients.push(1), clients.push(2)
    clients.manager.connection_closed(1)
    assert [*clients.manager.instances] == [stays]
    assert [*clients.manager.pushed] == [gone, stays]


def test_refused_pushes_are_counted() -> None:
    clients = Clients()
    clients.push(1)
    for _ in range(2):
        with pytest.raises(ApiError) as caught:
            clients.push(1)
    assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert clients.manager.errors == {ErrorCode.THROTTLING_QUOTA_EXCEEDED: 2}
