"""A compacted topic as a table: the latest value of every key. Rule: what the broker has not compacted away yet makes
no difference, and a key whose latest record is a tombstone is not in the table.

Within a partition the later offset is the later record. A key that is in two partitions (the topic was given more) has
its later record by the records' timestamps. Bytes that are no text become `\\x` and hexadecimal digits, so keys stay
different.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline import events, tables, topics
from pipeline.context import Context
from pipeline.files import Files
from pipeline.parts import parts_of
from pipeline.settings import Settings


def source_topic(settings: Settings) -> str:
    return settings.topic or settings.windows_topic


def reads(settings: Settings) -> list[str]:
    return [source_topic(settings)]


def table_path(settings: Settings) -> str:
    return settings.path(f"latest/{source_topic(settings)}")


def latest(records: DataFrame) -> DataFrame:
    record = F.struct("value", "timestamp", "partition", "offset")
    in_partition = records.where("key IS NOT NULL").groupBy("key", "partition")
    newest = in_partition.agg(F.max_by(record, "offset").alias("record"))
    order = F.struct("record.timestamp", "record.partition")
    overall = newest.groupBy("key").agg(F.max_by("record", order).alias("record"))
    return overall.where("record.value IS NOT NULL").select(
        events.as_text("key").alias("key"),
        events.as_text("record.value").alias("value"),
        *(F.col(f"record.{name}").alias(name) for name in ("timestamp", "partition", "offset")),
    )


def run(context: Context) -> dict[str, Any]:
    settings, topic = context.settings, source_topic(context.settings)
    path = table_path(settings)
    tables.require_format(Files(context.spark), settings, path)
    context.kafka.remember(topic)
    records = topics.read_range(context.spark, settings, topic, context.kafka.ranges(topic))
    parts_of(context, path).replace_all(latest(records).coalesce(settings.shuffle_partitions))
    return {"topic": topic, "table": path, "keys": tables.read(context.spark, path).count()}
