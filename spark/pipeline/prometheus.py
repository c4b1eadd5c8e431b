"""Metrics as Prometheus text. Rule: the file is replaced whole, so a scrape never sees half of one."""

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
    """Counts since the start of the process, as Prometheus expects of counters."""

    def __init__(self, job: str) -> None:
        self._labels = f'{{job="{job}"}}'
        self._job = job
        self._counts: Counter[str] = Counter()
        self._rules: Counter[str] = Counter()

    def text(self, metrics: dict[str, Any]) -> str:
        for name in COUNTERS:
            self._counts[name] += metrics[name]
        lines = []
        for name, words in COUNTERS.items():
            lines += [f"# HELP pipeline_{name}_total {words}", f"# TYPE pipeline_{name}_total counter"]
            lines.append(f"pipeline_{name}_total{self._labels} {self._counts[name]}")
        for name, words in GAUGES.items():
            lines += [f"# HELP pipeline_{name} {words}", f"# TYPE pipeline_{name} gauge"]
            lines.append(f"pipeline_{name}{self._labels} {metrics[name]}")
        self._rules.update(metrics["rules"])
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
        text = self.text(metrics)
        if path:
            unfinished = Path(f"{path}.unfinished")
            unfinished.write_text(text, encoding="utf-8")
            os.replace(unfinished, path)
