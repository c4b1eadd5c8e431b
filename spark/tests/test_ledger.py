"""A table that has every event once: late events, events that come again, batches that are repeated."""

from datetime import datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import aggregate, events, journal, ledger, reference, report, silver
from pipeline.errors import JobFailed
from pipeline.files import Files
from pipeline.settings import Settings
from tests.plug import plug_pulled

pytestmark = pytest.mark.spark


def rows(spark: SparkSession, settings: Settings) -> list[tuple[str, str, int]]:
    """Id, date and batch."""
    table = spark.read.parquet(silver.table_path(settings))
    return sorted((row.event_id, row.date.isoformat(), row.batch) for row in table.collect())


def day(number: int) -> dict[str, str]:
    return {"event_time": f"2024-05-{number:02}T12:00:00Z"}


@pytest.mark.parametrize(("kept", "jobs"), [(0, [silver]), (ledger.KEPT_FRAMES, [silver, aggregate])])
def test_days_in_any_order(
    kept: int, jobs: list[Any], make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any,
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Four days in batches of ten, the newest first, each event twice: nothing is too late, and nothing is there twice,
    whether ids are in memory or have to be read from the table."""
    monkeypatch.setattr(ledger, "KEPT_FRAMES", kept)
    settings = make_settings(max_offsets_per_trigger=10, watermark="6 hours")
    make_topic(settings.bronze_topic)
    days = [event(number, **day(number // 5 + 1)) for number in range(19, -1, -1)]
    put(settings.bronze_topic, [*days, *days])
    context = make_context(settings)
    for job in jobs:
        done = job.run(context)
        counts = [done[name] for name in ("rows", "accepted", "rejected", "duplicates", "late")]
        assert counts == [40, 20, 0, 20, 10]
        assert {batch["watermark"] for batch in done["batches_metrics"]} == {None, "2024-05-04T06:00:00+00:00"}
    wanted = reference.expected(context.kafka.read_all(settings.bronze_topic), done["batches_metrics"], settings)
    assert (wanted.late, len(wanted.accepted)) == (10, 20)
    assert [row[:2] for row in rows(spark, settings)] == sorted(
        (f"e{number}", day(number // 5 + 1)["event_time"][:10]) for number in range(20)
    )
    assert [row[2] for row in sorted(report.read_windows(settings))] == ([5] * 4 if aggregate in jobs else [])
    put(settings.bronze_topic, [event(0, **day(1)), event(30, **day(1))])  # to another run, which has to look
    done = silver.run(context)
    assert (done["duplicates"], done["accepted"], done["late"]) == (1, 1, 1)


def test_records_of_two_topics_at_one_place(spark: SparkSession) -> None:
    """With `subscribePattern` a repeated batch could keep the other one of two, and the windows had the first."""
    schema = "id STRING, _timestamp TIMESTAMP, _partition INT, _offset BIGINT, _topic STRING"
    found = [("a", datetime(2024, 5, 1), 0, 0, topic) for topic in ("t1", "t2")]
    for rows in (found, found[::-1]):
        frame = spark.createDataFrame(rows, schema).coalesce(1)
        assert [row._topic for row in events.first_of_each_id(frame, "id").collect()] == ["t1"]


def test_a_repeated_batch_that_decides_otherwise(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Every id twice, on two days. A first attempt has taken the later ones and was killed: its folders are of days
    that the second attempt writes nothing to."""
    make_topic(settings.bronze_topic, 2)
    twice = [{"value": event(n, **day(number)), "partition": n % 2} for number in (1, 2) for n in range(20)]
    put(settings.bronze_topic, twice)

    def last_of_each_id(found: DataFrame, _: str) -> DataFrame:
        return found.where(F.dayofmonth("event_time") == 2)

    with monkeypatch.context() as patch, plug_pulled(ledger.Ledger, "_read"):  # right after the folders have names
        patch.setattr(events, "first_of_each_id", last_of_each_id)
        silver.run(make_context(settings))
    assert len(rows(spark, settings)) == 20
    done = silver.run(make_context(settings))
    assert rows(spark, settings) == sorted((f"e{n}", "2024-05-01", 0) for n in range(20))
    assert (done["accepted"], done["duplicates"]) == (20, 20)


@pytest.mark.parametrize("is_swapped", [True, False])
def test_a_batch_that_fails_while_files_are_swapped_is_written_once_more(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch, is_swapped: bool,
) -> None:  # fmt: skip
    """The error's text does not count: Spark may tell a lost file as a job that was ended."""
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(number) for number in range(10)])
    write = ledger.Ledger._write
    failed: list[bool] = []

    def fail_once(self: ledger.Ledger, found: DataFrame) -> None:
        if not failed:
            failed.append(True)
            if is_swapped:
                journal.swap(Files(spark), silver.table_path(settings), "day", {}, [])
            raise PySparkException("a job was ended")
        write(self, found)

    monkeypatch.setattr(ledger.Ledger, "_write", fail_once)
    if is_swapped:
        assert silver.run(make_context(settings))["accepted"] == 10
    else:
        with pytest.raises(JobFailed):
            silver.run(make_context(settings))


def test_which_of_two_records_counts(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession
) -> None:
    """The one that was written first, then by partition and offset, in whatever order Spark comes by them."""
    make_topic(settings.bronze_topic, 3)
    records = [
        {"value": event(n, product=f"{partition}", at=n), "partition": partition, "timestamp": 1_714_521_600_000 + late}
        for n in range(50)
        for partition, late in ((2, 0), (1, 0), (0, 5))
    ]
    put(settings.bronze_topic, records)
    silver.run(make_context(settings))
    table = spark.read.parquet(silver.table_path(settings)).collect()
    assert [row.product for row in table] == ["1"] * 50
