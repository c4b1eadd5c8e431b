"""Swaps of files: done by whoever finds the journal, and noticed by whoever lists the table meanwhile."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import journal
from pipeline.files import Files

pytestmark = pytest.mark.spark


def listed(table: Path) -> set[str]:
    return {str(path.relative_to(table)) for path in table.glob("*=*/*")}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for name in ("batch=1/a", "batch=2/b", "_compacting/day.1/c"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    return tmp_path


ADD, REMOVE = {"_compacting/day.1/c": "batch=2/c"}, ["batch=1/a", "batch=2/b"]


def test_a_swap(spark: SparkSession, table: Path) -> None:
    files = Files(spark)
    journal.swap(files, str(table), "day", ADD, REMOVE)
    assert listed(table) == {"batch=2/c"}
    assert not (table / "batch=1").exists()
    assert [path.name for path in (table / "_compacting").glob("*.json")] == []


def test_a_swap_that_two_do(spark: SparkSession, table: Path) -> None:
    """Another process finds the journal, too, and one of the two is late with every step."""
    files = Files(spark)
    (table / "_compacting/day.json").write_text(json.dumps({"add": ADD, "remove": REMOVE}))
    text = (table / "_compacting/day.json").read_text()
    journal.finish(files, str(table))
    (table / "_compacting/day.json").write_text(text)
    journal.finish(files, str(table))
    assert listed(table) == {"batch=2/c"}


def test_a_folder_whose_last_checksum_another_process_is_removing_is_left_to_it(
    spark: SparkSession, table: Path
) -> None:
    """Hadoop's local files have checksums beside them, which no listing names, and which go after their files."""
    (table / "batch=1/.a.crc").write_bytes(b"crc")
    Files(spark).delete_if_empty(str(table / "batch=2"))
    assert (table / "batch=2/b").exists()
    (table / "batch=1/a").unlink()
    Files(spark).delete_if_empty(str(table / "batch=1"))
    assert (table / "batch=1/.a.crc").exists()


def test_who_lists_the_table_during_a_swap_lists_it_again(spark: SparkSession, table: Path) -> None:
    """The first folder is listed before the new file is there, the other one after the old file is gone."""
    files = Files(spark)
    looks: list[set[str]] = []

    def look() -> set[str]:
        second = set(files.names(f"{table}/batch=2"))
        if not looks:
            journal.swap(files, str(table), "day", ADD, REMOVE)
        looks.append(second | set(files.names(f"{table}/batch=1")))
        return looks[-1]

    assert journal.steadily(files, str(table), look) == {"c"}
    assert looks == [{"b"}, {"c"}]


def test_a_journal_that_a_killed_job_left(spark: SparkSession, table: Path) -> None:
    files = Files(spark)
    (table / "_compacting/day.json").write_text(json.dumps({"add": ADD, "remove": REMOVE}))
    (table / "batch=1/a").unlink()  # as far as the job came
    (table / "_compacting/day.1/c").rename(table / "batch=2/c")
    assert journal.steadily(files, str(table), lambda: listed(table)) == {"batch=2/c"}
    journal.clear(files, str(table))
    assert {path.name for path in (table / "_compacting").iterdir() if path.suffix != ".crc"} == {"generation"}
