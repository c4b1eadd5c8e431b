"""Small files put together: every row stays, whatever ends the job and when, and a running stream goes on."""

import dataclasses
import json
import os
import random
import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import aggregate, bronze, compact, journal, silver, tables
from pipeline.files import Files
from pipeline.settings import Settings
from tests.killed import kill_at_random, log_of, start

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
DAYS = 3


def ids(spark: SparkSession, settings: Settings) -> Counter[str]:
    """Return how often each id is in the table, as any reader sees it."""
    rows = tables.read(spark, silver.table_path(settings)).select("event_id").collect()
    return Counter(row.event_id for row in rows)


def files_of(settings: Settings, job: str = "silver") -> list[Path]:
    """Return a table's files. `Path.glob` of Python 3.11 fails if a compaction removes a folder meanwhile."""
    folders = (found for root in Path(settings.path(job)).glob("*=*") for found in os.walk(root))
    return [Path(folder, name) for folder, _, names in folders for name in names if name.endswith(".parquet")]


@pytest.fixture
def numbered(event: Any) -> Any:
    """A function that makes events with the given numbers, of some days in turn."""
    return lambda numbers: [event(n, event_time=f"2024-05-0{n % DAYS + 1}T00:00:00Z") for n in numbers]


@pytest.fixture
def filled(make_settings: Any, make_context: Any, make_topic: Any, put: Any, numbered: Any) -> Settings:
    """A silver table of four batches, whose topic is the test's own."""
    settings: Settings = make_settings(max_offsets_per_trigger=30)
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, numbered(range(120)))
    assert silver.run(make_context(settings))["batches"] == 4
    return settings


@pytest.fixture(scope="module")
def originals() -> list[Settings]:
    """The table that `copied` copies, made when the first test asks."""
    return []


@pytest.fixture
def copied(
    originals: list[Settings], request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: Any
) -> Settings:
    """A copy of such a table. Tests share its topic, so none of them writes to that."""
    if not originals:
        filled: Settings = request.getfixturevalue("filled")
        kept = dataclasses.replace(filled, data_dir=str(tmp_path_factory.mktemp("filled") / "data"))
        originals.append(kept)
        shutil.copytree(filled.data_dir, kept.data_dir)
        return filled
    settings = dataclasses.replace(originals[0], data_dir=str(tmp_path / "data"))
    shutil.copytree(originals[0].data_dir, settings.data_dir)
    return settings


def read_to(settings: Settings) -> int:
    """Return the offset that the last finished batch of silver ended at, from its checkpoint."""
    checkpoint = Path(settings.path("checkpoints/silver"))
    last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    offsets = json.loads((checkpoint / "offsets" / str(last)).read_text().splitlines()[-1])
    return int(offsets[settings.bronze_topic]["0"])


def once(numbers: Any) -> Counter[str]:
    return Counter(f"e{n}" for n in numbers)


def test_small_files_are_put_together(
    filled: Settings, make_context: Any, put: Any, numbered: Any, spark: SparkSession
) -> None:
    context = make_context(filled)
    before = len(files_of(filled))
    done = compact.run(context)["tables"]["silver"]
    assert (done["removed"], done["added"]) == (before, DAYS)
    assert len(files_of(filled)) == DAYS
    assert ids(spark, filled) == once(range(120))
    assert compact.run(context)["tables"]["silver"] == {"removed": 0, "added": 0}
    put(filled.bronze_topic, numbered(range(100, 140)))  # ids from before are known; the watermark goes on from there
    again = silver.run(context)
    assert (again["accepted"], again["duplicates"]) == (20, 20)
    assert compact.run(context)["tables"]["silver"]["removed"] > DAYS
    assert ids(spark, filled) == once(range(140))
    assert len(files_of(filled)) == DAYS


def test_other_tables_and_columns_that_came_later(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession
) -> None:
    """The aggregation's events are compacted, too; a bronze table of Parquet stays, as streams know its files."""
    settings = make_settings(max_offsets_per_trigger=5)
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(n) for n in range(10)])
    for job in (aggregate, bronze, silver):
        job.run(make_context(settings))
    put(settings.bronze_topic, [event(n, score=n) for n in range(10, 20)])
    wider = dataclasses.replace(settings, schema=settings.schema + ", score INT")
    silver.run(make_context(wider))
    context = make_context(wider)
    assert compact.run(context)["tables"].keys() == {"silver", "aggregate"}
    assert (len(files_of(wider)), len(files_of(wider, "aggregate")), len(files_of(wider, "bronze"))) == (1, 1, 2)
    rows = tables.read(spark, silver.table_path(wider)).collect()
    assert {row.event_id: row.score for row in rows} == {f"e{n}": n if n > 9 else None for n in range(20)}
    assert (aggregate.run(context)["accepted"], silver.run(context)["rows"]) == (10, 0)


def test_every_swap_has_a_journal_of_its_own(
    filled: Settings, make_context: Any, put: Any, numbered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that is late with a journal of a day removed the next one of the day, whose swap was under way."""
    journals: list[str] = []
    swap = journal.swap

    def note(files: Files, table: str, name: str, *changes: Any) -> None:
        journals.append(name)
        swap(files, table, name, *changes)

    monkeypatch.setattr(journal, "swap", note)
    compact.run(make_context(filled))
    put(filled.bronze_topic, numbered(range(120, 140)))
    silver.run(make_context(filled))
    compact.run(make_context(filled))
    assert len(set(journals)) == len(journals) == 2 * DAYS


def test_an_unfinished_batch_is_left_alone(copied: Settings, make_context: Any, spark: SparkSession) -> None:
    """A batch that the checkpoint does not call finished is not compacted: after a crash the batch comes again."""
    last = max(int(path.name) for path in Path(copied.path("checkpoints/silver/commits")).glob("[0-9]*"))
    (Path(copied.path("checkpoints/silver/commits")) / str(last)).unlink()
    context = make_context(copied)
    compact.run(context)
    assert {path.parent.name for path in files_of(copied)} == {f"batch={last - 1}", f"batch={last}"}
    again = silver.run(context)
    assert again["accepted"] == 30
    assert ids(spark, copied) == once(range(120))


class Pulled(Exception):
    """The error that ends a job in the middle."""


def test_the_plug_is_pulled_at_every_step(
    copied: Settings, make_context: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job ends before each change that it makes to the file system, one after the other: no row is gone, and none
    is there twice once a job has started again."""
    context, table = make_context(copied), Path(silver.table_path(copied))
    for day in range(2, DAYS + 1):
        shutil.rmtree(table / f"date=2024-05-0{day}")
    table.rename(table.with_name("before"))
    wanted, steps = once(range(0, 120, DAYS)), 0
    originals = {name: getattr(Files, name) for name in ("write", "rename", "delete", "delete_if_empty")}
    while True:
        shutil.rmtree(table, ignore_errors=True)
        shutil.copytree(table.with_name("before"), table)
        left = steps

        def change(name: str, *arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Pulled
            return originals[name](*arguments)

        with monkeypatch.context() as patch:
            for name in originals:
                patch.setattr(Files, name, lambda *arguments, name=name: change(name, *arguments))
            try:
                compact.run(context)
                break
            except Pulled:
                steps += 1
        found = ids(spark, copied)
        assert found.keys() == wanted.keys()
        is_decided = bool(list(table.glob("_compacting/*.json")))
        assert is_decided or found == wanted
        journal.finish(Files(spark), str(table))  # as a stream does when it begins
        assert ids(spark, copied) == wanted
        assert len(files_of(copied)) == 1 or not is_decided
    assert steps > 10
    assert len(files_of(copied)) == 1
    assert ids(spark, copied) == wanted


def test_killed_again_and_again(
    copied: Settings, make_context: Any, spark: SparkSession, eventually: Any, slow: bool
) -> None:
    draw, table = random.Random(120), Path(silver.table_path(copied))

    def progress() -> list[Any]:
        return [sorted(names) for _, _, names in os.walk(table / "_compacting")] + [sorted(files_of(copied))]

    for _ in range(6 if slow else 1):
        if len(files_of(copied)) > DAYS:
            job = start("compact", copied)
            kill_at_random(job, copied, draw, [progress], eventually, longest_s=0.4, may_end=True)
        assert ids(spark, copied).keys() == once(range(120)).keys()
    compact.run(make_context(copied))
    assert ids(spark, copied) == once(range(120))
    assert len(files_of(copied)) == DAYS


def test_a_running_stream_goes_on(
    filled: Settings, make_context: Any, start_job: Any, put: Any, numbered: Any, spark: SparkSession, slow: bool
) -> None:
    """A stream gets new events and repeated ids right while the table is compacted again and again."""
    own = dataclasses.replace(filled, trigger="asap", max_offsets_per_trigger=40)
    running = start_job(silver.run, make_context(own))
    over, failed = threading.Event(), []

    def compact_often() -> None:
        while not over.is_set():
            try:
                done = compact.run(make_context(filled))["tables"]["silver"]
            except Exception as error:
                failed.append(error)
                return
            if not done["removed"]:
                over.wait(0.1)  # without a pause, looking for files would take the time of the stream

    thread = threading.Thread(target=compact_often)
    thread.start()
    first, end = 120, 120
    try:
        for _ in range(6 if slow else 3):
            put(filled.bronze_topic, numbered(range(first - 60, first + 20)))
            first, end = first + 20, end + 80
            running.until(lambda end=end: read_to(filled) == end)
    finally:
        over.set()
        thread.join()
    running.stop()
    assert failed == []
    compact.run(make_context(filled))
    assert ids(spark, filled) == once(range(first))


@pytest.mark.parametrize("logged", tables.formats()[1:])
def test_other_processes_beside_a_stream(
    logged: str, make_settings: Any, make_context: Any, make_topic: Any, start_job: Any, put: Any, numbered: Any,
    spark: SparkSession, slow: bool,
) -> None:  # fmt: skip
    """Tables of Delta and Iceberg on a local disk: no process's commit takes the place of another one's."""
    filled = make_settings(max_offsets_per_trigger=40, table_format=logged)
    make_topic(filled.bronze_topic)
    put(filled.bronze_topic, numbered(range(120)))
    for job in (silver, bronze):
        assert job.run(make_context(filled))["batches"] == 3
    settings = dataclasses.replace(filled, trigger="asap")
    running = [start_job(job.run, make_context(settings)) for job in (silver, bronze)]
    numbers, removed = 120, 0
    for _ in range(4 if slow else 1):
        process = start("compact", settings, table_format=logged)
        while process.poll() is None:
            put(settings.bronze_topic, numbered(range(numbers - 5, numbers + 5)))
            numbers += 5
            running[0].until(lambda wanted=numbers: len(ids_or_nothing(spark, settings)) == wanted)
        out, _ = process.communicate()
        assert process.returncode == 0, log_of(settings).read_text()[-3000:]
        removed += json.loads(out)["tables"]["silver"]["removed"]
    running[1].until(lambda: len(offsets(spark, settings)) == 2 * numbers - 120)
    for job in running:
        job.stop()
    assert removed > DAYS
    assert ids(spark, settings) == once(range(numbers))
    assert sorted(offsets(spark, settings)) == list(range(2 * numbers - 120))


def offsets(spark: SparkSession, settings: Settings) -> list[int]:
    """Return the offsets of the records in the bronze table."""
    return [row.offset for row in tables.read(spark, bronze.table_path(settings)).select("offset").collect()]


def ids_or_nothing(spark: SparkSession, settings: Settings) -> Counter[str]:
    try:
        return ids(spark, settings)
    except Exception:  # a file that this reader has listed was compacted
        return Counter()
