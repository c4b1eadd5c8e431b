"""A topic into a database, exactly once. Rule: the rows of a batch and the offsets that they reach are one transaction,
so however the job ends, the table and its offsets tell the same story.

A batch passes through the driver (a database has one writer per transaction), so `max_offsets_per_trigger` is also its
limit of memory.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from pipeline import events, topics
from pipeline.context import Context
from pipeline.database import SQLITE, Database, open_database
from pipeline.offsets import JOB, STRATEGIES, Strategy, begin, ensure_tables, require_same_topic, store_offsets
from pipeline.runner import run_stream, totals
from pipeline.settings import Settings
from pipeline.steps import Steps

SOURCE = ["source_topic", "source_partition", "source_offset"]
ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


def reads(settings: Settings) -> list[str]:
    return [settings.bronze_topic]


def rejected_table(table: str) -> str:
    return f"{table}_rejected"


def ensure_event_tables(database: Database, table: str, schema: StructType) -> None:
    integer = "INTEGER" if database.dialect == SQLITE else "BIGINT"
    source = dict(zip(SOURCE, ("TEXT", integer, integer), strict=True))
    event = {field.name: database.type_of(field.dataType) for field in schema.fields}
    database.ensure_table(table, source | event, SOURCE)
    database.ensure_table(rejected_table(table), source | {"reason": "TEXT", "value": "TEXT"}, SOURCE)


class Writer:
    """What is done with a batch."""

    def __init__(
        self, context: Context, database: Database, strategy: Strategy, schema: StructType, topic_id: str
    ) -> None:
        self._kafka, self._topic_id = context.kafka, topic_id
        self._table, self._topic = context.settings.table, context.settings.bronze_topic
        self._database, self._strategy, self._schema = database, strategy, schema
        self._names = [field.name for field in schema.fields]

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        if self._strategy.is_done(batch_id):
            return
        rows = batch.select(*events.ORIGIN, events.REASON, events.as_text("_value"), *self._columns()).collect()
        offsets: dict[int, int] = {}
        for row in rows:
            offsets[row[1]] = max(offsets.get(row[1], 0), row[2] + 1)
        self._kafka.require_same_topics()
        with self._database.transaction():
            self._insert(rows)
            store_offsets(self._database, self._table, self._topic, self._topic_id, offsets)
            self._strategy.in_transaction(batch_id)
        self._strategy.after_commit(offsets)

    def _columns(self) -> list[Any]:
        return [
            F.date_format(field.name, ISO).alias(field.name)
            if isinstance(field.dataType, TimestampType)
            else field.name
            for field in self._schema.fields
        ]

    def _insert(self, rows: list[Row]) -> None:
        accepted = [(*row[:3], *row[5:]) for row in rows if row[3] is None]
        rejected = [tuple(row[:5]) for row in rows if row[3] is not None]
        conflict = self._strategy.on_conflict
        self._database.insert(self._table, [*SOURCE, *self._names], accepted, conflict)
        self._database.insert(rejected_table(self._table), [*SOURCE, "reason", "value"], rejected, conflict)


def run(context: Context) -> dict[str, Any]:
    settings = context.settings
    schema = events.event_schema(context.spark, settings)
    steps = Steps(context, schema)
    events.require_free(steps.schema, SOURCE, "the table has for the record's place")
    STRATEGIES[settings.offsets].check(context)
    database = open_database(settings.database_url)
    try:
        ensure_tables(database)
        topic_id = context.kafka.remember(settings.bronze_topic)
        require_same_topic(database, settings.table, settings.bronze_topic, topic_id)
        strategy = STRATEGIES[settings.offsets](context, database)
        ensure_event_tables(database, settings.table, steps.schema)
        starting = begin(context, database, strategy, topic_id)
        records = topics.read_stream(context.spark, settings, settings.bronze_topic, starting)
        frame = events.observe_read(events.parse(records, schema, settings), schema)
        writer = Writer(context, database, strategy, steps.schema, topic_id)
        batches = run_stream(context, JOB, frame, writer, strategy.checkpoint, output=settings.table, steps=steps)
    finally:
        database.close()
    return {**totals(batches), "table": settings.table, "offsets": settings.offsets, "batches_metrics": batches}
