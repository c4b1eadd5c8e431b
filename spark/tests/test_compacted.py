"""The latest value of every key, whatever the broker has compacted so far."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from pipeline import compacted, tables
from pipeline.errors import CheckpointError
from pipeline.settings import PARQUET
from tests.readers import rows_without_spark

pytestmark = pytest.mark.spark


def latest(spark: SparkSession, settings: Any) -> dict[str, str]:
    """Return the table as Spark has it; one of Delta or Iceberg is the same to another program."""
    path = compacted.table_path(settings)
    found = {row.key: row.value for row in tables.read(spark, path).collect()}
    if settings.table_format != PARQUET:
        assert {row.key: row.value for row in rows_without_spark(path, settings.table_format)} == found
    return found


@pytest.fixture
def settings(make_settings: Any, table_format: str) -> Any:
    return make_settings(table_format=table_format)


def test_updates_and_tombstones(
    settings: Any, make_context: Any, make_topic: Any, put: Any, admin: AdminClient, spark: SparkSession,
    eventually: Any,
) -> None:  # fmt: skip
    topic = make_topic(f"{settings.bronze_topic}-table", 1, cleanup_policy="compact")
    own = dataclasses.replace(settings, topic=topic)
    # The last record of `a` has an older time than the one before: within a partition the offset decides.
    records = [
        ("a", "1", 1000),
        ("b", "1", 2000),
        ("a", "2", 9000),
        ("a", "3", 3000),
        ("c", "1", 4000),
        ("c", None, 5000),
    ]
    put(topic, [{"key": key, "value": value, "timestamp": time} for key, value, time in records])
    context = make_context(own)
    assert compacted.run(context)["keys"] == 2
    assert latest(spark, own) == {"a": "3", "b": "1"}
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    eventually(lambda: len(context.kafka.partitions(topic)) == 2)
    put(
        topic,
        [
            {"key": "b", "value": "2", "timestamp": 6000, "partition": 1},
            {"key": "a", "value": None, "timestamp": 7000, "partition": 1},
        ],
    )
    assert compacted.run(context)["keys"] == 1
    assert latest(spark, own) == {"b": "2"}


def test_an_empty_topic(settings: Any, make_context: Any, make_topic: Any, spark: SparkSession) -> None:
    """The topic's name has a dot, as that of the windows."""
    own = dataclasses.replace(settings, topic=make_topic(f"{settings.bronze_topic}.table", 3, cleanup_policy="compact"))
    assert compacted.run(make_context(own))["keys"] == 0


def test_topics_with_the_names_of_other_tables_folders(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, spark: SparkSession
) -> None:
    """The table of `orders.old` was removed where that of `orders` was replaced."""
    made = [make_settings(topic=make_topic(f"latest-orders{ending}")) for ending in (".old", ".unfinished", "")]
    for own in made:
        put(own.topic, [{"key": "a", "value": own.topic}])
        compacted.run(make_context(own))
    assert [latest(spark, own) for own in made] == [{"a": own.topic} for own in made]


def test_bytes_that_are_no_text(
    settings: Any, make_context: Any, make_topic: Any, put: Any, spark: SparkSession
) -> None:
    """Two keys were one in the table for every reader that replaces broken UTF-8."""
    own = dataclasses.replace(settings, topic=make_topic(f"{settings.bronze_topic}-bytes"))
    put(own.topic, [{"key": key, "value": value} for key, value in ((b"\xff", "1"), (b"\xfe", b"\xfe"), ("ä", "ö"))])
    assert compacted.run(make_context(own))["keys"] == 3
    assert latest(spark, own) == {"\\xff": "1", "\\xfe": "\\xfe", "ä": "ö"}


def test_a_table_keeps_its_format(make_settings: Any, make_context: Any, make_topic: Any) -> None:
    own = make_settings(topic=make_topic("latest.formats"))
    Path(compacted.table_path(own), "_delta_log").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="is delta, and table_format is parquet"):
        compacted.run(make_context(own))
