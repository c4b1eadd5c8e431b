"""Small files of a table, put together. Rule: no row is lost, none stays there twice, whatever ends the job and when;
and a stream that writes the table goes on.

Delta has `OPTIMIZE` for it, Iceberg `rewrite_data_files`. For Parquet, a day of a table is done in four steps:

1. The rows of its small files are written to a hidden folder, and counted.
2. A journal names the files to add and those to remove. From here on the day is decided.
3. The new files get their names in the table, and the old ones are removed. Meanwhile a reader that lists the table may
   see rows twice: some milliseconds, or after kill -9 until step 4.
4. The journal is removed. Jobs that find a journal do step 3 again: this one, and those that write the table.

Only files of finished batches are touched: a stream neither writes nor removes these. It may be reading them, and reads
anew when one is gone (see `ledger.py`). New files go into the folder of the newest of their batches, so their rows
stay older than a batch that is repeated. One such job at a time.
"""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql import DataFrame

from pipeline import aggregate, bronze, journal, replay, sessions, silver, tables
from pipeline.context import Context
from pipeline.errors import JobFailed, SettingsError
from pipeline.files import Files
from pipeline.settings import DELTA, ICEBERG
from pipeline.tables import BATCH

MEGABYTE = 1 << 20
OF_DAYS = (silver.JOB, aggregate.JOB)  # of Parquet, these alone: a stream knows the files of a bronze table by name
TABLES = (bronze.JOB, *OF_DAYS, sessions.JOB, "quarantine", replay.PART)


def run(context: Context) -> dict[str, Any]:
    settings, files = context.settings, Files(context.spark)
    done: dict[str, Any] = {}
    for name in TABLES:
        path = settings.path(name)
        found = tables.format_of(files, path)
        if found in COMPACTED_BY:
            if settings.table_format != found:
                raise SettingsError(f"the table {path} is {found}, and needs table_format {found}")
            done[name] = COMPACTED_BY[found](context, path)
        elif found and name in OF_DAYS:
            done[name] = Compaction(context, path, settings.path(f"checkpoints/{name}")).run()
    return {"tables": done}


def optimized(context: Context, path: str) -> dict[str, int]:
    """Let Delta put the files of a table together; return how many files were removed and added."""
    text = f"OPTIMIZE {tables.name_in_sql(context.spark, Files(context.spark), path, DELTA)}"
    metrics = tables.commit(context.spark, path, lambda: context.spark.sql(text)).collect()[0]["metrics"]
    return {"removed": metrics["numFilesRemoved"], "added": metrics["numFilesAdded"]}


def rewritten(context: Context, path: str) -> dict[str, int]:
    """Let Iceberg put the files of a table together; return how many files were removed and added."""
    catalog, table = tables.catalog_of(context.spark, Files(context.spark), path)
    size = context.settings.target_file_mb * MEGABYTE
    options = f"map('target-file-size-bytes', '{size}', 'min-input-files', '2')"
    text = f"CALL {catalog}.system.rewrite_data_files(table => '{table}', options => {options})"
    done = tables.commit(context.spark, path, lambda: context.spark.sql(text)).collect()[0]
    return {"removed": done["rewritten_data_files_count"], "added": done["added_data_files_count"]}


COMPACTED_BY = {DELTA: optimized, ICEBERG: rewritten}


class Compaction:
    """A Parquet table with folders of dates and batches. checkpoint: that of the stream which writes the table."""

    def __init__(self, context: Context, path: str, checkpoint: str) -> None:
        self._spark, self._path, self._stop = context.spark, path, context.stop
        self._files = Files(context.spark)
        self._target_bytes = context.settings.target_file_mb * MEGABYTE
        self._last = last_finished(self._files, checkpoint)

    def run(self) -> dict[str, int]:
        """Compact every day that has more files than it needs; return how many files were removed and added."""
        journal.clear(self._files, self._path)
        done = {"removed": 0, "added": 0}
        for day in sorted(self._files.names(self._path)):
            if "=" in day and not self._stop.is_set():
                removed, added = self._compact(day)
                done["removed"] += removed
                done["added"] += added
        return done

    def _compact(self, day: str) -> tuple[int, int]:
        small = self._small(day)
        wanted = -(-sum(small.values()) // self._target_bytes)
        if len(small) <= wanted:
            return 0, 0
        name = f"{day}.{uuid.uuid4().hex}"
        hidden = f"{journal.FOLDER}/{name}"
        unfinished = f"{self._path}/{hidden}"
        rows = self._rows(*(f"{self._path}/{name}" for name in small))
        rows.coalesce(wanted).write.parquet(unfinished)
        if rows.count() != self._rows(unfinished).count():
            raise JobFailed(f"{unfinished} has not the rows of {day}, and nothing was changed")
        newest = max((name.rpartition("/")[0] for name in small), key=batch_of)
        written = [file for file in self._files.names(unfinished) if file.endswith(".parquet")]
        add = {f"{hidden}/{file}": f"{newest}/{file}" for file in written}
        journal.swap(self._files, self._path, name, add, list(small))
        self._files.delete(unfinished)
        return len(small), len(written)

    def _small(self, day: str) -> dict[str, int]:
        """Return the small files of the day's finished batches, with their sizes in bytes."""
        names = self._files.names(f"{self._path}/{day}")
        folders = [f"{day}/{name}" for name in names if name.startswith(f"{BATCH}=")]
        return {
            f"{folder}/{name}": size
            for folder in folders
            if batch_of(folder) <= self._last
            for name, size in self._files.sizes(f"{self._path}/{folder}").items()
            if name.endswith(".parquet") and size < self._target_bytes
        }

    def _rows(self, *paths: str) -> DataFrame:
        return self._spark.read.option("mergeSchema", "true").parquet(*paths)


def batch_of(folder: str) -> int:
    """Return 7 of `date=2024-05-01/batch=7`."""
    return int(folder.rpartition(f"{BATCH}=")[2])


def last_finished(files: Files, checkpoint: str) -> int:
    """Return the last batch that a stream has finished and will never repeat; -1 before the first."""
    return max((int(name) for name in files.names(f"{checkpoint}/commits") if name.isdigit()), default=-1)
