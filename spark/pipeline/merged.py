"""A table of Delta or Iceberg that has every event once. Rule: a batch is merged by the events' ids in one commit, so a
batch that is repeated after a crash adds nothing, and no other reader sees a part of it.

What counts as known is what `ledger.py` says for Parquet: an id is looked for among rows whose dates lie no further
than the watermark from the event's. Here the table itself looks, so nothing is kept in memory.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StructField, StructType

from pipeline import events, tables
from pipeline.context import Context
from pipeline.ledger import Added, EventTable, Ledger, LedgerNames, earlier, later
from pipeline.parts import logged_parts_of
from pipeline.settings import PARQUET
from pipeline.tables import BATCH, quoted


def ledger_of(
    context: Context, path: str, names: LedgerNames, schema: StructType, read_again: StructType
) -> Ledger | MergedLedger:
    """Return the writer of a table that has every event once, in the format of the settings.

    Args:
        context: of the job.
        path: the table's folder.
        names: the columns that the writer has to know.
        schema: the table's columns, beside date and batch.
        read_again: those of them that Parquet's writer reads again after a batch, id and time at least.
    """
    if context.settings.table_format == PARQUET:
        return Ledger(context, path, names, schema.names, read_again)
    return MergedLedger(context, path, names, schema)


class MergedLedger(EventTable):
    """The writer of a table of Delta or Iceberg. schema: the table's columns, beside date and batch."""

    def __init__(self, context: Context, path: str, names: LedgerNames, schema: StructType) -> None:
        super().__init__(context, path, names)
        self._table = logged_parts_of(context, path, [names.date])
        own = [StructField(names.date, DateType()), StructField(BATCH, LongType())]
        self._schema = self._table.prepare(StructType([*schema.fields, *own]))

    def add(self, found: DataFrame, batch_id: int) -> Added:
        """Write the events that the table has not. `found`: the table's columns, and the place of each record."""
        dated = found.withColumn(self._names.date, F.to_date(self._time))
        bounds = F.min(self._names.date), F.max(self._names.date)
        count, first, last = dated.agg(F.count(F.lit(1)), *bounds).collect()[0]
        self._kafka.require_same_topics()  # the whole batch is read, and nothing is written
        if self._is_first:
            self._newest_us = self._newest_before(batch_id)
            self._is_first = False
        return self._added(count, lambda: self._written(dated, first, last, batch_id))

    def _written(self, dated: DataFrame, first: date, last: date, batch_id: int) -> DataFrame:
        firsts = events.first_of_each_id(dated, self._names.id)
        of_batch = firsts.withColumn(BATCH, F.lit(batch_id).cast("bigint"))
        self._merge(self._table.aligned(of_batch, self._schema), first, last)
        return self._rows().where((F.col(BATCH) == batch_id) & F.col(self._names.date).between(first, last))

    def close(self) -> None:
        """Nothing is kept."""

    def _merge(self, rows: DataFrame, first: date, last: date) -> None:
        """Insert the rows whose id the table does not have near their date. first, last: the dates that they have."""
        around = timedelta(days=self._around)
        key, day = self._id, quoted(self._names.date)
        self._table.merge(
            rows,
            f"known.{key} = found.{key} "
            f"AND known.{day} BETWEEN DATE'{earlier(first, around)}' AND DATE'{later(last, around)}' "
            f"AND abs(datediff(known.{day}, found.{day})) <= {self._around}",
        )

    def _rows(self) -> DataFrame:
        return tables.read(self._spark, self._path)

    def _newest_before(self, batch_id: int) -> int | None:
        """Return the newest event time of the rows of earlier batches, in microseconds since 1970."""
        earlier = self._rows().where(F.col(BATCH) < batch_id)
        newest = earlier.agg(F.max(self._names.date)).collect()[0][0]
        if newest is None:
            return None
        times: Any = earlier.where(F.col(self._names.date) == newest).agg(F.max(F.unix_micros(self._time)))
        return int(times.collect()[0][0])
