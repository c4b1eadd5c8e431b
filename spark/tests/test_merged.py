"""Silver as a table of Delta or Iceberg: what `test_silver.py` asks of Parquet. PySpark 4.3 has neither, 4.2 has Delta,
4.0 has Iceberg."""

import dataclasses
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipeline import compact, reference, silver, tables
from pipeline.errors import SchemaError
from pipeline.generate import Generator
from pipeline.merged import MergedLedger
from pipeline.settings import EVENT_SCHEMA, Settings
from tests.plug import plug_pulled
from tests.readers import rows_without_spark

LOGGED = tables.formats()[1:]
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not LOGGED, reason="no released Delta or Iceberg works with this PySpark"),
]


@pytest.fixture(params=LOGGED)
def settings(make_settings: Any, request: pytest.FixtureRequest) -> Settings:
    made: Settings = make_settings(table_format=request.param)
    return made


def ids(spark: SparkSession, settings: Settings) -> list[str]:
    return sorted(row.event_id for row in tables.read(spark, silver.table_path(settings)).collect())


def test_every_record_has_its_place(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, spark: SparkSession
) -> None:
    settings = dataclasses.replace(
        settings, events=1500, late_share=0.05, broken_share=0.03, max_offsets_per_trigger=500, watermark="10 minutes"
    )
    make_topic(settings.bronze_topic, 2)
    lines = list(Generator(settings).lines())
    put(settings.bronze_topic, [{"value": line.encode(), "partition": n % 2} for n, line in enumerate(lines)])
    context = make_context(settings)
    done = silver.run(context)
    wanted = reference.expected(context.kafka.read_all(settings.bronze_topic), done["batches_metrics"], settings)
    assert ids(spark, settings) == sorted(wanted.accepted)
    counts = (done["rows"], done["accepted"], done["rejected"], done["late"], done["duplicates"])
    assert counts == (len(lines), len(wanted.accepted), len(wanted.rejected), wanted.late, wanted.duplicates)
    assert compact.run(context)["tables"]["silver"]["removed"] > 0
    rows = rows_without_spark(silver.table_path(settings), settings.table_format)
    found = sorted((row.event_id, row.event_time, row.amount) for row in rows)
    assert found == sorted((key, event["time"], event["amount"]) for key, event in wanted.accepted.items())


def test_a_batch_that_is_repeated(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession,
) -> None:  # fmt: skip
    """The job ends right after its merge; the batch comes again, merges nothing, and is counted as it was."""
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(n % 20) for n in range(30)])
    with plug_pulled(MergedLedger, "add", after=MergedLedger.add):
        silver.run(make_context(settings))
    assert ids(spark, settings) == sorted(f"e{n}" for n in range(20))
    done = silver.run(make_context(settings))
    assert (done["accepted"], done["duplicates"]) == (20, 10)
    put(settings.bronze_topic, [event(5), event(20)])
    done = silver.run(make_context(settings))
    assert (done["accepted"], done["duplicates"]) == (1, 1)
    assert ids(spark, settings) == sorted(f"e{n}" for n in range(21))


def test_the_same_id_further_away_is_another_event(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession
) -> None:
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1, event_time="2024-05-10T12:00:00Z")])
    silver.run(make_context(settings))
    others = ["2024-05-09T00:00:00Z", "2024-05-11T23:00:00Z", "2024-05-08T23:00:00Z"]
    for time in others:
        put(settings.bronze_topic, [event(1, event_time=time)])
        silver.run(make_context(settings))
    rows = tables.read(spark, silver.table_path(settings)).collect()
    assert sorted(row.date.day for row in rows) == [8, 10]


def test_the_schema_gets_a_column(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession
) -> None:
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1, score=7)])
    silver.run(make_context(settings))
    put(settings.bronze_topic, [event(2, score=8), event(1)])
    wider = dataclasses.replace(settings, schema=EVENT_SCHEMA + ", score INT")
    silver.run(make_context(wider))
    rows = tables.read(spark, silver.table_path(wider)).collect()
    assert {row.event_id: row.score for row in rows} == {"e1": None, "e2": 8}
    other = dataclasses.replace(settings, schema=EVENT_SCHEMA + ", score STRING")
    with pytest.raises(SchemaError, match="column score is string in the schema, and int in the table"):
        silver.run(make_context(other))


def test_files_are_put_together_under_a_running_stream(
    settings: Settings, make_context: Any, make_topic: Any, start_job: Any, put: Any, event: Any, spark: SparkSession
) -> None:
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(0)])
    running = start_job(silver.run, make_context(dataclasses.replace(settings, trigger="asap")))
    running.until(lambda: ids_or_nothing(spark, settings))
    removed = 0
    for first in range(0, 40, 10):
        put(settings.bronze_topic, [event(n) for n in range(max(0, first - 5), first + 10)])
        while len(ids(spark, settings)) < first + 10:
            removed += compact.run(make_context(settings))["tables"]["silver"]["removed"]
    running.stop()
    removed += compact.run(make_context(settings))["tables"]["silver"]["removed"]
    assert removed > 4
    assert ids(spark, settings) == sorted(f"e{n}" for n in range(40))
    assert tables.read(spark, silver.table_path(settings)).select(F.input_file_name()).distinct().count() == 1


def ids_or_nothing(spark: SparkSession, settings: Settings) -> list[str]:
    """Return the ids; nothing while there is no table."""
    try:
        return ids(spark, settings)
    except AnalysisException:
        return []
