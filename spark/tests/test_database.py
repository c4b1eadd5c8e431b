"""Both databases: transactions, tables that grow, and what is refused."""

import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    StringType,
    TimestampType,
)

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


def test_a_job_waits_for_another_ones_transaction(tmp_path: Path) -> None:
    """A batch is read within its transaction, which takes as long as Spark takes."""
    database = open_database(f"sqlite:///{tmp_path}/shared.db")
    assert database.execute("PRAGMA busy_timeout") == [(600_000,)]
    database.close()


def test_a_table_gets_columns_and_never_another_type(database: Database) -> None:
    time, real = database.type_of(TimestampType()), database.type_of(DoubleType())
    database.ensure_table("t", {"k": "TEXT", "at": time}, ["k"])
    database.ensure_table("t", {"k": "TEXT", "at": time, "x": real}, ["k"])
    assert database.columns("t") == {"k": "TEXT", "at": time, "x": real}
    with pytest.raises(SchemaError, match=r"column x of table t is .*, and the job writes TEXT"):
        database.ensure_table("t", {"k": "TEXT", "new": "TEXT", "x": "TEXT"}, ["k"])
    assert "new" not in database.columns("t")
    assert database.columns("nothing") == {}


def test_decimals_stay_exact(database: Database) -> None:
    kinds = {"k": "TEXT", "price": database.type_of(DecimalType(24, 8)), "day": database.type_of(DateType())}
    prices = [Decimal(text) for text in ("9007199254740993.00000001", "-0.10000000", "0E-8", "0.00000001")]
    database.ensure_table("t", kinds, ["k"])
    with database.transaction():
        rows = [(str(n), price, date(2024, 5, 1)) for n, price in enumerate(prices)]
        database.insert("t", list(kinds), [*rows, ("none", None, None)])
    found = database.execute('SELECT price, day FROM "t" ORDER BY k')
    assert [None if row[0] is None else f"{Decimal(row[0]):f}" for row in found] == [
        "9007199254740993.00000001", "-0.10000000", "0.00000000", "0.00000001", None,
    ]  # fmt: skip
    assert [str(row[1]) for row in found] == ["2024-05-01"] * 4 + ["None"]
    assert database.execute('SELECT COUNT(*) FROM "t" WHERE CAST(price AS REAL) < 0') == [(1,)]
    database.ensure_table("t", kinds, ["k"])
    with pytest.raises(SchemaError, match=r"column price of table t is .*\(24,8\), and the job writes .*\(24,2\)"):
        database.ensure_table("t", kinds | {"price": database.type_of(DecimalType(24, 2))}, ["k"])


@pytest.mark.parametrize("kind", [TimestampType(), DateType(), DecimalType(10, 2)])
def test_what_is_stored_as_text_is_not_a_string(database: Database, kind: DataType) -> None:
    database.ensure_table("t", {"k": "TEXT", "v": database.type_of(kind)}, ["k"])
    with pytest.raises(SchemaError, match=r"column v of table t is .*, and the job writes TEXT"):
        database.ensure_table("t", {"k": "TEXT", "v": database.type_of(StringType())}, ["k"])


@pytest.mark.parametrize("kind", [BinaryType(), ArrayType(DecimalType(10, 2))])
def test_what_no_database_has(database: Database, kind: DataType) -> None:
    with pytest.raises(SchemaError, match=f"no column for {re.escape(kind.simpleString())}"):
        database.type_of(kind)


def test_what_is_refused_has_words(database: Database) -> None:
    """Inside of a transaction and outside; the connection can be used on."""
    for statement in ("SELECT * FROM nowhere", "no SQL"):
        with pytest.raises(StoreError, match=r"the database refused: .*no"):
            database.execute(statement)
        with pytest.raises(StoreError, match="the database refused"), database.transaction():
            database.execute(statement)
    with database.transaction():
        assert database.execute("SELECT 1") == [(1,)]


def test_urls(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="has to be sqlite"):
        open_database("mysql://localhost/x")
    with pytest.raises(StoreError, match="can't be opened"):
        open_database(f"sqlite:///{tmp_path}")
    with pytest.raises(StoreError, match="can't be reached"):
        open_database("postgresql://127.0.0.1:1/nothing")
