"""Counts and sums per window of event time. Rule: a window's result is a function of the events that were in time; it
is upserted, to a table and to a compacted topic, so writing it again changes nothing.

Duplicates and late events are taken out first, one by one, so the count of late events is exact (the aggregation alone
would count what its partial sums have left of them).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline import checkpoints, events, topics
from pipeline.context import Context
from pipeline.database import SQLITE, Database, open_database
from pipeline.kafka import COMPACTED
from pipeline.offsets import claim_table, ensure_tables
from pipeline.runner import run_stream, totals
from pipeline.settings import Settings

JOB = "aggregate"
TABLE = "windows"
KEY = ["window_start", "group_value"]
COLUMNS = [*KEY, "window_end", "events", "total"]
TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss'Z'"


def reads(settings: Settings) -> list[str]:
    return [settings.bronze_topic]


def writes(settings: Settings) -> list[str]:
    return [settings.windows_topic]


def windows(accepted: DataFrame, settings: Settings) -> DataFrame:
    """Sums are decimals: adding them up in any order gives the same. A number beyond them (NaN, 1e300) counts as 0: it
    must not end the stream."""
    span = F.window(settings.time_column, settings.window).alias("window")
    group = F.coalesce(F.col(settings.group_column), F.lit("")).alias("group_value")
    number = F.expr(f"TRY_CAST(`{settings.value_column}` AS DECIMAL(28,6))")
    value = F.coalesce(number, F.lit(0).cast("decimal(28,6)"))
    return (
        accepted.groupBy(span, group)
        .agg(F.count(F.lit(1)).alias("events"), F.sum(value).alias("total"))
        .select(
            F.date_format("window.start", TIME_FORMAT).alias("window_start"),
            "group_value",
            F.date_format("window.end", TIME_FORMAT).alias("window_end"),
            "events",
            F.col("total").cast("double").alias("total"),
        )
    )


def as_records(results: DataFrame) -> DataFrame:
    return results.select(F.to_json(F.struct(*KEY)).alias("key"), F.to_json(F.struct(*COLUMNS)).alias("value"))


class Upsert:
    def __init__(self, context: Context, database: Database) -> None:
        self._settings, self._kafka, self._database = context.settings, context.kafka, database

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        try:
            rows = [tuple(row) for row in batch.select(*COLUMNS).collect()]
            self._kafka.require_same_topics()
            if rows:
                with self._database.transaction():
                    self._database.upsert(TABLE, COLUMNS, KEY, rows)
                topics.append(as_records(batch), self._settings, self._settings.windows_topic)
        finally:
            batch.unpersist()


def ensure_table(database: Database) -> None:
    integer, real = ("INTEGER", "REAL") if database.dialect == SQLITE else ("BIGINT", "DOUBLE PRECISION")
    kinds = {"window_start": "TEXT", "group_value": "TEXT", "window_end": "TEXT", "events": integer, "total": real}
    database.ensure_table(TABLE, kinds, KEY)


def run(context: Context) -> dict[str, Any]:
    settings = context.settings
    schema = events.event_schema(context.spark, settings)
    events.require_group_and_value(schema, settings)
    checkpoint = settings.path(f"checkpoints/{JOB}")
    claim = checkpoints.claim(context, JOB, settings.bronze_topic, checkpoint)
    database = open_database(settings.database_url)
    try:
        ensure_tables(database)
        claim_table(database, TABLE, claim.id)
        ensure_table(database)
        context.kafka.ensure_topic(settings.windows_topic, COMPACTED)
        claim.take()
        records = topics.read_stream(context.spark, settings, settings.bronze_topic)
        parsed = events.observe_read(events.parse(records, schema, settings), schema)
        only_events = parsed.where(F.col(events.REASON).isNull())
        accepted = events.observe_accepted(events.deduplicated(only_events, settings))
        results = windows(accepted, settings)
        upsert, output = Upsert(context, database), settings.windows_topic
        batches = run_stream(context, JOB, results, upsert, checkpoint, output=output, mode="update")
    finally:
        database.close()
    return {**totals(batches), "table": TABLE, "topic": settings.windows_topic, "batches_metrics": batches}
