"""A topic into a database, exactly once. Rule: the rows of a batch and the offsets that they reach are one transaction,
so however the job ends, the table and its offsets tell the same story.

PostgreSQL's rows are copied by the tasks that read them, into a table that the driver's transaction moves (`Staging`).
A SQLite file is the driver's alone: rows pass through it, a partition at a time.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType, TimestampType

from pipeline import checkpoints, events, source, topics
from pipeline.context import Context
from pipeline.database import POSTGRESQL, SQLITE, Database, open_database
from pipeline.errors import SettingsError
from pipeline.files import AnyFiles, Files
from pipeline.kafka import Kafka
from pipeline.offsets import JOB, STRATEGIES, Strategy, begin, ensure_tables, require_same_topic, store_offsets
from pipeline.runner import run_stream
from pipeline.settings import Settings
from pipeline.steps import Steps
from pipeline.tables import quoted

SOURCE = ["source_topic", "source_partition", "source_offset"]
REFUSED = (events.REASON, "_value")  # copied of a refused record, by names that no column of an event has
STAGING = "pipeline_staging"
ROWS_AT_ONCE = 10_000
ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


def check(settings: Settings) -> None:
    """Refuse sources whose beginning the table of offsets could not settle."""
    for name in ("subscribePattern", *source.STARTING):
        if name in settings.source and name != "startingTimestamp":
            raise SettingsError(f"source: store knows its offsets by topic and partition, and can't take {name}")


def rejected_table(table: str) -> str:
    return f"{table}_rejected"


def source_kinds(database: Database) -> dict[str, str]:
    integer = "INTEGER" if database.dialect == SQLITE else "BIGINT"
    return dict(zip(SOURCE, ("TEXT", integer, integer), strict=True))


def rejected_kinds(database: Database) -> dict[str, str]:
    return source_kinds(database) | {"reason": "TEXT", "value": "TEXT"}


def event_kinds(database: Database, schema: StructType) -> dict[str, str]:
    return {field.name: database.type_of(field.dataType) for field in schema.fields}


def ensure_event_tables(database: Database, table: str, schema: StructType) -> None:
    database.ensure_table(table, source_kinds(database) | event_kinds(database, schema), SOURCE)
    database.ensure_table(rejected_table(table), rejected_kinds(database), SOURCE)


def of_storable_years(frame: DataFrame, schema: StructType) -> DataFrame:
    """Refuse events with dates or times outside the years 1 to 9999."""
    reason, columns = F.col(events.REASON), {}
    for field in schema.fields:
        if isinstance(field.dataType, DateType | TimestampType):
            is_storable = F.year(quoted(field.name)).between(1, 9999)
            words = F.lit(f"{field.name} {events.OUTSIDE_YEARS}")
            reason = F.coalesce(reason, F.when(~is_storable, words))
            columns[field.name] = F.when(is_storable, F.col(quoted(field.name)))
    return frame.withColumns({events.REASON: reason, **columns})


class Staging:
    """The tables through which rows of a batch come into PostgreSQL: tasks copy them into a table of the batch's own,
    side by side and past the driver; what they copied counts once the driver's transaction has moved it, with the
    offsets.

    A task that Spark repeats copies its rows twice, and a task of a batch that is over finds no table: so rows are
    moved once for each place in the topic, and every batch has a table of a new name. It is not logged: a crash may
    lose it.

    kinds: the columns of a row and their types. key: those that tell rows apart.
    """

    def __init__(self, database: Database, url: str, table: str, kinds: dict[str, str], key: Sequence[str]) -> None:
        self._database, self._url, self._kinds = database, url, kinds
        self._key = ", ".join(f'"{name}"' for name in key)
        self._own = f"{STAGING}_{hashlib.sha256(table.encode()).hexdigest()[:12]}"
        self._name = ""
        self._drop_all()  # what killed runs have left

    def _drop_all(self) -> None:
        statement = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND starts_with(tablename, ?)"
        for (name,) in self._database.execute(statement, (self._own,)):
            self._database.execute(f'DROP TABLE "{name}"')

    def load(self, rows: DataFrame) -> None:
        """Copy the rows, whose columns are those of the table, from the tasks that have them."""
        self._name = f"{self._own}_{uuid.uuid4().hex[:12]}"
        described = ", ".join(f'"{name}" {kind}' for name, kind in self._kinds.items())
        self._database.execute(f'CREATE UNLOGGED TABLE "{self._name}" ({described})')
        rows.foreachPartition(copying(self._url, self._name))

    def move(self, table: str, columns: Sequence[str], copied: Sequence[str], where: str, on_conflict: str) -> None:
        """Insert what was copied, as a part of the driver's transaction. copied: the columns that hold the values."""
        names, values = (", ".join(f'"{name}"' for name in of_table) for of_table in (columns, copied))
        found = f'SELECT DISTINCT ON ({self._key}) {values} FROM "{self._name}" WHERE {where}'
        self._database.execute(f'INSERT INTO "{table}" ({names}) {found} {on_conflict}')

    def next_offsets(self) -> dict[int, int]:
        """Return the offset after the last one that was copied, by partition."""
        statement = f'SELECT source_partition, max(source_offset) + 1 FROM "{self._name}" GROUP BY source_partition'
        return dict(self._database.execute(statement))

    def drop(self) -> None:
        self._database.execute(f'DROP TABLE IF EXISTS "{self._name}"')


def copying(url: str, table: str) -> Callable[[Iterable[Any]], None]:
    """Return what a task does with its rows. An executor needs psycopg, and nothing of this package."""

    def copy_rows(rows: Iterable[Any]) -> None:
        import psycopg

        with (
            psycopg.connect(url, connect_timeout=10) as connection,
            connection.cursor() as cursor,
            cursor.copy(f'COPY "{table}" FROM STDIN'.encode()) as copy,
        ):
            for row in rows:
                copy.write_row([v.replace("\0", "\ufffd") if isinstance(v, str) else v for v in row])

    return copy_rows


class Writer:
    """The step that writes a batch and the offsets that it reaches."""

    def __init__(
        self, context: Context, database: Database, strategy: Strategy, schema: StructType, topic_id: str
    ) -> None:
        settings = context.settings
        self._kafka, self._topic_id = context.kafka, topic_id
        self._table, self._topic = settings.table, settings.bronze_topic
        self._database, self._strategy, self._schema = database, strategy, schema
        self._names = [field.name for field in schema.fields]
        self._staging: Staging | None = None
        if database.dialect == POSTGRESQL:
            refused = dict.fromkeys(REFUSED, "TEXT")
            kinds = {**source_kinds(database), **refused, **event_kinds(database, schema)}
            self._staging = Staging(database, settings.database_url, settings.table, kinds, SOURCE)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        if self._strategy.is_done(batch_id):
            return
        batch = of_storable_years(batch, self._schema)  # again: a transform makes columns of its own
        rows = batch.select(*events.ORIGIN, events.REASON, events.as_text("_value"), *self._columns())
        if self._staging is not None:
            self._staging.load(rows)
        with self._database.transaction():
            offsets = self._insert(rows)
            self._kafka.require_same_topics()
            store_offsets(self._database, self._table, self._topic, self._topic_id, offsets)
            self._strategy.in_transaction(batch_id)
        if self._staging is not None:
            self._staging.drop()
        self._strategy.after_commit(offsets)

    def _columns(self) -> list[Any]:
        return [
            F.date_format(quoted(field.name), ISO).alias(field.name)
            if isinstance(field.dataType, TimestampType)
            else F.col(quoted(field.name))
            for field in self._schema.fields
        ]

    def _insert(self, rows: DataFrame) -> dict[int, int]:
        """Insert the rows; return the offset after the last of them, by partition."""
        accepted, rejected = [*SOURCE, *self._names], [*SOURCE, "reason", "value"]
        conflict = self._strategy.on_conflict
        if self._staging is not None:
            copied, is_good = [*SOURCE, *REFUSED], f"{events.REASON} IS NULL"
            self._staging.move(self._table, accepted, accepted, is_good, conflict)
            self._staging.move(rejected_table(self._table), rejected, copied, f"NOT {is_good}", conflict)
            return self._staging.next_offsets()
        offsets: dict[int, int] = {}
        left = rows.toLocalIterator()  # the file is the driver's; a partition at a time is in its memory
        while part := list(islice(left, ROWS_AT_ONCE)):
            for row in part:
                offsets[row[1]] = max(offsets.get(row[1], 0), row[2] + 1)
            good = [(*row[:3], *row[5:]) for row in part if row[3] is None]
            self._database.insert(self._table, accepted, good, conflict)
            refused = [tuple(row[:5]) for row in part if row[3] is not None]
            self._database.insert(rejected_table(self._table), rejected, refused, conflict)
        return offsets


def claimed(files: AnyFiles, settings: Settings, kafka: Kafka) -> checkpoints.Claim | None:
    """Return the checkpoint, where that remembers how far the job is."""
    if settings.offsets != "checkpoint":
        return None
    return checkpoints.claim(files, settings, kafka, JOB, of=settings.table)


def run(context: Context) -> dict[str, Any]:
    settings = context.settings
    schema = events.event_schema(context.spark, settings)
    steps = Steps(context, schema)
    events.require_free(steps.schema, SOURCE, "the table has for the record's place")
    claim = claimed(Files(context.spark), settings, context.kafka)
    database = open_database(settings.database_url)
    try:
        ensure_tables(database)
        topic_id = context.kafka.remember(settings.bronze_topic)
        require_same_topic(database, settings.table, settings.bronze_topic, topic_id)
        strategy = STRATEGIES[settings.offsets](context, database, claim)
        ensure_event_tables(database, settings.table, steps.schema)
        starting = begin(context, database, strategy, topic_id)
        records = topics.read_stream(context.spark, settings, settings.bronze_topic, starting)
        parsed = of_storable_years(events.parse(records, schema, settings), schema)
        frame = events.observe_read(parsed, schema, settings)
        writer = Writer(context, database, strategy, steps.schema, topic_id)
        done = run_stream(context, JOB, frame, writer, strategy.checkpoint, output=settings.table, steps=steps)
    finally:
        database.close()
    return {**done, "table": settings.table, "offsets": settings.offsets}
