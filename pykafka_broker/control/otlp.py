"""The metrics that clients push (KIP-714), read from OTLP's MetricsData.

Rule: read only to be shown; a push that would hold up clients meanwhile is not read. The reader is OpenTelemetry's own
library, an extra of the package, imported with the first push to be shown. What does not decode is a text that says
why.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pykafka_broker.records.compression import decompress
from pykafka_broker.records.errors import CorruptBatch

_KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
_DELTA = 1  # AGGREGATION_TEMPORALITY_DELTA
_MOST_BYTES = 1 << 20  # of a compressed push
_MOST_POINTS = 5_000  # of a push; a client has some hundreds
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]")
_KAFKA = "org.apache.kafka."


@dataclass
class ClientMetric:
    """A value of a metric, as a client has pushed it. `kind` is gauge, sum, histogram, exponential_histogram or
    summary; of the last three `value` is the sum of what was counted, and `count` how often. `delta`: the value is of
    the time since the push before. A value that is no number is null.
    """

    name: str
    kind: str
    delta: bool
    attributes: dict[str, str]
    value: float | None
    count: int | None


def decoded_push(codec: int, payload: bytes | memoryview) -> list[ClientMetric] | str:
    """Return the metrics of a push as it was sent, or why they can't be shown."""
    try:
        return decoded_metrics(decompress(codec, payload, _MOST_BYTES) if codec and len(payload) else bytes(payload))
    except (CorruptBatch, ValueError, IndexError):
        return f"{len(payload)} bytes that can't be decompressed"


def decoded_metrics(payload: bytes) -> list[ClientMetric] | str:
    """Return the metrics of an uncompressed push, or why they can't be shown."""
    if not payload:
        return []
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    except ImportError:
        return f"{len(payload)} bytes; they are read with opentelemetry-proto: pip install opentelemetry-proto"
    try:
        data = MetricsData.FromString(payload)
    except DecodeError:
        return f"{len(payload)} bytes that are not OTLP"
    points = (
        point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in _points(metric)
    )
    found = list(islice(points, _MOST_POINTS + 1))
    return found if len(found) <= _MOST_POINTS else f"{len(payload)} bytes with more than {_MOST_POINTS} values"


def _points(metric: Any) -> Iterator[ClientMetric]:
    kind = metric.WhichOneof("data")
    if kind not in _KINDS:
        return
    data = getattr(metric, kind)
    delta = getattr(data, "aggregation_temporality", None) == _DELTA
    for point in data.data_points:
        attributes = {each.key: _text(each.value) for each in point.attributes}
        if kind in ("gauge", "sum"):
            chosen = point.WhichOneof("value")
            value, count = float(getattr(point, chosen)) if chosen else math.nan, None
        else:
            value, count = float(point.sum), int(point.count)
        yield ClientMetric(metric.name, kind, delta, attributes, value if math.isfinite(value) else None, count)


def _text(value: Any) -> str:
    chosen = value.WhichOneof("value")
    return str(getattr(value, chosen)) if chosen else ""


def prometheus_name(name: str) -> str:
    """Return the name of a client's metric in /metrics, which no metric of the broker has."""
    return f"kafka_client_{_NOT_IN_A_NAME.sub('_', name.removeprefix(_KAFKA))}"


def prometheus_label(name: str) -> str:
    """Return a name of letters, digits and underscores, without a digit at the beginning."""
    fitting = _NOT_IN_A_NAME.sub("_", name)
    return f"_{fitting}" if fitting[:1].isdigit() or not fitting else fitting
