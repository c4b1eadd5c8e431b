"""Parts of a table in every format: once, whole, and in a table of its format from the first moment on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import compact, lock, parts, tables
from pipeline.files import Files
from pipeline.parts import Part, Parts
from pipeline.settings import PARQUET
from tests.plug import plug_pulled

pytestmark = pytest.mark.spark
COLUMNS = "id BIGINT, day STRING"


@pytest.fixture
def table(table_format: str, make_settings: Any, make_context: Any, tmp_path: Path) -> Any:
    """Makes the table's writer, as each run of a job does."""
    context = make_context(make_settings(table_format=table_format))
    return lambda: parts.parts_of(context, str(tmp_path / "a table"), ["part", "day"], owner="me")


def rows(spark: SparkSession, *ids: int) -> DataFrame:
    return spark.createDataFrame([(number, f"d{number % 2}") for number in ids], COLUMNS)


def found(spark: SparkSession, table: Parts) -> list[tuple[int, str]]:
    return sorted((row.id, str(row.part)) for row in tables.read(spark, table._path).select("id", "part").collect())


def test_what_an_earlier_attempt_wrote_is_replaced(table: Any, spark: SparkSession) -> None:
    for attempt in ((1, 2, 3), (2, 3)):
        run = table()
        run.replace(rows(spark, *attempt), ("part", "a"))
        run.replace(rows(spark, 7), ("part", "b"))
        if attempt[0] == 1:
            table().remove(("part", "b"))
    assert found(spark, table()) == [(2, "a"), (3, "a"), (7, "b")]
    assert [row.id for row in table().rows(("part", "b"), rows(spark).schema).collect()] == [7]
    table().remove(("part", "a"))
    assert found(spark, table()) == [(7, "b")]


def test_columns_that_come_later(table: Any, spark: SparkSession) -> None:
    table().replace(rows(spark, 1), ("part", "a"))
    table().replace(rows(spark, 2).withColumn("more", F.lit("x")), ("part", "b"))
    table().replace(rows(spark, 3), ("part", "c"))
    more = {row.id: row.more for row in tables.read(spark, table()._path).collect()}
    assert more == {1: None, 2: "x", 3: None}


def test_an_appended_part_stays(table: Any, spark: SparkSession) -> None:
    first: Part = ("part", 1)
    table().append(rows(spark, 1, 2), first)
    run = table()
    run.append(rows(spark, 1, 2), first)
    run.append(rows(spark, 3), ("part", 2))
    assert found(spark, table()) == [(1, "1"), (2, "1"), (3, "2")]


def test_the_whole_table_is_replaced(table: Any, spark: SparkSession) -> None:
    for ids in ((1, 2), (2, 3, 4), (5,)):
        table().replace_all(rows(spark, *ids).withColumn("part", F.lit("a")))
        assert found(spark, table()) == [(number, "a") for number in ids]


def test_every_commit_is_alone(
    table: Any, table_format: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of a table with a log is held while the log grows, for every kind of write."""
    if table_format == PARQUET:
        pytest.skip("a folder has no commits")
    log = Path(table()._path, tables.LOGS[table_format])
    original, alone = lock.held, set[Path]()

    @contextmanager
    def held(*arguments: Any) -> Iterator[None]:
        with original(*arguments):
            before = commits(log)
            yield
            alone.update(commits(log) - before)

    monkeypatch.setattr(lock, "held", held)
    run = table()
    run.append(rows(spark, 1), ("part", 1))
    run.append(rows(spark, 2), ("part", 2))
    table().replace(rows(spark, 3).withColumn("more", F.lit("x")), ("part", 2))
    table().remove(("part", 1))
    schema = run.prepare(rows(spark).schema)
    run.merge(run.aligned(rows(spark, 4), schema), "known.id = found.id")
    compact.COMPACTED_BY[table_format](run._context, run._path)
    run.replace_all(run.aligned(rows(spark, 5), schema))
    assert alone == commits(log)
    assert len(alone) >= 8  # made, two appended, a column, replaced, removed, merged, all replaced


def commits(log: Path) -> set[Path]:
    return {*log.glob("*.json"), *log.glob("v*.metadata.json")} if log.exists() else set()


def test_killed_before_the_first_commit(table: Any, table_format: str, spark: SparkSession) -> None:
    """Files are in the folder, and no commit: the table has its format, and the next attempt goes on."""
    if table_format == PARQUET:
        pytest.skip("a folder has no commits")
    run = table()

    def write(whole: DataFrame, *_: Any) -> None:
        whole.write.mode("append").parquet(run._path)

    with plug_pulled(run, "_save", after=write):
        run.append(rows(spark, 1), ("part", 1))
    assert tables.format_of(Files(spark), run._path) == table_format
    table().remove(("part", 1))
    table().append(rows(spark, 1), ("part", 1))
    assert found(spark, table()) == [(1, "1")]
