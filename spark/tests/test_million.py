"""A million records through bronze -> silver, without --slow a fiftieth of them, with the time that it took."""

import time
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.spark_pipeline import EVERY, fill, settings_for, silver_s
from pipeline import silver

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_a_million_records(
    settings: Any, make_context: Any, spark: SparkSession, capsys: pytest.CaptureFixture[str], slow: bool
) -> None:
    records = 1_000_000 if slow else 20_000
    own = settings_for(settings.bootstrap_servers, settings.data_dir, settings.bronze_topic, records)
    context = make_context(own)
    begun = time.perf_counter()
    size = fill(spark, own, context.kafka, records)
    filled_s = time.perf_counter() - begun
    took_s = silver_s(spark, own, context.kafka, records)
    with capsys.disabled():
        print(
            f"\n{records:,} records of {size / records:.0f} bytes: written in {filled_s:.1f} s, bronze -> silver in "
            f"{took_s:.1f} s, {size / 1e6 / took_s:.1f} MB/s"
        )
    table = spark.read.parquet(silver.table_path(own))
    found = table.agg(F.count("*"), F.countDistinct("event_id"), F.sum("amount")).collect()[0]
    events = records - records // EVERY["broken"] - records // EVERY["duplicate"]
    assert (found[0], found[1]) == (events, events)
