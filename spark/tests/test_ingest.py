"""Files to a topic: formats, partitions, order, and runs that are repeated."""

import csv
import dataclasses
import json
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kafka.partitioner.default import murmur2
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipeline import aggregate, ingest, reference, report, topics
from pipeline.errors import SchemaError, SettingsError
from pipeline.generate import Generator
from pipeline.kafka import Kafka
from pipeline.runner import in_words
from pipeline.settings import Settings

DAYS = 366

pytestmark = pytest.mark.spark


def lines_of(settings: Settings, folder: Path) -> list[str]:
    lines = list(Generator(settings).lines())
    (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return lines


def records(settings: Settings) -> list[Any]:
    return Kafka(settings).read_all(settings.bronze_topic)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a.jsonl", "jsonl"),
        ("lake/A.NDJSON.gz", "jsonl"),
        ("s3a://lake/a.csv.bz2", "csv"),
        ("dt=1/a.parquet", "parquet"),
    ],
)
def test_the_ending_tells_the_format(name: str, wanted: str) -> None:
    assert ingest.format_of(Settings(input=name)) == wanted


def test_lines_travel_as_they_are(make_settings: Any, make_context: Any, tmp_path: Path) -> None:
    settings = make_settings(events=300, input=str(tmp_path / "events.jsonl"), broken_share=0.05)
    lines = lines_of(settings, tmp_path)
    assert ingest.run(make_context(settings))["written"] == len(lines)
    found = records(settings)
    assert sorted(record.value().decode() for record in found) == sorted(lines)
    for record in found:
        assert dict(record.headers())["source"] == b"events.jsonl"
        if record.key() is not None:  # where every Java client puts this key
            assert record.partition() == (murmur2(record.key()) & 0x7FFFFFFF) % 3
    order = {line: number for number, line in reversed(list(enumerate(lines)))}
    for partition in range(3):
        ids = [order[r.value().decode()] for r in found if r.partition() == partition and r.key() is not None]
        assert sum(later < earlier for earlier, later in pairwise(ids)) <= 10  # the duplicates


def test_a_second_run_adds_nothing_and_a_crashed_one_is_completed(
    make_settings: Any, make_context: Any, tmp_path: Path, spark: SparkSession
) -> None:
    settings = make_settings(events=200, input=str(tmp_path / "events.jsonl"))
    lines = lines_of(settings, tmp_path)
    context = make_context(settings)
    rows = ingest.with_ids(ingest.read_files(context)).withColumn(
        "headers", F.array(topics.header("source", F.lit("x")))
    )
    context.kafka.ensure_topic(settings.bronze_topic)
    half = topics.with_id_header(rows.where("crc32(id) % 2 = 0").select("key", "value", "headers", "id"), "id")
    topics.append(half, settings, settings.bronze_topic)  # what a run leaves that is killed in between
    first = ingest.run(context)
    assert 0 < first["written"] < len(lines)
    assert ingest.run(context)["written"] == 0
    assert sorted(record.value().decode() for record in records(settings)) == sorted(lines)


def test_a_topic_with_records_of_others(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, tmp_path: Path
) -> None:
    """Records with headers and without our id, as any traced producer writes them, are no obstacle to a run."""
    settings = make_settings(events=20, input=str(tmp_path / "events.jsonl"))
    lines = lines_of(settings, tmp_path)
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [{"value": b"theirs", "headers": {"traceparent": b"00-1"}}, {"value": b"plain"}])
    assert ingest.run(make_context(settings))["written"] == len(lines)
    assert ingest.run(make_context(settings))["written"] == 0


def test_keys_go_where_kafkas_own_producer_puts_them(
    make_settings: Any, make_context: Any, make_topic: Any, tmp_path: Path, spark: SparkSession
) -> None:
    """Spark and the driver put each key into the partition that the code of Kafka's Java clients computes."""
    keys = [
        *("k" * length for length in range(1, 10)),
        "ключ",
        "キー",
        "🔑",
        "user-1",
        "-1",
        *map(str, range(100, 160)),
    ]
    (tmp_path / "keys.jsonl").write_text("".join(json.dumps({"user_id": key}) + "\n" for key in keys))
    settings = make_settings(input=str(tmp_path / "keys.jsonl"))
    context = make_context(settings)
    make_topic(settings.bronze_topic, 7)
    ours = make_topic(f"{settings.bronze_topic}.driver", 7)
    ingest.run(context)
    producer = context.kafka.producer()
    for key in keys:
        producer.produce(ours, b"value", key=key.encode())
    assert producer.flush(30) == 0
    java: Any = spark._jvm
    where = java.org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey
    wanted = {key.encode(): where(bytearray(key.encode()), 7) for key in keys}
    assert len(set(wanted.values())) == 7
    for topic in (settings.bronze_topic, ours):
        assert {record.key(): record.partition() for record in context.kafka.read_all(topic)} == wanted


def test_real_data(make_settings: Any, make_context: Any, tmp_path: Path) -> None:
    """A year of Seattle's weather is ingested from a CSV file of the package vega_datasets; a day's id is its date.

    The package has four years; each day is a folder of the ledger.
    """
    package = find_spec("vega_datasets")
    assert package is not None
    assert package.submodule_search_locations is not None
    whole = Path(package.submodule_search_locations[0]) / "_data" / "seattle-weather.csv"
    file = tmp_path / whole.name
    file.write_text("".join(whole.read_text().splitlines(keepends=True)[: 1 + DAYS]))
    settings = make_settings(
        input=str(file), key_column="weather", schema="date TIMESTAMP, weather STRING, temp_max DOUBLE, wind DOUBLE",
        id_column="date", time_column="date", group_column="weather", value_column="wind", window="28 days",
        input_time_format="yyyy/MM/dd",
    )  # fmt: skip
    assert ingest.run(make_context(settings))["written"] == DAYS
    found = {(r.key().decode(), e["date"][:10]): e for r in records(settings) if (e := json.loads(r.value()))}
    with file.open() as rows:
        for row in csv.DictReader(rows):
            event = found[row["weather"], row["date"].replace("/", "-")]
            assert (event["temp_max"], event["wind"]) == (float(row["temp_max"]), float(row["wind"]))
            assert event["precipitation"] == row["precipitation"]  # the schema does not name it: text
    assert len(found) == DAYS
    done = aggregate.run(make_context(settings))
    wanted = reference.expected(records(settings), done["batches_metrics"], settings)
    assert len(wanted.accepted) == done["accepted"] == DAYS
    windows = reference.windows(wanted.accepted.values(), settings)
    assert {row[:2]: row[2:] for row in report.read_windows(settings)} == windows


def test_parquet(make_settings: Any, make_context: Any, tmp_path: Path, spark: SparkSession) -> None:
    path = str(tmp_path / "events.parquet")
    spark.range(10).selectExpr("id", "CONCAT('u', id % 2) AS user_id", "NAMED_STRUCT('a', id) AS deep").write.parquet(
        path
    )
    settings = make_settings(input=path)
    assert ingest.run(make_context(settings))["written"] == 10
    values = [json.loads(record.value()) for record in records(settings)]
    assert sorted(value["deep"]["a"] for value in values) == list(range(10))


def test_times_keep_their_microseconds(
    make_settings: Any, make_context: Any, tmp_path: Path, spark: SparkSession
) -> None:
    """Two events of the same millisecond had one time, and one id where the time is the id. Times that are whole
    milliseconds are written as ever, as the ids of records are made of their texts."""
    path = str(tmp_path / "events.parquet")
    times = ["2024-05-01 00:00:00.123456", "1950-05-01 00:00:00.000001", "2300-05-01 00:00:00.5"]
    rows = spark.createDataFrame([("u", time) for time in times], "user_id STRING, time STRING")
    deep = "NAMED_STRUCT('at', CAST(time AS TIMESTAMP_NTZ)) AS deep"
    rows.selectExpr("user_id", "CAST(time AS TIMESTAMP) AS at", deep).write.parquet(path)
    settings = make_settings(input=path)
    ingest.run(make_context(settings))
    found = [json.loads(record.value()) for record in records(settings)]
    wanted = ["2024-05-01T00:00:00.123456", "1950-05-01T00:00:00.000001", "2300-05-01T00:00:00.500"]
    assert sorted(value["at"] for value in found) == sorted(f"{time}Z" for time in wanted)
    assert sorted(value["deep"]["at"] for value in found) == sorted(wanted)


def test_files_that_differ(make_settings: Any, make_context: Any, tmp_path: Path, spark: SparkSession) -> None:
    """Parquet files of a folder may have columns that others lack, CSV files may not; a broken line writes nothing."""
    path = str(tmp_path / "events.parquet")
    spark.range(2).selectExpr("'u' AS user_id", "id").write.parquet(path)
    spark.range(2).selectExpr("'u' AS user_id", "id AS more").write.mode("append").parquet(path)
    settings = make_settings(input=path)
    assert ingest.run(make_context(settings))["written"] == 4
    assert sorted(record.value() for record in records(settings)) == [
        b'{"user_id":"u","id":0}', b'{"user_id":"u","id":1}', b'{"user_id":"u","more":0}', b'{"user_id":"u","more":1}',
    ]  # fmt: skip
    folder = tmp_path / "csv"
    folder.mkdir()
    (folder / "1.csv").write_text("user_id,amount\nu1,1.5\n")
    (folder / "2.csv").write_text("user_id,amount\nu2,2.5\n")
    tables = make_settings(input=str(folder), input_format="csv", bronze_topic=f"{settings.bronze_topic}-csv")
    assert [ingest.run(make_context(tables))["written"] for _ in range(2)] == [2, 0]
    found = {(r.key(), r.value(), dict(r.headers())["source"]) for r in records(tables)}
    assert found == {
        (b"u1", b'{"user_id":"u1","amount":1.5}', b"1.csv"),
        (b"u2", b'{"user_id":"u2","amount":2.5}', b"2.csv"),
    }
    for text in ("amount,user_id\n3.5,u3\n", "user_id,amount\nu3,much\n"):
        (folder / "3.csv").write_text(text)
        with pytest.raises((PySparkException, Py4JJavaError)) as refused:
            ingest.run(make_context(tables))
        assert isinstance(in_words(refused.value), SchemaError), refused.value
    assert len(records(tables)) == 2


def test_folders_with_the_same_names_and_lines(make_settings: Any, make_context: Any, tmp_path: Path) -> None:
    """Files of the same name in folders, as of Hive's tables, are all read, and not again if the whole folder moves."""
    lines = "".join(json.dumps({"user_id": f"u{n}", "line": n}) + "\n" for n in range(10))
    folder = tmp_path / "in put"
    for name in ("dt=1/part-00000", "dt=2/part-00000", "2024/05/part-00000", "part-00000"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(lines)
    settings = make_settings(input=str(folder), input_format="jsonl")
    assert ingest.run(make_context(settings))["written"] == 40
    sources = {dict(record.headers())["source"] for record in records(settings)}
    assert sources == {b"dt=1/part-00000", b"dt=2/part-00000", b"2024/05/part-00000", b"part-00000"}
    folder.rename(tmp_path / "elsewhere")
    for path in (tmp_path / "elsewhere", tmp_path / "elsewhere" / "dt=*", tmp_path / "else*" / "dt=1"):
        moved = dataclasses.replace(settings, input=str(path))
        assert ingest.run(make_context(moved))["written"] == (0 if "*" not in str(path.parent) else 10)


def test_a_record_of_somebody_else_is_no_reason_to_leave_out_ours(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, tmp_path: Path
) -> None:
    settings = make_settings(events=20, broken_share=0, duplicate_share=0, input=str(tmp_path / "events.jsonl"))
    lines = lines_of(settings, tmp_path)
    make_topic(settings.bronze_topic, 3)
    put(settings.bronze_topic, [lines[0].encode()])
    assert ingest.run(make_context(settings))["written"] == 20


def test_bad_input(make_settings: Any, make_context: Any, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="input is not set"):
        ingest.run(make_context(make_settings()))
    with pytest.raises(
        SettingsError, match="has no ending that tells its format; set input_format to one of jsonl, csv, parquet"
    ):
        ingest.run(make_context(make_settings(input=str(tmp_path))))
    with pytest.raises(SettingsError, match="can't be read"):
        ingest.run(make_context(make_settings(input=str(tmp_path / "none.jsonl"))))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    settings = make_settings(input=str(tmp_path / "a.csv"))
    with pytest.raises(SchemaError, match="no column user_id, which key_column names; it has a, b"):
        ingest.run(make_context(settings))
    kafka = make_context(settings).kafka
    assert settings.bronze_topic not in kafka._metadata().topics  # nothing half-made


def test_values_of_csv_in_quotes(make_settings: Any, make_context: Any, tmp_path: Path) -> None:
    """A line in the middle of a value may look like a row of its own."""
    notes = ["a\nb,c", "\n\n", "plain", 'say "hi", now', '"', '",', "a,C:\\", '{"k": "v"}', 'C:\\"\n"']
    wanted = [[f"u{number}", note] for number, note in enumerate(notes)]
    for name in ("1.csv", "2.csv"):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([["user_id", "note"], *wanted])
    settings = make_settings(input=str(tmp_path), input_format="csv", topic_partitions=1)
    assert ingest.run(make_context(settings))["written"] == 2 * len(wanted)
    found = [(dict(r.headers())["source"], json.loads(r.value())) for r in records(settings)]
    for source in (b"1.csv", b"2.csv"):
        assert [[row["user_id"], row["note"]] for file_name, row in found if file_name == source] == wanted
    (tmp_path / "empty.csv").touch()
    empty = dataclasses.replace(settings, input=str(tmp_path / "empty.csv"))
    with pytest.raises(SettingsError, match=r"empty\.csv has no line that names its columns"):
        ingest.run(make_context(empty))
    assert ingest.run(make_context(settings))["written"] == 0
