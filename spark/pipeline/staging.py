"""Rows of a batch on their way into PostgreSQL. Rule: tasks copy them into a table of the batch's own, side by side and
past the driver; what they copied counts once the driver's transaction has moved it, with the offsets.

A task that Spark repeats copies its rows twice, and a task of a batch that is over finds no table: so rows are moved
once for each place in the topic, and every batch has a table of a new name. It is not logged: a crash may lose it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from pipeline.database import Database

PREFIX = "pipeline_staging"


class Staging:
    """The tables of one job. `kinds`: the columns of a row and their types; `key`: those that tell rows apart."""

    def __init__(self, database: Database, url: str, table: str, kinds: dict[str, str], key: Sequence[str]) -> None:
        self._database, self._url, self._kinds = database, url, kinds
        self._key = ", ".join(f'"{name}"' for name in key)
        self._own = f"{PREFIX}_{hashlib.sha256(table.encode()).hexdigest()[:12]}"
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

    def move(self, table: str, columns: Sequence[str], where: str, on_conflict: str) -> None:
        """Insert what was copied, as a part of the driver's transaction."""
        names = ", ".join(f'"{name}"' for name in columns)
        found = f'SELECT DISTINCT ON ({self._key}) {names} FROM "{self._name}" WHERE {where}'
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
