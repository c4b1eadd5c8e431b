"""The whole pipeline in one run, on a broker of its own. Rule: it checks itself, against plain Python that reads the
same topic with another client; a difference ends it with an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline import aggregate, compacted, generate, ingest, reference, replay, report, silver, store
from pipeline.cli import with_spark
from pipeline.context import Context
from pipeline.database import open_database
from pipeline.errors import CheckFailed
from pipeline.kafka import Kafka
from pipeline.session import QUICK
from pipeline.settings import Settings

METRICS_TOPIC = "pipeline.metrics"
GROUP = "pipeline-demo"
DEFAULT = Settings()


@contextlib.contextmanager
def broker_for(settings: Settings) -> Iterator[str]:
    """Yield the broker that the settings name, or one that lives as long as the demo."""
    if settings.bootstrap_servers != DEFAULT.bootstrap_servers:
        yield settings.bootstrap_servers
        return
    from pykafka_broker.testing import KafkaBroker

    with KafkaBroker() as broker:
        yield broker.bootstrap_servers


def run(settings: Settings, stop: threading.Event) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="pipeline-demo-"))
    report_file = Path(settings.local_path("report.html", "output"))
    try:
        with broker_for(settings) as address:
            own = dataclasses.replace(
                settings,
                bootstrap_servers=address,
                data_dir=str(folder),
                input=str(folder / "events.jsonl"),
                output=str(folder / "events.jsonl"),
                metrics_topic=METRICS_TOPIC,
                prometheus_file=str(folder / "metrics.prom"),
                group=GROUP,
                max_offsets_per_trigger=max(1, settings.events * 2 // 5),  # three batches
                master=settings.master or "local[2]",
                shuffle_partitions=2,
                spark=QUICK | settings.spark,
            )
            kafka = Kafka(own)
            kafka.check_reachable()
            summary = with_spark(lambda context: Demo(context).run(), "demo", own, kafka, stop)
            report.write(dataclasses.replace(own, output=str(report_file)), kafka)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {**summary, "report": str(report_file)}


class Demo:
    def __init__(self, context: Context) -> None:
        self._context, self._settings = context, context.settings
        self._spark: SparkSession = context.spark
        self._started = time.monotonic()

    def _step(self, name: str, work: Callable[[Context], dict[str, Any]], **changes: Any) -> dict[str, Any]:
        began = time.monotonic()
        summary = work(dataclasses.replace(self._context, settings=dataclasses.replace(self._settings, **changes)))
        words = ", ".join(f"{key} {value}" for key, value in summary.items() if isinstance(value, int))
        print(f"{name:<22} {time.monotonic() - began:5.1f} s  {words}", file=sys.stderr)
        return summary

    def _check(self, what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            raise CheckFailed(f"{what}: found {str(found)[:300]}, and plain Python says {str(wanted)[:300]}")
        print(f"  as in plain Python: {what}", file=sys.stderr)

    def run(self) -> dict[str, Any]:
        lines = self._step("generate", lambda context: generate.write(context.settings))["lines"]
        self._check("records ingested", self._step("ingest", ingest.run)["written"], lines)
        self._check("records ingested by a second run", self._step("ingest again", ingest.run)["written"], 0)
        records = self._context.kafka.read_all(self._settings.bronze_topic)
        self._check("records in the topic", len(records), lines)
        self._silver(records)
        self._aggregate(records)
        self._store(records)
        self._replay(records)
        return {"events": lines, "seconds": round(time.monotonic() - self._started, 1)}

    def _silver(self, records: list[Any]) -> None:
        done = self._step("silver", silver.run)
        wanted = reference.expected(records, done["batches_metrics"], self._settings)
        table = self._spark.read.parquet(silver.table_path(self._settings))
        self._check("events in silver", {row[0] for row in table.select("event_id").collect()}, set(wanted.accepted))
        self._check("rows in silver", table.count(), len(wanted.accepted))
        self._check("late events", done["late"], wanted.late)
        self._check("duplicates", done["duplicates"], wanted.duplicates)
        letters = self._context.kafka.read_all(self._settings.dead_letter_topic)
        places = [tuple(int(dict(r.headers())[f"source-{name}"]) for name in ("partition", "offset")) for r in letters]
        self._check("dead letters", sorted(places), sorted(wanted.rejected))
        committed = self._context.kafka.committed(GROUP, self._settings.bronze_topic)
        ends = {p: end for p, (_, end) in self._context.kafka.ranges(self._settings.bronze_topic).items()}
        self._check("offsets committed to the group", committed, ends)

    def _aggregate(self, records: list[Any]) -> None:
        done = self._step("aggregate", aggregate.run)
        wanted = reference.expected(records, done["batches_metrics"], self._settings)
        windows = reference.windows(wanted.accepted.values(), self._settings)
        rows = report.read_windows(self._settings)
        self._check("windows in the table", {row[:2]: row[2:] for row in rows}, windows)
        self._check("late events", done["late"], wanted.late)
        self._check("keys of the topic", self._step("compacted", compacted.run)["keys"], len(windows))
        latest = self._spark.read.parquet(self._settings.path(f"latest/{self._settings.windows_topic}"))
        values = [json.loads(row.value) for row in latest.select("value").collect()]
        found = {(v["window_start"], v["group_value"]): (v["events"], v["total"]) for v in values}
        self._check("windows in the topic", found, windows)

    def _store(self, records: list[Any]) -> None:
        wanted = {(r.partition(), r.offset()) for r in records if reference.event_of(r, self._settings)}
        for strategy in ("checkpoint", "kafka", "store"):
            table = f"events_{strategy}"
            changes = {"offsets": strategy, "table": table, "group": f"demo-{strategy}"}
            self._step(f"store ({strategy})", store.run, **changes)
            database = open_database(self._settings.database_url)
            rows = database.execute(f'SELECT source_partition, source_offset FROM "{table}"')
            database.close()
            self._check(f"rows of {table}", sorted(rows), sorted(wanted))

    def _replay(self, records: list[Any]) -> None:
        done = self._step("replay", replay.run, from_offsets='{"0": 100}', to_offsets='{"0": 600}')
        places = {(r.partition(), r.offset()) for r in records if r.partition() or 100 <= r.offset() < 600}
        wanted = {
            event["event_id"]
            for record in records
            if (record.partition(), record.offset()) in places and (event := reference.event_of(record, self._settings))
        }
        self._check("events replayed", done["written"], len(wanted))
