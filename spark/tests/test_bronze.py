"""A topic as a table, and silver from that table when the topic is gone."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import bronze, parts, reference, silver, tables
from pipeline.cli import main
from pipeline.errors import CheckpointError, UnknownTopic
from pipeline.generate import Generator
from pipeline.settings import Settings
from tests.killed import kill_at_random, start
from tests.plug import plug_pulled

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def records_of(spark: SparkSession, settings: Settings) -> dict[tuple[int, int], Any]:
    found = tables.read(spark, bronze.table_path(settings)).collect()
    records = {(row.partition, row.offset): row for row in found}
    assert len(records) == len(found)
    return records


def table(spark: SparkSession, settings: Settings) -> list[Any]:
    return tables.read(spark, silver.table_path(settings)).collect()


@pytest.fixture
def settings(make_settings: Any, table_format: str) -> Settings:
    made: Settings = make_settings(table_format=table_format, max_offsets_per_trigger=100)
    return made


def commits(table: Path) -> int:
    """Return how often the table has changed. Iceberg's metadata gets the name v1, v2, ... as it is committed."""
    return sum(
        1
        for pattern in ("batch=*", "date=*/batch=*", "_delta_log/*.json", "metadata/v*.metadata.json")
        for _ in table.glob(pattern)
    )


def letters(context: Any) -> list[tuple[int, int]]:
    found = [dict(letter.headers()) for letter in context.kafka.read_all(context.settings.dead_letter_topic)]
    return sorted((int(each["source-partition"]), int(each["source-offset"])) for each in found)


def test_every_record_as_it_is(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession, admin: Any
) -> None:
    """The table has the topic's records, and silver makes the same of the table as of the topic, which may be gone."""
    topic = make_topic(settings.bronze_topic, 2)
    put(topic, [{"key": b"k\xff", "value": event(1), "headers": [("h", b"\xff"), ("none", None)], "timestamp": 5}])
    values = [event(n % 40) if n % 7 else b"\xffbroken" for n in range(50)]
    put(topic, [{"key": b"%d" % n, "value": value, "partition": n % 2} for n, value in enumerate([*values, None])])
    context = make_context(settings)
    done = bronze.run(context)
    found = records_of(spark, settings)
    sent = {(record.partition(), record.offset()): record for record in context.kafka.read_all(topic)}
    assert (done["rows"], done["topic"]) == (len(sent), topic)
    assert found.keys() == sent.keys()
    for place, record in sent.items():
        row = found[place]
        key, value = (None if part is None else bytes(part) for part in (row.key, row.value))
        assert (row.topic, key, value) == (topic, record.key(), record.value())
        headers = [(each["key"], None if each["value"] is None else bytes(each["value"])) for each in row.headers or []]
        assert headers == list(record.headers() or [])
        assert (row.timestampType, round(row.timestamp.timestamp() * 1000)) == (0, record.timestamp()[1])
    of_topic = make_context(dataclasses.replace(settings, data_dir=settings.data_dir + "-of-topic"))
    silver.run(of_topic)
    dead = letters(of_topic)
    ids = {row.event_id for row in table(spark, of_topic.settings)}
    admin.delete_topics([topic])[topic].result(30)
    again = make_context(
        dataclasses.replace(
            settings,
            data_dir=settings.data_dir + "-again",
            from_bronze=bronze.table_path(settings),
            dead_letter_topic=f"{topic}.again",
        )
    )
    assert silver.run(again)["rows"] == len(sent)
    assert letters(again) == dead
    assert {row.event_id for row in table(spark, again.settings)} == ids
    assert silver.run(again)["rows"] == 0


def test_a_batch_that_is_repeated(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession,
) -> None:  # fmt: skip
    """A batch that comes again, as the job ended right after writing it, does not change the table."""
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(n) for n in range(30)])
    kind = parts.KINDS[settings.table_format]
    with plug_pulled(kind, "append", after=kind.append):
        bronze.run(make_context(settings))
    own = dataclasses.replace(settings, from_bronze=bronze.table_path(settings))
    assert silver.run(make_context(own))["rows"] == 30
    put(settings.bronze_topic, [event(30)])
    assert bronze.run(make_context(settings))["batches"] == 2
    assert len(records_of(spark, settings)) == 31
    assert silver.run(make_context(own))["rows"] == 1


def test_whose_the_tables_are(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, tmp_path: Path
) -> None:
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1)])
    own = dataclasses.replace(settings, from_bronze=bronze.table_path(settings))
    with pytest.raises(UnknownTopic, match="there is no table of the job bronze in "):
        silver.run(make_context(own))
    bronze.run(make_context(settings))
    silver.run(make_context(own))
    with pytest.raises(CheckpointError, match="is of topic 'of the table "):
        silver.run(make_context(settings))
    (tmp_path / "data" / "checkpoints" / "bronze").rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="was written with another checkpoint"):
        bronze.run(make_context(settings))


def test_killed_while_the_first_batch_is_planned(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any
) -> None:
    """A job that was killed with an unfinished file and no batch in its checkpoint can start again."""
    settings = make_settings()
    put(make_topic(settings.bronze_topic), [event(1)])

    def plan(*_: Any, **__: Any) -> None:
        offsets = Path(settings.path("checkpoints/bronze/offsets"))
        offsets.mkdir()
        (offsets / ".0.e48aad6e-d19b-46b9-a54f-f85e81980f04.tmp").touch()

    with plug_pulled(bronze, "run_stream", after=plan):
        bronze.run(make_context(settings))
    assert bronze.run(make_context(settings))["rows"] == 1


def test_killed_again_and_again(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, spark: SparkSession, eventually: Any, slow: bool
) -> None:
    """After bronze and silver were killed in turn, tables and dead letters are those that plain Python makes."""
    own = dataclasses.replace(settings, events=4000, late_share=0.05, broken_share=0.03, from_bronze="")
    topic = make_topic(own.bronze_topic, 2)
    lines = list(Generator(own).lines())
    put(topic, [{"value": line.encode(), "partition": n % 2} for n, line in enumerate(lines)])
    draw, data = random.Random(len(lines)), Path(own.data_dir)
    kinds = {"table_format": own.table_format}
    for _ in range(4 if slow else 1):
        job = start("bronze", own, **kinds)
        kill_at_random(job, own, draw, [lambda: commits(data / "bronze")], eventually)
    assert len(records_of(spark, own)) < len(lines)  # otherwise the kills proved little
    bronze.run(make_context(dataclasses.replace(own, max_offsets_per_trigger=500)))  # so silver has batches left
    assert len(records_of(spark, own)) == len(lines)
    own = dataclasses.replace(own, from_bronze=bronze.table_path(own))
    for _ in range(4 if slow else 1):
        job = start("silver", own, **kinds, from_bronze=own.from_bronze, max_files_per_trigger=1)
        kill_at_random(job, own, draw, [lambda: commits(data / "silver")], eventually)
    context = make_context(own)
    assert silver.run(context)["rows"] > 0
    ends = {"end_offsets": {topic: {"0": len(lines), "1": len(lines)}}}
    wanted = reference.expected(context.kafka.read_all(topic), [ends], own)
    rows = table(spark, own)
    assert sorted(row.event_id for row in rows) == sorted(wanted.accepted)
    assert letters(context) == sorted(wanted.rejected)


def test_a_format_that_this_pyspark_does_not_have(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(tables, "PYSPARK_VERSION", "4.3.0")
    for job in ("bronze", "silver", "aggregate", "sessions", "replay", "compacted", "compact"):
        for name, works in (("delta", "4.2"), ("iceberg", "3.5 or 4.0")):
            assert main([job, "--table-format", name, "--data-dir", str(tmp_path / "data")]) == 2
            words = (
                f"{job}: table_format {name} needs PySpark {works}: no released runtime of {name.capitalize()} works"
            )
            assert f"{words} with 4.3.0, which is installed" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_table_keeps_its_format(make_settings: Any, make_context: Any, make_topic: Any) -> None:
    settings = make_settings()
    make_topic(settings.bronze_topic)
    Path(bronze.table_path(settings), "_delta_log").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="is delta, and table_format is parquet"):
        bronze.run(make_context(settings))
