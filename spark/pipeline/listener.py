"""Metrics of every batch. Rule: they are told after the batch is done and never hold it up; if they can't be told, that
is said once, and the stream goes on.

A Spark query belongs to no consumer group, so lag tools don't see it. Here the end offsets of every finished batch are
committed to a group of the settings (nothing reads them back), and `kafka-consumer-groups --describe` shows the lag.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError
from pyspark.sql.streaming.listener import StreamingQueryListener

from pipeline.kafka import Kafka
from pipeline.settings import Settings

Metrics = dict[str, Any]
NULL_PREFIX = "null_"
KEPT_BATCHES = 1_000  # a stream may run for months
METRICS_TOPIC = "the metrics topic"
COUNTERS = {
    "rows": "Records read from the topic",
    "accepted": "Events that passed",
    "rejected": "Records that are no event",
    "late": "Events that passed behind the watermark",
    "duplicates": "Events seen before",
    "unknown": "Events with fields that the schema lacks",
}
GAUGES = {
    "lag": "Records in the topic after the last batch",
    "duration_ms": "Duration of the last batch",
    "rows_per_second": "Speed of the last batch",
    "batch_id": "Number of the last batch",
}


def offsets_of(text: Any) -> dict[str, dict[str, int]]:
    """Return the offsets of a progress, which are parsed already, JSON text, or nothing before the first batch."""
    if isinstance(text, str):
        text = json.loads(text)
    found = text if isinstance(text, dict) else {}
    return {topic: partitions for topic, partitions in found.items() if isinstance(partitions, dict)}  # not of tables


def metrics_of(progress: Metrics, job: str, output: str, counts: Metrics | None = None) -> Metrics:
    """Return a batch as one flat object. `output`: the table or topic that the job writes; `counts`: what the job
    counted in the batch itself, nothing for a job that takes every event."""
    source = progress["sources"][0] if progress.get("sources") else {}
    end, latest = offsets_of(source.get("endOffset")), offsets_of(source.get("latestOffset"))
    read = progress.get("observedMetrics", {}).get("read") or {}
    counts = counts or {}
    dropped = sum(operator.get("numRowsDroppedByWatermark", 0) for operator in progress.get("stateOperators", ()))
    rejected = read.get("rejected", 0) + counts.get("quarantined", 0)
    events = read.get("rows", 0) - rejected
    return {
        "job": job,
        "output": output,
        "query_id": progress["id"],
        "run_id": progress["runId"],
        "batch_id": progress["batchId"],
        "timestamp": progress["timestamp"],
        "duration_ms": progress.get("durationMs", {}).get("triggerExecution", 0),
        "rows": progress["numInputRows"],
        "rows_per_second": progress.get("processedRowsPerSecond", 0.0),
        "rejected": rejected,
        "quarantined": counts.get("quarantined", 0),
        "rules": counts.get("rules", {}),
        "accepted": counts.get("accepted", events),
        "late": counts.get("late", 0) + dropped,
        "sessions": counts.get("sessions", 0),
        "unknown": read.get("unknown", 0),
        "duplicates": counts.get("duplicates", 0),
        "null_rates": {
            name.removeprefix(NULL_PREFIX): round(count / events, 6) if events else 0.0
            for name, count in read.items()
            if name.startswith(NULL_PREFIX)
        },
        "watermark": counts.get("watermark"),
        "lag": sum(
            offset - end.get(topic, {}).get(partition, 0)
            for topic, partitions in latest.items()
            for partition, offset in partitions.items()
        ),
        "start_offsets": offsets_of(source.get("startOffset")),
        "end_offsets": end,
    }


def escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Totals:
    """Counts since the start of a run, as a summary and as Prometheus text."""

    def __init__(self, job: str) -> None:
        self._labels = f'{{job="{job}"}}'
        self._job = job
        self._batches = 0
        self._counts: Counter[str] = Counter()
        self._rules: Counter[str] = Counter()

    def add(self, metrics: Metrics) -> None:
        """Count a batch."""
        self._batches += 1
        self._counts.update({name: metrics[name] for name in (*COUNTERS, "quarantined", "sessions")})
        self._rules.update(metrics["rules"])

    def summary(self) -> dict[str, Any]:
        """Return the counts of the run; some of them only where there is something to count."""
        sums = {name: self._counts[name] for name in ("rows", "accepted", "rejected", "late", "duplicates")}
        more: dict[str, Any] = {name: self._counts[name] for name in ("unknown", "sessions") if self._counts[name]}
        if self._rules:
            more |= {"quarantined": self._counts["quarantined"], "rules": dict(self._rules)}
        return {"batches": self._batches, **sums, **more}

    def text(self, metrics: Metrics) -> str:
        """Return the counts, and the gauges of the last batch."""
        lines = []
        for name, words in COUNTERS.items():
            lines += [f"# HELP pipeline_{name}_total {words}", f"# TYPE pipeline_{name}_total counter"]
            lines.append(f"pipeline_{name}_total{self._labels} {self._counts[name]}")
        for name, words in GAUGES.items():
            lines += [f"# HELP pipeline_{name} {words}", f"# TYPE pipeline_{name} gauge"]
            lines.append(f"pipeline_{name}{self._labels} {metrics[name]}")
        if self._rules:
            words = "Events that break a rule of quality"
            lines += [f"# HELP pipeline_quarantined_total {words}", "# TYPE pipeline_quarantined_total counter"]
        for rule, count in sorted(self._rules.items()):
            lines.append(f'pipeline_quarantined_total{{job="{self._job}",rule="{escaped(rule)}"}} {count}')
        lines += ["# HELP pipeline_null_rate Share of events without the column", "# TYPE pipeline_null_rate gauge"]
        for column, rate in sorted(metrics["null_rates"].items()):
            lines.append(f'pipeline_null_rate{{job="{self._job}",column="{escaped(column)}"}} {rate}')
        return "\n".join(lines) + "\n"

    def write(self, path: str, metrics: Metrics) -> None:
        """Replace the file whole: no scrape sees half of one."""
        if path:
            unfinished = Path(f"{path}.unfinished")
            unfinished.write_text(self.text(metrics), encoding="utf-8")
            os.replace(unfinished, path)


class MetricsListener(StreamingQueryListener):
    """Metrics of one job's query: told to a topic, to a file for Prometheus and to a group. The last ones are kept
    in `batches`."""

    def __init__(self, settings: Settings, kafka: Kafka, job: str, output: str) -> None:
        self.query_name = f"{job}-{settings.path('')}"  # a session may run other queries
        self.batches: deque[Metrics] = deque(maxlen=KEPT_BATCHES)
        self.totals = Totals(job)
        self.counts: dict[int, Metrics] = {}  # by batch, from the end of the batch until Spark tells its progress
        self._job, self._output, self._settings, self._kafka = job, output, settings, kafka
        self._run_id = ""
        self._ended = threading.Event()
        self._warned: set[str] = set()
        if settings.metrics_topic:
            kafka.ensure_topic(settings.metrics_topic)
        self._producer = kafka.producer() if settings.metrics_topic else None

    def onQueryStarted(self, event: Any) -> None:
        if event.name == self.query_name:
            self._run_id = str(event.runId)

    def onQueryIdle(self, event: Any) -> None:
        return None

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress.json)
        if progress.get("name") != self.query_name:
            return
        counts = self.counts.pop(progress["batchId"], None)
        metrics = metrics_of(progress, self._job, self._output, counts)
        self.batches.append(metrics)
        self.totals.add(metrics)
        self._attempt("the group", lambda: self._commit(metrics))
        self._attempt(METRICS_TOPIC, lambda: self._publish(metrics))
        self._attempt("the Prometheus file", lambda: self.totals.write(self._settings.prometheus_file, metrics))

    def onQueryTerminated(self, event: Any) -> None:
        if str(event.runId) == self._run_id:
            self._ended.set()

    def wait_until_told(self, timeout_s: float) -> None:
        """Wait for Spark, which tells its listeners later, on another thread."""
        self._ended.wait(timeout_s)
        if self._producer is not None and (left := self._producer.flush(timeout_s)):
            self._warn(METRICS_TOPIC, f"no answer about {left} of them after {timeout_s:g} s")

    def _commit(self, metrics: Metrics) -> None:
        if self._settings.group:
            for topic, partitions in metrics["end_offsets"].items():
                self._kafka.commit(self._settings.group, topic, {int(p): offset for p, offset in partitions.items()})

    def _publish(self, metrics: Metrics) -> None:
        if self._producer is not None:
            topic, told = self._settings.metrics_topic, json.dumps(metrics)
            self._producer.produce(topic, told, key=self._job, on_delivery=self._on_delivery)
            self._producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._warn(METRICS_TOPIC, error.str())

    def _attempt(self, where: str, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception as error:  # whatever it is: metrics never end a stream
            self._warn(where, error)

    def _warn(self, where: str, why: object) -> None:
        if where not in self._warned:
            self._warned.add(where)
            print(f"metrics don't reach {where}: {why}", file=sys.stderr)
