"""Counts and sums per window of event time. Rule: a window's result is a function of the events that the topic has,
each of them once and however late; it is upserted, to a table and to a compacted topic, so writing it again changes
nothing.

The events that count are kept beside the table (see `ledger.py`), with what the windows need of them. What a batch
adds to the windows is one transaction with the number of the batch, so a batch that is repeated adds nothing.
"""

from __future__ import annotations

import decimal
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StringType, StructField, StructType, TimestampType

from pipeline import checkpoints, events, topics
from pipeline.context import Context
from pipeline.database import SQLITE, Database, open_database
from pipeline.files import AnyFiles, Files
from pipeline.kafka import COMPACTED, Kafka
from pipeline.ledger import LedgerNames
from pipeline.merged import ledger_of
from pipeline.offsets import check_table, ensure_tables, owner_of, store_owner, take_table
from pipeline.runner import run_stream
from pipeline.settings import Settings
from pipeline.steps import Steps
from pipeline.tables import quoted

JOB = "aggregate"
TABLE = "windows"
KEY = ["window_start", "group_value"]
COLUMNS = [*KEY, "window_end", "events", "total"]
TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss'Z'"
RESULT = "window_start STRING, group_value STRING, window_end STRING, events BIGINT, total DOUBLE"
NAMES = LedgerNames("id", "time", "date")
RAW = ("_key", "_value", "_headers")  # not needed here, and most of a record's bytes
TOTAL = DecimalType(38, 6)
EXACT = decimal.Context(prec=TOTAL.precision)
GROUP_CHARACTERS = 500  # an index of PostgreSQL takes no entry of more than 2,700 bytes


def writes(settings: Settings) -> list[str]:
    return [settings.windows_topic]


def ledger_path(settings: Settings) -> str:
    return settings.path(JOB)


def ledger_schema(schema: StructType, settings: Settings) -> StructType:
    kind = schema[settings.id_column].dataType
    columns = [StructField("id", kind), StructField("time", TimestampType()), StructField("group_value", StringType())]
    return StructType([*columns, StructField("value", DecimalType(28, 6))])


def counted(found: DataFrame, settings: Settings) -> DataFrame:
    """Select what the windows need of the events.

    Values are decimals: adding them up in any order gives the same. What a table or its index can't hold must not end
    the stream: a number beyond decimals (NaN, 1e300) counts as 0, a group is its first 500 characters, and a NUL in it
    U+FFFD, as in `database.py`.
    """
    group = F.left(F.translate(quoted(settings.group_column), "\0", "\ufffd"), F.lit(GROUP_CHARACTERS))
    number = F.expr(f"TRY_CAST({quoted(settings.value_column)} AS DECIMAL(28,6))")
    return found.select(
        F.col(quoted(settings.id_column)).alias("id"),
        F.col(quoted(settings.time_column)).alias("time"),
        F.coalesce(group, F.lit("")).alias("group_value"),
        F.coalesce(number, F.lit(0).cast("decimal(28,6)")).alias("value"),
        *events.PLACE,
    )


def windows(rows: DataFrame, settings: Settings) -> DataFrame:
    span = F.window("time", settings.window).alias("window")
    sums = rows.groupBy(span, "group_value").agg(F.count(F.lit(1)).alias("events"), F.sum("value").alias("total"))
    start, end = (F.date_format(f"window.{name}", TIME_FORMAT).alias(f"window_{name}") for name in ("start", "end"))
    return sums.select(start, "group_value", end, "events", F.col("total").cast(TOTAL))


def as_records(results: DataFrame) -> DataFrame:
    return results.select(F.to_json(F.struct(*KEY)).alias("key"), F.to_json(F.struct(*COLUMNS)).alias("value"))


class Windows:
    """The step that adds a batch to the windows."""

    def __init__(self, context: Context, database: Database, schema: StructType, checkpoint_id: str) -> None:
        self._spark, self._settings = context.spark, context.settings
        self._database, self._checkpoint_id = database, checkpoint_id
        path, columns = ledger_path(context.settings), ledger_schema(schema, context.settings)
        self.ledger = ledger_of(context, path, NAMES, columns, columns)

    def __call__(self, batch: DataFrame, batch_id: int) -> dict[str, Any]:
        batch.persist()
        try:
            found = counted(batch.where(F.col(events.REASON).isNull()), self._settings)
            added = self.ledger.add(found, batch_id)
        finally:
            batch.unpersist()
        if added.rows is not None and added.counts["accepted"]:
            sums = [tuple(row) for row in windows(added.rows, self._settings).collect()]
            results = [(*row[:4], float(row[4])) for row in self._upserted(sums, batch_id)]
            records = as_records(self._spark.createDataFrame(results, RESULT))
            topics.append(records, self._settings, self._settings.windows_topic)
        return added.counts

    def _upserted(self, sums: list[tuple[Any, ...]], batch_id: int) -> list[tuple[Any, ...]]:
        """Add the sums, unless the table has the batch already; return their windows as the table has them then."""
        with self._database.transaction():
            owner = owner_of(self._database, TABLE)
            is_done = owner is not None and batch_id <= owner[1]
            present = self._present(min(row[0] for row in sums), max(row[0] for row in sums))
            if is_done:
                return [(*row[:3], *present[row[:2]]) for row in sums]
            rows = []
            for start, group, end, count, total in sums:
                count_before, total_before = present.get((start, group), (0, decimal.Decimal(0)))
                rows.append((start, group, end, count_before + count, EXACT.add(total_before, total)))
            self._database.upsert(TABLE, COLUMNS, KEY, rows)
            store_owner(self._database, TABLE, self._checkpoint_id, batch_id)
        return rows

    def _present(self, first: str, last: str) -> dict[tuple[Any, ...], tuple[int, decimal.Decimal]]:
        """Return events and total of the windows that begin from `first` to `last`, by start and group."""
        statement = f'SELECT window_start, group_value, events, total FROM "{TABLE}" WHERE window_start BETWEEN ? AND ?'
        rows = self._database.execute(statement, (first, last))
        return {(start, group): (count, decimal.Decimal(total)) for start, group, count, total in rows}


def ensure_table(database: Database) -> None:
    integer = "INTEGER" if database.dialect == SQLITE else "BIGINT"
    kinds = {"window_start": "TEXT", "group_value": "TEXT", "window_end": "TEXT", "events": integer}
    database.ensure_table(TABLE, {**kinds, "total": database.type_of(TOTAL)}, KEY)


def claimed(files: AnyFiles, settings: Settings, kafka: Kafka) -> checkpoints.Claim:
    return checkpoints.claim(files, settings, kafka, JOB, output=ledger_path(settings))


def run(context: Context) -> dict[str, Any]:
    settings, files = context.settings, Files(context.spark)
    schema = events.event_schema(context.spark, settings)
    steps = Steps(context, schema)
    events.require_group_and_value(steps.schema, settings)
    claim = claimed(files, settings, context.kafka)
    database = open_database(settings.database_url)
    try:
        ensure_tables(database)
        check_table(database, TABLE, claim.id)
        ensure_table(database)
        context.kafka.ensure_topic(settings.windows_topic, COMPACTED)
        claim.take(files)
        take_table(database, TABLE, claim.id)
        records = topics.read_stream(context.spark, settings, settings.bronze_topic)
        frame = events.observe_read(events.parse(records, schema, settings), schema, settings).drop(*RAW)
        process, output = Windows(context, database, steps.schema, claim.id), settings.windows_topic
        try:
            done = run_stream(context, JOB, frame, process, claim.path, output=output, steps=steps)
        finally:
            process.ledger.close()
    finally:
        database.close()
    return {**done, "table": TABLE, "topic": settings.windows_topic}
