"""Every job that writes tables, in every format, killed at random moments and compared with plain Python.

By default one kill of two jobs at once; with --slow 24 over all jobs and formats. (Others: store in
`test_crash.py`, compact in `test_compact.py`, silver from a bronze table in `test_bronze.py`.)
"""

import dataclasses
import json
import os
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import aggregate, bronze, compact, compacted, reference, replay, report, rules, sessions, silver, tables
from pipeline.context import Context
from pipeline.generate import Generator
from pipeline.settings import PARQUET, Settings
from tests.killed import flow, kill_at_random, start, start_flows
from tests.readers import rows_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
RULES = {"large": {"column": "amount", "max": 50}}
BOUNDS = {"from_offsets": '{"0": 100}', "to_offsets": '{"0": 1500}'}
CHANGES: dict[str, dict[str, Any]] = {  # settings of the jobs
    "bronze": {},
    "silver": {"rules": RULES},
    "aggregate": {},
    "sessions": {"late_share": 0.0, "watermark": "5 minutes", "gap": "20 seconds"},
    "replay": BOUNDS,
    "compacted": {},
}
OPTIONS: dict[str, dict[str, Any]] = {  # on the command line
    "silver": {"rules": RULES},
    "sessions": {"watermark": "5 minutes", "gap": "20 seconds"},
    "replay": BOUNDS,
}
BOUNDED = ("replay", "compacted")  # jobs that end by themselves
BY_DEFAULT = ("aggregate", "sessions")
TOGETHER = [BY_DEFAULT, ("bronze", "silver"), *((job,) for job in BOUNDED)]  # flows of one driver
KILLS = 24 // (len(CHANGES) * len(tables.formats()))
Put = Callable[[str, list[Any]], None]
Check = Callable[[Context, list[Any], Put], None]


def rows_of(context: Context, path: str) -> list[Any]:
    """Return the rows of a table; those of Delta and Iceberg as another program reads them, once its small files are
    put together."""
    if context.settings.table_format == PARQUET:
        return tables.read(context.spark, path).collect()
    compact.run(context)
    return rows_without_spark(path, context.settings.table_format)


def accepted(records: list[Any], settings: Settings) -> dict[str, dict[str, Any]]:
    ends = {str(n): len(records) for n in range(2)}
    return reference.expected(records, [{"end_offsets": {"": ends}}], settings).accepted


def same_bronze(context: Context, records: list[Any], _: Put) -> None:
    bronze.run(context)
    found = [(row.partition, row.offset, row.value) for row in rows_of(context, bronze.table_path(context.settings))]
    assert sorted(found) == sorted((each.partition(), each.offset(), each.value()) for each in records)


def same_silver(context: Context, records: list[Any], _: Put) -> None:
    """Rows, quarantine and dead letters; an event that comes twice is in the quarantine twice."""
    settings = context.settings
    silver.run(context)
    wanted = accepted(records, settings)
    is_large = {key for key, event in wanted.items() if (event["amount"] or 0) > 50}
    assert sorted(row.event_id for row in rows_of(context, silver.table_path(settings))) == sorted(
        wanted.keys() - is_large
    )
    events = [event for event in (reference.event_of(each, settings) for each in records) if event is not None]
    kept = Counter(row.event_id for row in rows_of(context, rules.quarantine_path(settings)))
    assert kept == Counter(event["event_id"] for event in events if event["event_id"] in is_large)
    letters = [dict(each.headers()) for each in context.kafka.read_all(settings.dead_letter_topic)]
    assert len(letters) == len({(each["source-partition"], each["source-offset"]) for each in letters})
    assert len(letters) == len(records) - len(events)


def same_aggregate(context: Context, records: list[Any], _: Put) -> None:
    """The table of windows, the compacted topic, and the events that count."""
    settings = context.settings
    aggregate.run(context)
    wanted = accepted(records, settings)
    windows = reference.windows(wanted.values(), settings)
    assert {row[:2]: row[2:] for row in report.read_windows(settings)} == windows
    latest = {each.key(): json.loads(each.value()) for each in context.kafka.read_all(settings.windows_topic)}
    values = {(each["window_start"], each["group_value"]): (each["events"], each["total"]) for each in latest.values()}
    assert values == windows
    counted = [row.id for row in rows_of(context, aggregate.ledger_path(settings))]
    assert sorted(counted) == sorted(wanted)


def same_sessions(context: Context, records: list[Any], put: Put) -> None:
    """An event of the next month, after all others are read, ends the sessions of all users but its own."""
    settings = context.settings
    sessions.run(context)
    last = {"event_id": "last", "event_time": "2024-06-01T00:00:00Z", "user_id": "last"}
    put(settings.bronze_topic, [json.dumps(last).encode()])
    assert sessions.run(context)["late"] == 0
    rows = rows_of(context, sessions.table_path(settings))
    found = [
        (row.user_id, row.session_start.astimezone(UTC), row.last_event.astimezone(UTC), row.events) for row in rows
    ]
    assert sorted(found) == reference.sessions(accepted(records, settings).values(), settings)


def same_replay(context: Context, records: list[Any], _: Put) -> None:
    done = replay.run(context)
    part = [each for each in records if each.partition() == 1 or 100 <= each.offset() < 1500]
    wanted = accepted(part, context.settings)
    found = [row.event_id for row in rows_of(context, done["to_path"])]
    assert sorted(found) == sorted(wanted)
    assert done["written"] == len(wanted)


def same_compacted(context: Context, records: list[Any], _: Put) -> None:
    """A key is in one partition here, so its latest record is the one with the highest offset."""
    latest = {each.key().decode(): each for each in sorted(records, key=lambda each: each.offset())}
    assert compacted.run(context)["keys"] == len(latest)
    found = [(row.key, row.offset, row.value) for row in rows_of(context, compacted.table_path(context.settings))]
    assert sorted(found) == sorted((key, each.offset(), each.value().decode()) for key, each in latest.items())


CHECKS: dict[str, Check] = {
    "bronze": same_bronze,
    "silver": same_silver,
    "aggregate": same_aggregate,
    "sessions": same_sessions,
    "replay": same_replay,
    "compacted": same_compacted,
}


def files_below(folder: str) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names]


@pytest.mark.parametrize("jobs", TOGETHER, ids="-".join)
def test_killed_at_random(
    jobs: tuple[str, ...], table_format: str, make_settings: Any, make_context: Any, make_topic: Any, put: Any,
    eventually: Any, slow: bool, spark: SparkSession,
) -> None:  # fmt: skip
    if not slow and jobs != BY_DEFAULT:
        pytest.skip("--slow kills them, too")
    each: dict[str, Settings] = {}
    options: dict[str, dict[str, Any]] = {}
    for job in jobs:
        changes = {"late_share": 0.05, "broken_share": 0.03, **CHANGES[job]}
        settings = make_settings(events=4000, max_offsets_per_trigger=30, table_format=table_format, **changes)
        topic = make_topic(f"{settings.bronze_topic}.{job}", 2)
        lines = list(Generator(settings).lines())
        put(topic, [{"value": line.encode(), "partition": n % 2, "key": str(n % 500)} for n, line in enumerate(lines)])
        each[job] = dataclasses.replace(settings, bronze_topic=topic, topic=topic)
        options[job] = {"table_format": table_format, **OPTIONS.get(job, {})}
        if job == "aggregate":
            options[job]["windows_topic"] = settings.windows_topic
        if job == "compacted":
            options[job]["topic"] = topic
    draw, is_bounded = random.Random(f"{jobs} {table_format}"), jobs[0] in BOUNDED
    for _ in range(KILLS if slow else 1):
        if is_bounded:
            process = start(jobs[0], settings, **options[jobs[0]])
        else:
            process = start_flows(settings, {job: flow(job, each[job], **options[job]) for job in jobs})
        folders = [settings.data_dir] if is_bounded else [settings.path(f"checkpoints/{job}") for job in jobs]
        kill_at_random(
            process,
            settings,
            draw,
            [partial(files_below, folder) for folder in folders],
            eventually,
            longest_s=1.0 if is_bounded else 3.0,
            may_end=is_bounded,
        )
    for job in jobs:
        context = make_context(dataclasses.replace(each[job], max_offsets_per_trigger=0))
        CHECKS[job](context, context.kafka.read_all(each[job].bronze_topic), put)
