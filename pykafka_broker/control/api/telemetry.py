"""Clients that push their metrics (KIP-714): the operation, and their part of /metrics.

Rule: the values are those of a client's last push; most are of the time since the push before. Metrics for Prometheus
are of clients that are connected, with the names of Kafka's group `client-metrics` and of the clients' own metrics: at
most about `_MOST_VALUES`, of the clients that have pushed last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pykafka_broker.control.control import Control
from pykafka_broker.control.otlp import ClientMetric, decoded_metrics, prometheus_label, prometheus_name
from pykafka_broker.control.schema import ValueLimits
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import uuid_text

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from pykafka_broker.broker.client_metrics import ClientMetricsManager, ClientPushes

Clients = Annotated[int, ValueLimits(minimum=1, maximum=1000)]
_STATS = "kafka_server_client_metrics_"
_MOST_VALUES = 50_000  # as many as hundreds of clients have
_LABELS = ("client_id", "client_instance_id", "client_software_name", "client_software_version")


@dataclass
class PushingClient:
    """A client that has pushed metrics. `pushes` and `bytes` count since the first one; `time` is of the last one, in
    epoch milliseconds; `terminating`: the client has said that no other push comes. `metrics` are those of the last
    push that had any, and null if they can't be shown, which `problem` explains.
    """

    client_instance_id: str
    client_id: str
    software: str
    client: str
    connected: bool
    terminating: bool
    pushes: int
    bytes: int
    time: int
    metrics: list[ClientMetric] | None
    problem: str | None


async def telemetry(control: Control, client_id: str | None = None, limit: Clients = 100) -> list[PushingClient]:
    """Return the clients that have pushed their metrics to this broker, of the id `client_id` alone if one is given: at
    most `limit`, the last to have pushed, in the order of their last pushes. Clients push what subscriptions of
    kafka-client-metrics ask for, if the broker offers it (`pykafka.telemetry=true`).
    """
    manager = control.services.client_metrics
    fitting = [each for each in manager.pushed.values() if client_id in (None, each.attributes["client_id"])]
    return [_client(manager, each, metrics) async for each, metrics in _decoded(fitting[-limit:])]


async def _decoded(pushes: Iterable[ClientPushes]) -> AsyncIterator[tuple[ClientPushes, list[ClientMetric] | str]]:
    """Yield the clients with the metrics of their last pushes; other work goes on between two clients."""
    for each in pushes:
        yield each, decoded_metrics(each.payload)
        await asyncio.sleep(0)


def _client(manager: ClientMetricsManager, pushes: ClientPushes, metrics: list[ClientMetric] | str) -> PushingClient:
    told = pushes.attributes
    return PushingClient(
        client_instance_id=uuid_text(pushes.instance_id),
        client_id=told["client_id"],
        software=f"{told['client_software_name']} {told['client_software_version']}",
        client=f"{told['client_source_address']}:{told['client_source_port']}",
        connected=pushes.instance_id in manager.instances,
        terminating=pushes.terminating,
        pushes=pushes.pushes,
        bytes=pushes.bytes,
        time=pushes.time_ms,
        metrics=None if isinstance(metrics, str) else metrics,
        problem=metrics if isinstance(metrics, str) else None,
    )


async def families_of_clients(manager: ClientMetricsManager) -> list[Metric]:
    """Return the metrics of connected clients, for Prometheus."""
    from prometheus_client.core import Metric as Family

    families: dict[str, Family] = {}
    connected = [each for each in reversed(manager.pushed.values()) if each.instance_id in manager.instances]
    left = _MOST_VALUES
    async for pushes, metrics in _decoded([each for each in connected if not each.terminating]):
        told = {"client_instance_id": uuid_text(pushes.instance_id)} | dict(pushes.attributes)
        own = {label: told[label] for label in _LABELS}
        values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}  # a series that is pushed twice is told once
        for each in () if isinstance(metrics, str) else metrics:
            name = prometheus_name(each.name)
            families.setdefault(name, Family(name, f"Pushed by clients as {each.name}", "gauge"))
            if each.value is not None:
                labels = {prometheus_label(key): value for key, value in each.attributes.items()} | own
                values[name, frozenset(labels.items())] = each.value
        for (name, series), value in values.items():
            families[name].add_sample(name, dict(sorted(series)), value)
        left -= len(values)
        if left <= 0:
            break
    return [*families.values()]


def of_telemetry(manager: ClientMetricsManager) -> Iterator[Metric]:
    """Yield the counts of pushes and of refused requests."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    instances = len(manager.instances)
    yield GaugeMetricFamily(f"{_STATS}instance_count", "Clients that have asked what to push", instances)
    exported = CounterMetricFamily(f"{_STATS}plugin_export_count", "Pushes that were accepted", labels=_LABELS[1:2])
    for pushes in manager.pushed.values():
        exported.add_metric([uuid_text(pushes.instance_id)], pushes.pushes)
    yield exported
    for name, says, code in (
        ("throttle_count", "Requests before the push interval", ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        ("unknown_subscription_request_count", "Pushes for another subscription", ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
    ):
        yield CounterMetricFamily(_STATS + name, says, manager.errors[code])
