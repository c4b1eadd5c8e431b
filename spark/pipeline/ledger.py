"""A table that has every event once. Rule: an event whose id the table has is never added again, nothing is too late to
be added, and a batch that is repeated after a crash replaces exactly the folders that it had written.

The table is Parquet, partitioned by date and batch. Which of several records of a batch with one id counts is decided
by their timestamps, partitions, offsets and topics, so a repeated batch decides the same. Ids are looked for among rows
whose dates lie no further than the watermark from the event's: the watermark bounds what is read and kept in memory,
and never decides whether an event is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StructField, StructType

from pipeline import events, journal
from pipeline.context import Context
from pipeline.files import Files
from pipeline.settings import seconds_of
from pipeline.tables import BATCH, quoted

DAY_S = 86_400
KEPT_FRAMES = 16  # frames of ids in memory before they are read anew as one
BROADCAST_EVENTS = 500_000  # a batch of at most so many events is sent to every executor to look for its ids
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)  # no event is older
Found = TypeVar("Found")
KNOWN_ID, KNOWN_DATE = "_known_id", "_known_date"


def earlier(day: date, span: timedelta) -> date:
    """Return the day that is as much earlier, or the first one."""
    return max(day - date.min, span) - span + date.min


def later(day: date, span: timedelta) -> date:
    """Return the day that is as much later, or the last one."""
    return date.max - (max(date.max - day, span) - span)


@dataclass(frozen=True)
class LedgerNames:
    """The table's columns that the ledger has to know."""

    id: str
    time: str
    date: str


@dataclass(frozen=True)
class Added:
    """The result of adding a batch."""

    rows: DataFrame | None  # what the table has of the batch; None where the batch has no event
    counts: dict[str, Any]


class EventTable:
    """The writer of a table that has every event once, and what all formats have in common."""

    def __init__(self, context: Context, path: str, names: LedgerNames) -> None:
        self._spark, self._kafka, self._path, self._names = context.spark, context.kafka, path, names
        self._id, self._time = quoted(names.id), quoted(names.time)
        self._watermark_s = seconds_of(context.settings.watermark)
        self._around = math.ceil(self._watermark_s / DAY_S)  # days
        self._newest_us: int | None = None  # event time of the newest row, microseconds since 1970
        self._is_first = True  # only the first batch of a run can be one that was begun before

    def _added(self, found: int, write: Callable[[], DataFrame]) -> Added:
        """Write a batch, and count against the watermark that the batches before have left.

        Args:
            found: how many events the batch has, those included that the table has already.
            write: writes the batch, and returns what the table has of it; not called for a batch without events.
        """
        bound_us = None if self._newest_us is None else max(self._newest_us - round(self._watermark_s * 1e6), FIRST_US)
        watermark = None if bound_us is None else (EPOCH + timedelta(microseconds=bound_us)).isoformat()
        if not found:
            return Added(None, {"accepted": 0, "duplicates": 0, "late": 0, "watermark": watermark})
        rows = write()
        time_us = F.unix_micros(self._time)
        late = F.count(F.when(time_us < F.lit(bound_us), 1))
        accepted, late_count, newest_us = rows.agg(F.count(F.lit(1)), late, F.max(time_us)).collect()[0]
        self._newest_us = max((us for us in (self._newest_us, newest_us) if us is not None), default=None)
        counts = {"accepted": accepted, "duplicates": found - accepted, "late": late_count, "watermark": watermark}
        return Added(rows, counts)


class Ledger(EventTable):
    """The writer of a Parquet table. `columns`: those of the table, beside date and batch; `schema`: those of them that
    are read again after a batch, id and time at least."""

    def __init__(self, context: Context, path: str, names: LedgerNames, columns: list[str], schema: StructType) -> None:
        super().__init__(context, path, names)
        self._unfinished = f"{path}/_unfinished"
        self._columns, self._schema = columns, schema
        self._files = Files(context.spark)
        journal.finish(self._files, path)
        self._kept: list[DataFrame] = []  # ids and dates of the rows whose date is in _kept_days
        self._kept_days: set[date] = set()

    def add(self, found: DataFrame, batch_id: int) -> Added:
        """Write the events that the table has not. `found`: the table's columns, and the place of each record."""
        dated = found.withColumn(self._names.date, F.to_date(self._time))
        count, days = dated.agg(F.count(F.lit(1)), F.collect_set(F.col(self._names.date).cast("string"))).collect()[0]
        self._kafka.require_same_topics()  # the whole batch is read, and nothing is written
        if self._is_first:
            self._remove(batch_id)
            self._newest_us = self._despite_swaps(lambda: self._newest_before(batch_id))
            self._is_first = False
        return self._added(count, lambda: self._written(dated, count, days, batch_id))

    def _written(self, dated: DataFrame, count: int, days: list[str], batch_id: int) -> DataFrame:
        dates = {date.fromisoformat(day) for day in days}
        self._despite_swaps(lambda: self._write(self._new(dated, count, dates, batch_id)))
        rows = self._read(self._publish(batch_id)).persist()
        self._kept.append(rows)
        return rows

    def close(self) -> None:
        """Give back the memory; Spark would also take what it keeps of a folder for what a later run writes there."""
        for frame in self._kept:
            frame.unpersist()
        self._kept, self._kept_days = [], set()

    def _despite_swaps(self, do: Callable[[], Found]) -> Found:
        return journal.despite_swaps(self._files, self._path, do, self.close)

    def _write(self, rows: DataFrame) -> None:
        """Write beside the table: a write into it would make Spark read again all that is kept of it."""
        written = rows.select(*map(quoted, self._columns), self._names.date).write.mode("overwrite")
        written.partitionBy(self._names.date).parquet(self._unfinished)

    def _publish(self, batch_id: int) -> list[str]:
        """Move what was written into the table, a day at a time, and return the folders."""
        days = [name for name in self._files.names(self._unfinished) if name.startswith(f"{self._names.date}=")]
        folders = [f"{self._path}/{day}/{BATCH}={batch_id}" for day in days]
        for day, folder in zip(days, folders, strict=True):
            self._files.rename(f"{self._unfinished}/{day}", folder)
        self._files.delete(self._unfinished)
        return folders

    def _new(self, dated: DataFrame, count: int, days: set[date], batch_id: int) -> DataFrame:
        """Return the first event of each id, without those whose id the table has."""
        firsts = events.first_of_each_id(dated, self._names.id)
        known = self._known(days, batch_id)
        if known is None:
            return firsts
        is_same = (F.col(self._id) == F.col(KNOWN_ID)) & self._is_near()
        wanted = dated.select(self._id, self._names.date)
        present = known.join(F.broadcast(wanted) if count <= BROADCAST_EVENTS else wanted, is_same, "left_semi")
        return firsts.join(present, is_same, "left_anti")

    def _is_near(self) -> Column:
        return F.abs(F.datediff(self._names.date, KNOWN_DATE)) <= self._around

    def _known(self, days: set[date], batch_id: int) -> DataFrame | None:
        """Return ids and dates of the rows of earlier batches near these days, None where there are none."""
        around = timedelta(days=self._around)
        spans = (range(earlier(day, around).toordinal(), later(day, around).toordinal() + 1) for day in days)
        near = {date.fromordinal(number) for span in spans for number in span}
        if len(self._kept) > KEPT_FRAMES:
            self.close()
        missing = sorted((near - self._kept_days) & self._days())
        if missing:
            folders = [self._folder(day) for day in missing]
            rows = journal.steadily(self._files, self._path, lambda: self._read(folders))
            self._kept.append(rows.where(F.col(BATCH) < batch_id).select(self._id, self._names.date).persist())
        self._kept_days |= near
        ids = [
            frame.select(F.col(self._id).alias(KNOWN_ID), F.col(self._names.date).alias(KNOWN_DATE))
            for frame in self._kept
        ]
        return reduce(DataFrame.unionAll, ids) if ids else None

    def _days(self) -> set[date]:
        """Return the dates that the table has a folder for."""
        prefix = f"{self._names.date}="
        names = self._files.names(self._path)
        return {date.fromisoformat(name.removeprefix(prefix)) for name in names if name.startswith(prefix)}

    def _folder(self, day: date) -> str:
        return f"{self._path}/{self._names.date}={day}"

    def _read(self, folders: list[str]) -> DataFrame:
        partitions = [StructField(self._names.date, DateType()), StructField(BATCH, LongType())]
        schema = StructType([*self._schema.fields, *partitions])
        if not folders:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).option("basePath", self._path).parquet(*folders)

    def _remove(self, batch_id: int) -> None:
        """Take out what an earlier attempt at the batch has written, whatever its dates were."""
        for day in self._days():
            self._files.delete(f"{self._folder(day)}/{BATCH}={batch_id}")

    def _newest_before(self, batch_id: int) -> int | None:
        """Return the newest event time of the rows of earlier batches, in microseconds since 1970."""
        for day in sorted(self._days(), reverse=True):
            rows = self._read([self._folder(day)]).where(F.col(BATCH) < batch_id)
            newest_us: int | None = rows.agg(F.max(F.unix_micros(self._time))).collect()[0][0]
            if newest_us is not None:
                return newest_us
        return None
