"""Both databases: transactions, tables that grow, and what is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, DoubleType, TimestampType

from pipeline.database import Database, open_database
from pipeline.errors import SchemaError, SettingsError, StoreError


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/deep/er/test.db" if sqlite else request.getfixturevalue("new_postgresql_database")()
    opened = open_database(url)
    yield opened
    opened.close()


def test_all_of_a_transaction_or_nothing(database: Database) -> None:
    database.ensure_table("t", {"k": "TEXT", "v": "INTEGER"}, ["k"])
    with database.transaction():
        database.insert("t", ["k", "v"], [("a", 1), ("b", 2)])
    with pytest.raises(StoreError, match="refused"), database.transaction():
        database.insert("t", ["k", "v"], [("c", 3), ("a", 9)])
    with pytest.raises(ZeroDivisionError), database.transaction():
        database.insert("t", ["k", "v"], [("d", 1 // 0)])
    assert sorted(database.execute('SELECT k, v FROM "t"')) == [("a", 1), ("b", 2)]
    with database.transaction():
        database.upsert("t", ["k", "v"], ["k"], [("a", 7), ("e", 5)])
    assert database.execute('SELECT v FROM "t" WHERE k = ?', ("a",)) == [(7,)]


def test_a_table_gets_columns_and_never_another_type(database: Database) -> None:
    time, real = database.type_of(TimestampType()), database.type_of(DoubleType())
    database.ensure_table("t", {"k": "TEXT", "at": time}, ["k"])
    database.ensure_table("t", {"k": "TEXT", "at": time, "x": real}, ["k"])
    assert database.columns("t") == {"k": "TEXT", "at": time, "x": real}
    with pytest.raises(SchemaError, match=r"column x of table t is .*, and the job writes TEXT"):
        database.ensure_table("t", {"k": "TEXT", "new": "TEXT", "x": "TEXT"}, ["k"])
    assert "new" not in database.columns("t")
    assert database.columns("nothing") == {}


def test_what_no_database_has(database: Database) -> None:
    with pytest.raises(SchemaError, match="no column for binary"):
        database.type_of(BinaryType())


def test_urls(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has to be sqlite"):
        open_database("mysql://localhost/x")
    with pytest.raises(StoreError, match="can't be opened"):
        open_database(f"sqlite:///{tmp_path}")
    with pytest.raises(StoreError, match="can't be reached"):
        open_database("postgresql://127.0.0.1:1/nothing")
