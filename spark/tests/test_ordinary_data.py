"""Ordinary data from outside, by the command line and with its defaults: nothing is lost, and nothing is told twice."""

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import aggregate, compact, replay, route, rules, sessions, silver, store, tables
from pipeline.cli import main
from pipeline.settings import EVENT_SCHEMA, Settings

pytestmark = pytest.mark.spark
BEGIN = datetime(2024, 5, 1, tzinfo=UTC)
Start = Callable[..., dict[str, Any]]


def line(number: int, time: Any) -> str:
    return json.dumps({"event_id": f"e{number}", "event_time": time, "user_id": f"u{number % 7}"})


@pytest.fixture
def start(settings: Settings, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Start:
    """Runs a job in the session that there is; gives its summary."""
    names = ("bootstrap_servers", "data_dir", "bronze_topic", "dead_letter_topic")
    own = {name: f"--{name.replace('_', '-')}={getattr(settings, name)}" for name in names}

    def run(job: str, *options: str) -> dict[str, Any]:
        given = list(own.values()) if job == "silver" else [own[name] for name in names[:3]]
        assert main([job, *given, *options]) == 0
        summary: dict[str, Any] = json.loads(capsys.readouterr().out)
        return summary

    return run


@pytest.mark.parametrize("time", ["2999-01-01T00:00:00Z", 1714521600000], ids=["2999", "milliseconds"])
def test_one_event_of_the_far_future(
    time: Any, start: Start, settings: Settings, make_topic: Any, put: Any, spark: SparkSession
) -> None:
    """A wrong clock, or milliseconds that are read as seconds: one event is refused, and 650 are there."""
    times = [(BEGIN + timedelta(seconds=n)).isoformat() for n in range(650)]
    make_topic(settings.bronze_topic)
    good = [line(n, at) for n, at in enumerate(times)]
    stamped = [{"value": value, "timestamp": 1714521600000} for value in [*good[:100], line(-1, time), *good[100:]]]
    put(settings.bronze_topic, stamped[:101])
    assert start("silver")["rejected"] == 1
    put(settings.bronze_topic, stamped[101:])
    done = start("silver", "--max-offsets-per-trigger", "300")
    assert (done["accepted"], done["rejected"], done["late"]) == (550, 0, 0)
    assert spark.read.parquet(done["table"]).select("event_id").distinct().count() == 650


def test_daily_files(start: Start, settings: Settings, spark: SparkSession, tmp_path: Path) -> None:
    """Six files, in order within each; they are written side by side, so the topic has their days mixed."""
    folder, of_a_day = tmp_path / "days", 300
    for day in range(6):
        times = [BEGIN + timedelta(days=day, seconds=288 * n) for n in range(of_a_day)]
        file = folder / f"dt={BEGIN.day + day}" / "part-00000.jsonl"
        file.parent.mkdir(parents=True)
        lines = [line(day * of_a_day + n, time.isoformat()) for n, time in enumerate(times)]
        file.write_text("".join(f"{text}\n" for text in lines))
    ingest = ["ingest", "--input", str(folder), "--input-format", "jsonl"]
    assert start(*ingest)["written"] == 6 * of_a_day
    assert start(*ingest)["written"] == 0
    done = start("silver", "--max-offsets-per-trigger", "450")
    assert (done["rows"], done["accepted"], done["rejected"]) == (6 * of_a_day, 6 * of_a_day, 0)
    table = spark.read.parquet(done["table"])
    assert {row.date.day: row["count"] for row in table.groupBy("date").count().collect()} == dict.fromkeys(
        range(1, 7), of_a_day
    )


def test_dates_of_long_ago(make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any) -> None:
    """Some systems write the first day of year 1 where they have no date; Spark 3.5 refuses to store one by default."""
    settings = make_settings(schema=EVENT_SCHEMA + ", day DATE, seen TIMESTAMP")
    make_topic(settings.bronze_topic)
    days = ["0001-01-01", "1582-10-04", "1899-12-31", "20224-02-29"]
    put(settings.bronze_topic, [event(n, day=day, seen=f"{day}T00:00:00Z") for n, day in enumerate(days)])
    context = make_context(settings)
    assert silver.run(context)["accepted"] == 4
    table = tables.read(context.spark, silver.table_path(settings))
    found = table.orderBy("event_id").selectExpr("CAST(day AS STRING)", "CAST(seen AS STRING)").collect()
    texts = [*days[:3], f"+{days[3]}"]
    assert [tuple(row) for row in found] == [(text, f"{text} 00:00:00") for text in texts]


@pytest.mark.parametrize("name", ["service.name", "a`b"])
def test_names_of_columns(
    name: str, make_settings: Any, make_context: Any, make_topic: Any, put: Any, spark: SparkSession
) -> None:
    """A dot is a path to Spark, and a backtick a quotation mark; traces have columns like `service.name`."""
    column = tables.quoted(name)
    settings = make_settings(
        schema=f"event_id STRING, {column} STRING, event_time TIMESTAMP, amount DOUBLE", to_topic="sorted",
        id_column=name, group_column=name, key_column=name, rules={"known": {"column": name, "in": ["x0", "x1"]}},
    )  # fmt: skip
    make_topic(settings.bronze_topic)
    found = [{name: f"x{n}", "event_time": "2024-05-01T00:00:00Z", "amount": 1} for n in (0, 1, 1, 2)]
    put(settings.bronze_topic, [json.dumps(event).encode() for event in found])
    context = make_context(settings)
    done = [job.run(context) for job in (silver, store, aggregate, sessions, route)]
    counts = [(each["accepted"], each["duplicates"], each["rejected"]) for each in done]
    assert counts == [(2, 1, 1), (3, 0, 1), (2, 1, 1), (4, 0, 0), (3, 0, 1)]
    for path in (silver.table_path(settings), rules.quarantine_path(settings)):
        assert set(tables.read(spark, path).select(column).distinct().collect()) <= {("x0",), ("x1",), ("x2",)}
    table = replay.run(make_context(dataclasses.replace(settings, to_topic="")))
    assert (table["written"], table["duplicates"]) == (3, 1)
    assert compact.run(context)
