"""The outside database: SQLite, or PostgreSQL by URL. Rule: everything that belongs together is written in one
transaction, and a table that exists is only ever given new columns.
"""

from __future__ import annotations

import contextlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql.types import DataType

from pipeline.errors import SchemaError, SettingsError, StoreError

Row = Sequence[Any]
# Spark's type: SQLite's, PostgreSQL's. What has TEXT in its name, SQLite keeps as the text that it was given: times as
# ISO 8601 in UTC, decimals exactly. The word before TEXT tells such a column from one of strings.
TYPES = {
    "string": ("TEXT", "TEXT"),
    "timestamp": ("TIMESTAMP TEXT", "TIMESTAMPTZ"),
    "date": ("DATE TEXT", "DATE"),
    "boolean": ("INTEGER", "BOOLEAN"),
    "tinyint": ("INTEGER", "SMALLINT"),
    "smallint": ("INTEGER", "SMALLINT"),
    "int": ("INTEGER", "INTEGER"),
    "bigint": ("INTEGER", "BIGINT"),
    "float": ("REAL", "REAL"),
    "double": ("REAL", "DOUBLE PRECISION"),
    "decimal": ("DECIMAL TEXT", "NUMERIC"),  # with the digits: NUMERIC(12,2)
}
SQLITE, POSTGRESQL = 0, 1
SQLITE_URL = "sqlite:///"
BUSY_S = 600  # another flow may be reading a large batch in its transaction
# PostgreSQL's own words for the types above
SAME_TYPE = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}

# sqlite3 knows no decimals, and is about to forget dates. Never with an exponent: 0.00, not 0E-2.
sqlite3.register_adapter(Decimal, lambda value: format(value, "f"))
sqlite3.register_adapter(date, date.isoformat)


def open_database(url: str) -> Database:
    if url.startswith(SQLITE_URL):
        return SQLiteDatabase(url.removeprefix(SQLITE_URL))
    if url.startswith(("postgresql://", "postgres://")):
        return PostgreSQLDatabase(url)
    raise SettingsError(f"database is {url!r}, and has to be sqlite:///PATH or postgresql://USER@HOST/NAME")


class Database(ABC):
    """A connection to either database. Statements have `?` for a value, and a refusal is a StoreError."""

    dialect: int
    taken_by_statements: str  # characters that a column's name can't have
    errors: tuple[type[Exception], ...]
    _connection: Any

    @abstractmethod
    def _execute(self, statement: str, values: Row) -> list[Any]:
        """Return the rows that the statement gives."""

    @abstractmethod
    def _execute_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Execute the statement once for every row of values."""

    @abstractmethod
    def columns(self, table: str) -> dict[str, str]:
        """Return names and types of the columns; nothing if there is no such table."""

    def execute(self, statement: str, values: Row = ()) -> list[Any]:
        with self._in_words():
            return self._execute(statement, values)

    def execute_many(self, statement: str, rows: Iterable[Row]) -> None:
        with self._in_words():
            self._execute_many(statement, rows)

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except self.errors as error:
            raise StoreError(f"the database refused: {error}") from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all of what is executed inside, or nothing."""
        try:
            self.execute("BEGIN")
            yield
            self.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(StoreError):
                self.execute("ROLLBACK")
            raise

    def type_of(self, kind: DataType) -> str:
        name, bracket, digits = kind.simpleString().partition("(")
        if name not in TYPES:
            raise SchemaError(f"the database has no column for {kind.simpleString()}")
        return TYPES[name][self.dialect] + bracket + digits

    def ensure_table(self, table: str, columns: dict[str, str], primary_key: Sequence[str]) -> None:
        """Create the table, or add the columns that it lacks."""
        for name in columns:
            if found := set(name) & set(self.taken_by_statements):
                raise SchemaError(f"column {name}: the database's names can't have {' '.join(sorted(found))}")
        with self.transaction():
            present = self.columns(table)
            if not present:
                described = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
                keys = ", ".join(f'"{name}"' for name in primary_key)
                self.execute(f'CREATE TABLE "{table}" ({described}, PRIMARY KEY ({keys}))')
                return
            for name, kind in columns.items():
                if name not in present:
                    self.execute(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {kind}')
                elif present[name] != kind:
                    raise SchemaError(f"column {name} of table {table} is {present[name]}, and the job writes {kind}")

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Row], on_conflict: str = "") -> None:
        names = ", ".join(f'"{name}"' for name in columns)
        places = ", ".join("?" * len(columns))
        self.execute_many(f'INSERT INTO "{table}" ({names}) VALUES ({places}) {on_conflict}', rows)

    def upsert(self, table: str, columns: Sequence[str], key: Sequence[str], rows: Iterable[Row]) -> None:
        others = ", ".join(f'"{name}" = excluded."{name}"' for name in columns if name not in key)
        keys = ", ".join(f'"{name}"' for name in key)
        self.insert(table, columns, rows, f"ON CONFLICT ({keys}) DO UPDATE SET {others}")

    def close(self) -> None:
        self._connection.close()


class SQLiteDatabase(Database):
    dialect = SQLITE
    taken_by_statements = '"'
    errors = (sqlite3.Error,)

    def __init__(self, path: str) -> None:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            # Spark calls from a thread of its own, one batch after the other.
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_S)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"the SQLite file {path} can't be opened: {error}") from error

    def _execute(self, statement: str, values: Row) -> list[Any]:
        return list(self._connection.execute("BEGIN IMMEDIATE" if statement == "BEGIN" else statement, values))

    def _execute_many(self, statement: str, rows: Iterable[Row]) -> None:
        self._connection.executemany(statement, rows)

    def columns(self, table: str) -> dict[str, str]:
        return {row[1]: row[2] for row in self.execute(f'PRAGMA table_info("{table}")')}


def without_nul(value: Any) -> Any:
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


class PostgreSQLDatabase(Database):
    """PostgreSQL, whose text has no NUL: that becomes U+FFFD, as Spark makes it of bytes that are no UTF-8."""

    dialect = POSTGRESQL
    taken_by_statements = '"?%'

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise SettingsError("a postgresql:// database needs the package psycopg") from error
        self.errors = (psycopg.Error,)
        try:
            self._connection = psycopg.connect(url, autocommit=True, connect_timeout=10)
        except psycopg.Error as error:
            raise StoreError(f"PostgreSQL can't be reached: {error}") from error

    def _execute(self, statement: str, values: Row) -> list[Any]:
        cursor = self._connection.execute(statement.replace("?", "%s"), values or None)
        return cursor.fetchall() if cursor.description else []

    def _execute_many(self, statement: str, rows: Iterable[Row]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s"), ([without_nul(value) for value in row] for row in rows))

    def columns(self, table: str) -> dict[str, str]:
        found = self.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(quote_ident(?)) AND attnum > 0 AND NOT attisdropped",
            (table,),
        )
        return {name: SAME_TYPE.get(kind.upper(), kind.upper()) for name, kind in found}
