"""Pushes of clients, read with OpenTelemetry's library: every kind of metric, and what can't be shown."""

from __future__ import annotations

import sys

import pytest

from pykafka_broker.control.otlp import ClientMetric, decoded_metrics, decoded_push, prometheus_label, prometheus_name
from pykafka_broker.records.compression import compress

GZIP = 1


def of_every_kind() -> bytes:
    """Return a push with a metric of every kind."""
    metrics = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2", reason="the extra is not installed")
    data = metrics.MetricsData()
    kinds = data.resource_metrics.add().scope_metrics.add().metrics
    kinds.add(name="g").gauge.data_points.add(as_double=1.5).attributes.add(key="topic").value.string_value = "orders"
    total = kinds.add(name="s")
    total.sum.aggregation_temporality = 1
    total.sum.data_points.add(as_int=7).attributes.add(key="node").value.int_value = 3
    kinds.add(name="h").histogram.data_points.add(sum=9.0, count=2)
    kinds.add(name="e").exponential_histogram.data_points.add(sum=8.0, count=3)
    kinds.add(name="q").summary.data_points.add(sum=6.0, count=4)
    kinds.add(name="no number").gauge.data_points.add(as_double=float("nan"))
    kinds.add(name="without data")
    pushed: bytes = data.SerializeToString()
    return pushed


def test_metrics_of_every_kind_are_read() -> None:
    assert decoded_metrics(of_every_kind()) == [
        ClientMetric("g", "gauge", False, {"topic": "orders"}, 1.5, None),
        ClientMetric("s", "sum", True, {"node": "3"}, 7.0, None),
        ClientMetric("h", "histogram", False, {}, 9.0, 2),
        ClientMetric("e", "exponential_histogram", False, {}, 8.0, 3),
        ClientMetric("q", "summary", False, {}, 6.0, 4),
        ClientMetric("no number", "gauge", False, {}, None, None),
    ]


@pytest.mark.parametrize("codec", range(5))
def test_a_push_is_read_as_it_was_sent(codec: int) -> None:
    push = of_every_kind()
    assert decoded_push(codec, compress(codec, push) if codec else push) == decoded_metrics(push)


def test_what_is_no_push_is_told_with_its_size() -> None:
    pytest.importorskip("opentelemetry.proto", reason="the extra is not installed")
    assert decoded_metrics(b"\xff") == "1 bytes that are not OTLP"


def test_a_push_of_very_many_values_is_not_shown() -> None:
    metrics = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2", reason="the extra is not installed")
    data = metrics.MetricsData()
    points = data.resource_metrics.add().scope_metrics.add().metrics.add(name="g").gauge.data_points
    points.extend([metrics.NumberDataPoint(as_int=1)] * 5_000)
    assert len(decoded_metrics(data.SerializeToString())) == 5_000
    points.add(as_int=1)
    pushed = data.SerializeToString()
    assert decoded_metrics(pushed) == f"{len(pushed)} bytes with more than 5000 values"


@pytest.mark.parametrize("codec", [GZIP, 9, -1])
def test_what_does_not_decompress_is_told_with_its_size(codec: int) -> None:
    assert decoded_push(codec, b"no stream") == "9 bytes that can't be decompressed"


def test_without_the_library_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    said = decoded_metrics(b"xyz")
    assert said == "3 bytes; they are read with opentelemetry-proto: pip install opentelemetry-proto"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("org.apache.kafka.producer.record.send-rate", "kafka_client_producer_record_send_rate"),
        ("of.an.application", "kafka_client_of_an_application"),
        ("kafka_log_log_size", "kafka_client_kafka_log_log_size"),
    ],
)
def test_a_name_for_prometheus_is_none_of_the_brokers(name: str, expected: str) -> None:
    assert prometheus_name(name) == expected


@pytest.mark.parametrize(("name", "expected"), [("node.id", "node_id"), ("2nd", "_2nd"), ("", "_"), ("é=", "__")])
def test_a_label_for_prometheus_is_one_whatever_the_client_pushes(name: str, expected: str) -> None:
    assert prometheus_label(name) == expected
