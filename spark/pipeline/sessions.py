"""Sessions: what a user did without a long pause. Rule: a session is written once, when it is over for certain, and a
batch that is repeated writes the same sessions in the place of its own earlier ones.

A session ends `--gap` after its last event, and is over when the watermark has passed its end. The open sessions, and
the ids of events, are Spark's state, in the checkpoint. An event further behind than `--watermark` comes too late for
its session: it is counted as `late`, and silver has it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipeline import checkpoints, events, topics
from pipeline.context import Context
from pipeline.errors import SchemaError
from pipeline.files import AnyFiles, Files
from pipeline.kafka import Kafka
from pipeline.parts import parts_of
from pipeline.runner import run_stream
from pipeline.settings import Settings
from pipeline.tables import BATCH, quoted

JOB = "sessions"
COLUMNS = ("session_start", "session_end", "last_event", "events")


def table_path(settings: Settings) -> str:
    return settings.path(JOB)


def sessions(accepted: DataFrame, settings: Settings) -> DataFrame:
    """Return a row for each session of each key: start, end, number of events, time of the last."""
    time, key = quoted(settings.time_column), quoted(settings.key_column)
    once = accepted.withWatermark(time, settings.watermark)
    once = once.dropDuplicatesWithinWatermark([settings.id_column])
    span = F.session_window(time, settings.gap).alias("session")
    found = once.groupBy(span, key).agg(F.count(F.lit(1)).alias("events"), F.max(time).alias("last_event"))
    times = [F.col("session.start").alias("session_start"), F.col("session.end").alias("session_end")]
    return found.select(key, *times, "last_event", "events")


class Writer:
    """The step that writes the sessions of a batch as a part of the table."""

    def __init__(self, context: Context) -> None:
        self._table = parts_of(context, table_path(context.settings))

    def __call__(self, batch: DataFrame, batch_id: int) -> dict[str, Any]:
        batch = batch.persist()
        try:
            count = batch.count()
            if count:
                self._table.replace(batch.coalesce(1), (BATCH, batch_id))
            else:
                self._table.remove((BATCH, batch_id))
        finally:
            batch.unpersist()
        return {"sessions": count}


def claimed(files: AnyFiles, settings: Settings, kafka: Kafka) -> checkpoints.Claim:
    return checkpoints.claim(files, settings, kafka, JOB, output=table_path(settings))


def run(context: Context) -> dict[str, Any]:
    settings, files = context.settings, Files(context.spark)
    schema = events.event_schema(context.spark, settings)
    if settings.key_column not in schema.names:
        raise SchemaError(f"schema has no column {settings.key_column}, which key_column names")
    key = StructType([schema[settings.key_column]])
    events.require_free(key, [*COLUMNS, "session", BATCH], "the table of sessions has for itself (see key_column)")
    claim = claimed(files, settings, context.kafka)
    claim.take(files)
    records = topics.read_stream(context.spark, settings, settings.bronze_topic)
    parsed = events.observe_read(events.parse(records, schema, settings), schema, settings)
    accepted = parsed.where(F.col(events.REASON).isNull()).select(*map(quoted, schema.names))
    frame, process = sessions(accepted, settings), Writer(context)
    done = run_stream(context, JOB, frame, process, claim.path, output=table_path(settings))
    return {"sessions": 0, **done, "table": table_path(settings)}
