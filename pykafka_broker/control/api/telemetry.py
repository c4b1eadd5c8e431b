"""Clients that push their metrics (KIP-714): the operation, and their part of /metrics.

Rule: the values are those of a client's last push; most are of the time since the push before. Metrics for Prometheus
are of clients that are connected, with the names of Kafka's group `client-metrics` and of the clients' own metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykafka_broker.control.control import Control
from pykafka_broker.control.otlp import ClientMetric, decoded_metrics, prometheus_label, prometheus_name
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import uuid_text

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from pykafka_broker.broker.client_metrics import ClientMetricsManager, ClientPushes

_STATS = "kafka_server_client_metrics_"
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


def telemetry(control: Control, client_id: str | None = None) -> list[PushingClient]:
    """Return the clients that have pushed their metrics to this broker, those with the oldest last push first; with
    `client_id` those of that id. Clients push what subscriptions of kafka-client-metrics ask for, if the broker offers
    it (`pykafka.telemetry=true`).
    """
    manager = control.services.client_metrics
    return [
        _client(manager, each)
        for each in manager.pushed.values()
        if client_id is None or each.attributes["client_id"] == client_id
    ]


def _client(manager: ClientMetricsManager, pushes: ClientPushes) -> PushingClient:
    metrics = decoded_metrics(pushes.payload)
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


def of_clients(manager: ClientMetricsManager) -> Iterator[Metric]:
    """Yield the counts of telemetry, and the metrics of connected clients."""
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
    yield from _of_their_own(manager)


def _of_their_own(manager: ClientMetricsManager) -> Iterator[Metric]:
    from prometheus_client.core import Metric as Family

    families: dict[str, Family] = {}
    for pushes in manager.pushed.values():
        metrics = decoded_metrics(pushes.payload)
        if pushes.terminating or pushes.instance_id not in manager.instances or isinstance(metrics, str):
            continue
        told = {"client_instance_id": uuid_text(pushes.instance_id)} | dict(pushes.attributes)
        own = {label: told[label] for label in _LABELS}
        for each in metrics:
            name = prometheus_name(each.name)
            family = families.setdefault(name, Family(name, f"Pushed by clients as {each.name}", "gauge"))
            if each.value is not None:
                labels = {prometheus_label(key): value for key, value in each.attributes.items()}
                family.add_sample(name, labels | own, each.value)
    yield from families.values()
