"""Windows of event time, in the table and in the compacted topic, against plain Python."""

import dataclasses
import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import aggregate, compacted, reference, report
from pipeline.errors import SchemaError
from pipeline.generate import Generator

pytestmark = pytest.mark.spark


def test_windows_over_two_runs(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, spark: SparkSession
) -> None:
    settings = make_settings(events=1600, late_share=0.05, broken_share=0.02, max_offsets_per_trigger=400)
    make_topic(settings.bronze_topic, 2)
    lines = [line.encode() for line in Generator(settings).lines()]
    context = make_context(settings)
    batches: list[Any] = []
    for part in (lines[:900], lines[900:]):
        put(settings.bronze_topic, [{"value": line, "partition": n % 2} for n, line in enumerate(part)])
        batches += aggregate.run(context)["batches_metrics"]
    wanted = reference.expected(context.kafka.read_all(settings.bronze_topic), batches, settings)
    windows = reference.windows(wanted.accepted.values(), settings)
    assert wanted.late > 10
    assert sum(batch["late"] for batch in batches) == wanted.late
    assert {row[:2]: row[2:] for row in report.read_windows(settings)} == windows
    assert compacted.run(context)["keys"] == len(windows)
    table = spark.read.parquet(settings.path(f"latest/{settings.windows_topic}")).collect()
    values = [json.loads(row.value) for row in table]
    assert {(v["window_start"], v["group_value"]): (v["events"], v["total"]) for v in values} == windows
    config = context.kafka._admin.list_topics().topics[settings.windows_topic]
    assert len(config.partitions) == settings.topic_partitions


def test_columns_are_settings(settings: Any, make_context: Any, make_topic: Any, put: Any) -> None:
    make_topic(settings.bronze_topic)
    schema = "date STRING, at TIMESTAMP, weather STRING, temp_max DOUBLE"
    own = dataclasses.replace(
        settings, schema=schema, id_column="date", time_column="at", group_column="weather", value_column="temp_max",
        window="1 day",
    )  # fmt: skip
    days = [("01", "rain", 10.5), ("02", "sun", 20.25), ("03", "rain", None), ("01", "rain", 10.5)]
    rows = [{"date": day, "at": f"2012-01-{day}T12:00:00Z", "weather": w, "temp_max": t} for day, w, t in days]
    put(own.bronze_topic, [json.dumps(row).encode() for row in rows])
    done = aggregate.run(make_context(own))
    assert (done["duplicates"], done["batches_metrics"][0]["null_rates"]["temp_max"]) == (1, 0.25)
    assert sorted(report.read_windows(own)) == [
        ("2012-01-01T00:00:00Z", "rain", 1, 10.5),
        ("2012-01-02T00:00:00Z", "sun", 1, 20.25),
        ("2012-01-03T00:00:00Z", "rain", 1, 0.0),
    ]


def test_a_value_that_is_no_number(settings: Any, make_context: Any) -> None:
    wrong = dataclasses.replace(settings, value_column="kind")
    with pytest.raises(SchemaError, match="value_column kind is string, and has to be a number"):
        aggregate.run(make_context(wrong))
