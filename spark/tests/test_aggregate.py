"""Windows of event time, in the table and in the compacted topic, against plain Python."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import aggregate, checkpoints, compacted, reference, report, tables, topics
from pipeline.database import open_database
from pipeline.errors import CheckpointError, SchemaError
from pipeline.generate import Generator
from pipeline.settings import EVENT_SCHEMA
from tests.plug import plug_pulled

pytestmark = pytest.mark.spark


def test_windows_over_two_runs(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, spark: SparkSession,
    table_format: str,
) -> None:  # fmt: skip
    """The second run begins with a batch that an earlier one had only half written."""
    settings = make_settings(
        events=1200,
        late_share=0.05,
        broken_share=0.02,
        max_offsets_per_trigger=350,
        watermark="10 minutes",
        table_format=table_format,
    )
    make_topic(settings.bronze_topic, 2)
    lines = [line.encode() for line in Generator(settings).lines()]
    context = make_context(settings)
    batches: list[Any] = []
    for part in (lines[:700], lines[700:]):
        put(settings.bronze_topic, [{"value": line, "partition": n % 2} for n, line in enumerate(part)])
        if batches:
            with plug_pulled(topics, "append"):  # after the table, before the topic
                aggregate.run(context)
        batches += aggregate.run(context)["batches_metrics"]
    wanted = reference.expected(context.kafka.read_all(settings.bronze_topic), batches, settings)
    windows = reference.windows(wanted.accepted.values(), settings)
    assert wanted.late > 10
    counted = tables.read(spark, aggregate.ledger_path(settings)).select("id").collect()
    assert sorted(row.id for row in counted) == sorted(wanted.accepted)
    assert sum(batch["late"] for batch in batches) == wanted.late
    assert {row[:2]: row[2:] for row in report.read_windows(settings)} == windows
    assert compacted.run(context)["keys"] == len(windows)
    table = spark.read.parquet(settings.path(f"latest/{settings.windows_topic}")).collect()
    values = [json.loads(row.value) for row in table]
    assert {(v["window_start"], v["group_value"]): (v["events"], v["total"]) for v in values} == windows
    config = context.kafka._admin.list_topics().topics[settings.windows_topic]
    assert len(config.partitions) == settings.topic_partitions


def test_numbers_that_cannot_be_added_up(
    settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any
) -> None:
    """They count, with nothing: one event must not end the stream for all that come after it."""
    make_topic(settings.bronze_topic)
    values = [event(0, amount=1.5), event(1, amount=1e300), event(2, amount=0.000001)]
    values += [event(3, amount=float("nan")), event(4, amount=float("-inf"))]
    put(settings.bronze_topic, values)
    assert aggregate.run(make_context(settings))["accepted"] == 5
    assert report.read_windows(settings) == [("2024-05-01T00:00:00Z", "de", 5, 1.500001)]


def test_groups_that_no_index_holds(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any,
    new_postgresql_database: Callable[[], str],
) -> None:  # fmt: skip
    """PostgreSQL has no NUL, and no index entry of so many bytes: groups are told apart by what it has."""
    settings = make_settings(database=new_postgresql_database())
    long = "".join(map(chr, Random(1).choices(range(0x4E00, 0x9FA5), k=3_000)))
    make_topic(settings.bronze_topic)
    for run in range(2):
        groups = ["a\0b", long, long + "!"]
        put(settings.bronze_topic, [event(3 * run + n, country=group, amount=1) for n, group in enumerate(groups)])
        assert aggregate.run(make_context(settings))["accepted"] == 3
    start = "2024-05-01T00:00:00Z"
    assert sorted(report.read_windows(settings)) == [(start, "a\ufffdb", 2, 2.0), (start, long[:500], 4, 4.0)]


def test_sums_are_exact(settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any) -> None:
    wide = dataclasses.replace(settings, schema=EVENT_SCHEMA.replace("amount DOUBLE", "amount DECIMAL(28,6)"))
    make_topic(wide.bronze_topic)
    for number in range(2):
        text = event(number, amount="AMOUNT").decode().replace('"AMOUNT"', "9999999999999999999999.999999")
        put(wide.bronze_topic, [text.encode()])
        aggregate.run(make_context(wide))
    database = open_database(wide.database_url)
    assert database.execute("SELECT total FROM windows") == [("19999999999999999999999.999998",)]
    database.close()


def test_windows_have_one_writer(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, tmp_path: Path
) -> None:
    """Another checkpoint begins anew, and would put what is left of the topic in the place of the older results."""
    settings = make_settings(database=f"sqlite:///{tmp_path}/windows.db")
    put(make_topic(settings.bronze_topic), [event(0)])
    aggregate.run(make_context(settings))
    elsewhere = dataclasses.replace(settings, data_dir=str(tmp_path / "elsewhere"), windows_topic="other-windows")
    context = make_context(elsewhere)
    with pytest.raises(CheckpointError, match="table windows was written with another checkpoint"):
        aggregate.run(context)
    assert "other-windows" not in context.kafka._metadata().topics
    assert not (tmp_path / "elsewhere").exists()


def test_a_crash_before_the_checkpoint_is_taken(
    settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any
) -> None:
    """The database must have no owner then: the next run makes another checkpoint."""
    put(make_topic(settings.bronze_topic), [event(0)])
    with plug_pulled(checkpoints.Claim, "take"):
        aggregate.run(make_context(settings))
    assert aggregate.run(make_context(settings))["accepted"] == 1


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
