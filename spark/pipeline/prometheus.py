"""What a run has counted, also as Prometheus text. Rule: the file is replaced whole, and no scrape sees half of one."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

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


def escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Totals:
    """Counts since the start of the run, as Prometheus expects of counters."""

    def __init__(self, job: str) -> None:
        self._labels = f'{{job="{job}"}}'
        self._job = job
        self._batches = 0
        self._counts: Counter[str] = Counter()
        self._rules: Counter[str] = Counter()

    def add(self, metrics: dict[str, Any]) -> None:
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

    def text(self, metrics: dict[str, Any]) -> str:
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

    def write(self, path: str, metrics: dict[str, Any]) -> None:
        if path:
            unfinished = Path(f"{path}.unfinished")
            unfinished.write_text(self.text(metrics), encoding="utf-8")
            os.replace(unfinished, path)
