"""Bronze to silver: what becomes of every record, also when the job is interrupted, resumed, and given another
schema."""

import dataclasses
import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipeline import aggregate, journal, reference, report, silver, tables
from pipeline.context import Context
from pipeline.errors import CheckpointError, SchemaError, SettingsError
from pipeline.events import EMPTY, NOT_OF_SCHEMA, NOT_TEXT
from pipeline.files import Files
from pipeline.generate import Generator
from pipeline.ledger import Ledger
from pipeline.settings import EVENT_SCHEMA, Settings
from tests.plug import plug_pulled

pytestmark = pytest.mark.spark
HEADERS = [("trace", b"\xff"), ("pipeline-id", b"of the ingest")]


def table(spark: SparkSession, settings: Settings) -> list[Any]:
    return spark.read.option("mergeSchema", "true").parquet(silver.table_path(settings)).collect()


def ids(spark: SparkSession, settings: Settings) -> list[str]:
    return sorted(row.event_id for row in table(spark, settings))


def letters(context: Context) -> dict[tuple[int, int], str]:
    """Reasons by the place that a dead letter came from; a letter that is there twice fails the test."""
    records = context.kafka.read_all(context.settings.dead_letter_topic)
    found = {}
    for record in records:
        headers = {name: value.decode(errors="replace") for name, value in record.headers()}
        assert headers["source-topic"] == context.settings.bronze_topic
        found[int(headers["source-partition"]), int(headers["source-offset"])] = headers["reason"]
    assert len(found) == len(records)
    return found


def test_every_record_has_its_place(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, spark: SparkSession
) -> None:
    settings = make_settings(
        events=1500, late_share=0.05, broken_share=0.03, max_offsets_per_trigger=500, watermark="10 minutes"
    )
    make_topic(settings.bronze_topic, 2)
    lines = list(Generator(settings).lines())
    put(settings.bronze_topic, [{"value": line.encode(), "partition": n % 2} for n, line in enumerate(lines)])
    context = make_context(settings)
    done = silver.run(context)
    wanted = reference.expected(context.kafka.read_all(settings.bronze_topic), done["batches_metrics"], settings)
    assert wanted.late > 10
    assert wanted.duplicates > 5
    assert ids(spark, settings) == sorted(wanted.accepted)
    assert letters(context).keys() == wanted.rejected
    counts = (done["rows"], done["accepted"], done["rejected"], done["late"], done["duplicates"])
    assert counts == (len(lines), len(wanted.accepted), len(wanted.rejected), wanted.late, wanted.duplicates)
    row = table(spark, settings)[0]
    assert row.date.isoformat() == wanted.accepted[row.event_id]["event_time"][:10]
    assert row.amount == wanted.accepted[row.event_id]["amount"]


def test_reasons(
    make_context: Any, settings: Settings, make_topic: Any, put: Any, event: Any, spark: SparkSession
) -> None:
    make_topic(settings.bronze_topic)
    refused = {
        b"": EMPTY,
        b"[1]": NOT_OF_SCHEMA,
        b"{": NOT_OF_SCHEMA,
        event(1, amount="much"): NOT_OF_SCHEMA,
        b'"text"': NOT_OF_SCHEMA,
        b"null": NOT_OF_SCHEMA,
        b'{"event_time": "2024-05-01T00:00:00Z"}': "no event_id",
        b'{"event_id": "x"}': "no event_time",
        # more than one object, or something else beside it
        event(2) + event(3): NOT_OF_SCHEMA,
        event(2) + b"\n" + event(3): NOT_OF_SCHEMA,
        event(2) + b"," + event(3): NOT_OF_SCHEMA,
        event(2) + b" and words": NOT_OF_SCHEMA,
        event(2) + b',"more":1': NOT_OF_SCHEMA,
        event(2) + b"}": NOT_OF_SCHEMA,
        event(2) + b"]": NOT_OF_SCHEMA,
        b"[" + event(2) + b"]": NOT_OF_SCHEMA,
        # what closes the array that the parser sees, and begins it again
        event(2) + b'],"_record":[' + event(3): NOT_OF_SCHEMA,
        b'],"_record":[' + event(2): NOT_OF_SCHEMA,
        b"]": NOT_OF_SCHEMA,
        event(2) + b'],"more":[' + event(3): NOT_OF_SCHEMA,
        # what is no text
        b"\xff\xfe": NOT_TEXT,
        event(2).replace(b"e2", b"e\xff2"): NOT_TEXT,
        event(2, product="p").replace(b'"p"', b'"\xc3("'): NOT_TEXT,
        event(2, product="half of a pair: \ud83d"): NOT_TEXT,
        # times of another unit, or of a clock that is wrong
        event(2, event_time="2999-01-01T00:00:00Z"): "event_time is more than 1 day after the record's timestamp",
        event(2, event_time=1714521600000): "event_time is more than 1 day after the record's timestamp",
        event(2, event_time=1714521600000000): "event_time is more than 18250 days before the record's timestamp",
        event(2, event_time=1714521): "event_time is more than 18250 days before the record's timestamp",
    }
    taken = [event(4, amount=1.5, more="than the schema knows"), b" " + event(5) + b"\n", event(6, product="\\\\ud83d")]
    taken += [event(7, product="\U0001f511"), event(8, event_time=1714521600)]
    values = [taken[0], *refused, *taken[1:], None]
    put(settings.bronze_topic, [{"key": b"k", "value": value, "headers": HEADERS} for value in values])
    context = make_context(settings)
    done = silver.run(context)
    assert ids(spark, settings) == ["e4", "e5", "e6", "e7", "e8"]
    assert letters(context) == {
        (0, offset): refused[value or b""] for offset, value in enumerate(values) if value not in taken
    }
    records = context.kafka.read_all(settings.dead_letter_topic)
    for record in records:  # its own headers come first; the id of the record that was read stays behind
        names = ["trace", "reason", "source-topic", "source-partition", "source-offset", "pipeline-id"]
        assert [name for name, _ in record.headers()] == names
        place = f"{settings.bronze_topic}/0/{dict(record.headers())['source-offset'].decode()}"
        assert (record.headers()[0][1], record.headers()[-1][1]) == (b"\xff", place.encode())
    assert {(record.key(), record.value()) for record in records} == {(b"k", value) for value in (*refused, None)}
    wanted = reference.expected(context.kafka.read_all(settings.bronze_topic), done["batches_metrics"], settings)
    untyped = {values.index(event(1, amount="much"))}  # plain Python has no schema
    assert {offset for _, offset in wanted.rejected} == {offset for _, offset in letters(context)} - untyped


def test_what_a_column_makes_of_a_value(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, spark: SparkSession
) -> None:
    """Values that fit a column less than exactly, as README tells; the others are refused."""
    columns = "event_id STRING, event_time TIMESTAMP, price DECIMAL(6,2), weight DOUBLE"
    settings = make_settings(schema=columns)
    make_topic(settings.bronze_topic)
    begin = b'{"event_time":"2024-05-01T12:00:00'
    values = [
        begin + b'.1234569Z","event_id":"e1","price":1.005,"weight":1e400}',
        begin + b'","event_id":17,"price":"-2.345"}',
        begin + b'+05:30","event_id":"x","event_id":"e3","price":9999.994}',
        begin + b'Z","event_id":"e4","price":9999.995}',
    ]
    put(settings.bronze_topic, [{"value": value} for value in values])
    context = make_context(settings)
    silver.run(context)
    text = "date_format(event_time, 'dd HH:mm:ss.SSSSSS') at"
    rows = spark.read.parquet(silver.table_path(settings)).selectExpr("event_id", text, "price", "weight")
    assert sorted((row.event_id, row.at, str(row.price), row.weight) for row in rows.collect()) == [
        ("17", "01 12:00:00.000000", "-2.35", None),
        ("e1", "01 12:00:00.123456", "1.01", float("inf")),
        ("e3", "01 06:30:00.000000", "9999.99", None),
    ]
    assert letters(context) == {(0, 3): NOT_OF_SCHEMA}


@pytest.mark.parametrize(("owner", "step"), [(Ledger, "add"), (silver.Silver, "_write_dead_letters")])
def test_a_batch_that_is_repeated(
    owner: Any, step: str, settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any,
    spark: SparkSession,
) -> None:  # fmt: skip
    """The job ends right after a step of its batch; the next run does the batch again."""
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(n) if n % 3 else b"broken" for n in range(30)])
    context = make_context(settings)
    with plug_pulled(owner, step, after=getattr(owner, step)):
        silver.run(context)
    put(settings.bronze_topic, [event(100), b"broken too"])
    silver.run(context)
    assert ids(spark, settings) == sorted([f"e{n}" for n in range(30) if n % 3] + ["e100"])
    assert letters(context).keys() == {(0, n) for n in (*range(0, 30, 3), 31)}


def test_the_schema_gets_a_column(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession
) -> None:
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1, score=7)])
    silver.run(make_context(settings))
    put(settings.bronze_topic, [event(2, score=8), event(1)])  # the second is known from before
    wider = dataclasses.replace(settings, schema=EVENT_SCHEMA + ", score INT")
    silver.run(make_context(wider))
    assert {row.event_id: row.score for row in table(spark, wider)} == {"e1": None, "e2": 8}
    for column, words in (
        ("score STRING", "column score is string in the schema, and score is int in the table"),
        ("Score STRING", "column Score is string in the schema, and score is int in the table"),
        ("Score INT", "column Score is int in the schema, and score is int in the table"),
        ("Amount INT", "schema has the columns amount, Amount, and Spark knows no upper and lower case"),
    ):
        with pytest.raises(SchemaError, match=words):
            silver.run(make_context(dataclasses.replace(settings, schema=f"{EVENT_SCHEMA}, {column}")))


def test_a_table_whose_files_are_swapped_while_its_schema_is_read(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A stream that began beside a compaction ended: a file was listed, and gone before its footer was read."""
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(1)])
    silver.run(make_context(settings))
    read, tries = tables.read, []

    def read_late(*arguments: Any) -> Any:
        tries.append(arguments)
        if len(tries) == 1:
            journal.swap(Files(spark), silver.table_path(settings), "day", {}, [])
            raise PySparkException("a footer can't be read")
        return read(*arguments)

    monkeypatch.setattr(tables, "read", read_late)
    put(settings.bronze_topic, [event(2)])
    assert silver.run(make_context(settings))["accepted"] == 1


def test_names_that_are_taken(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, spark: SparkSession, tmp_path: Path
) -> None:
    schema = "day TIMESTAMP, date INT, event_id STRING"
    settings = make_settings(schema=schema, time_column="day")
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [b'{"day": "2024-05-01T10:00:00Z", "date": 7, "event_id": "a"}'])
    for changes, name in (
        ({}, "date"),
        ({"schema": f"{schema}, _Offset INT"}, "_Offset"),
        ({"date_column": "Day"}, "day"),
    ):
        with pytest.raises(SchemaError, match=f"schema has a column {name}, a name that "):
            silver.run(make_context(dataclasses.replace(settings, **changes)))
    assert not (tmp_path / "data").exists()
    silver.run(make_context(dataclasses.replace(settings, date_column="on")))
    row = spark.read.parquet(silver.table_path(settings)).collect()[0]
    assert (row.date, row.on.isoformat()) == (7, "2024-05-01")


def test_only_committed_records(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession
) -> None:
    make_topic(settings.bronze_topic)
    config = {"bootstrap.servers": settings.bootstrap_servers, "transactional.id": settings.bronze_topic}
    producer = Producer({**config, "log_level": 0})
    producer.init_transactions(30)
    for numbers, end in ((range(5), producer.commit_transaction), (range(5, 9), producer.abort_transaction)):
        producer.begin_transaction()
        for number in numbers:
            producer.produce(settings.bronze_topic, event(number))
        producer.flush(30)
        end(30)
    context = make_context(dataclasses.replace(settings, group=f"{settings.bronze_topic}-group"))
    silver.run(context)
    assert ids(spark, settings) == [f"e{n}" for n in range(5)]
    # The group is at the very end, markers of the transactions included: lag tools see none.
    assert context.kafka.committed(context.settings.group, settings.bronze_topic) == {0: 11}


def test_whose_the_checkpoint_and_the_table_are(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, event: Any, tmp_path: Path
) -> None:
    make_topic(settings.bronze_topic)
    make_topic(settings.bronze_topic + "-other")
    put(settings.bronze_topic, [event(1)])
    silver.run(make_context(settings))
    other = dataclasses.replace(settings, bronze_topic=settings.bronze_topic + "-other")
    with pytest.raises(CheckpointError, match=r"is of topic 'silver-whose-the-.*', and this is topic '.*-other'"):
        silver.run(make_context(other))
    checkpoint = tmp_path / "data" / "checkpoints" / "silver"
    (checkpoint / "pipeline.json").rename(checkpoint / "hidden.json")
    with pytest.raises(CheckpointError, match="was not made by this pipeline"):
        silver.run(make_context(settings))
    checkpoint.rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="was written with another checkpoint"):
        silver.run(make_context(settings))
    assert not checkpoint.exists()  # so that the old one can be brought back


def test_a_dead_letter_fits(settings: Settings, make_context: Any, make_topic: Any, make_settings: Any) -> None:
    """A dead letter is cut to fit beside the added headers, which tell the length and the digest of the original."""
    topic, dead = make_topic(settings.bronze_topic), make_topic(settings.dead_letter_topic, max_message_bytes="200000")
    headers = [("h" * 100, b"v" * 100)] * 400
    records: list[dict[str, Any]] = [
        {"key": b"k", "value": b"{" * 1_048_400},
        {"key": b"k" * 300_000, "value": b"{"},
        {"key": b"k", "value": b"{" * 500, "headers": headers[:200]},
        {"key": b"k", "value": b"{" * 300_000, "headers": headers},
        {"key": b"k" * 400_000, "value": b"{" * 300_000, "headers": headers},
        {"value": None, "headers": [("", None)] * 30_000},
        {"key": b"k", "value": b"{" * 195_000, "headers": [("h", "ü".encode())]},
    ]
    limits = {"message.max.bytes": 1_100_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers, **limits})
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(30) == 0
    context = make_context(settings)
    assert silver.run(context)["rejected"] == len(records)
    found = {int(dict(letter.headers())["source-offset"]): letter for letter in context.kafka.read_all(dead)}
    assert found.keys() == set(range(len(records)))
    cut = {
        offset: {name.split("-")[1] for name, _ in letter.headers() if name.endswith("-sha256")}
        for offset, letter in found.items()
    }
    assert cut == {0: {"value"}, 1: {"key"}, 2: set(), 3: {"value", "headers"}, 4: {"key", "value", "headers"},
                   5: {"headers"}, 6: set()}  # fmt: skip
    for offset, letter in found.items():
        record, own = records[offset], dict(letter.headers())
        parts: list[tuple[str, Any]] = [("key", letter.key()), ("value", letter.value())]
        for name, got in parts:
            whole: Any = record.get(name)
            if name not in cut[offset]:
                assert got == whole
                continue
            assert got == whole[: len(got)]
            assert len(got) > 40_000
            assert own[f"source-{name}-length"].decode() == str(len(whole))
            assert own[f"source-{name}-sha256"].decode() == hashlib.sha256(whole).hexdigest()
        if "headers" in cut[offset]:
            joined = b"".join(name.encode() + (value or b"") for name, value in record["headers"])
            assert own["source-headers-sha256"].decode() == hashlib.sha256(joined).hexdigest()
            assert letter.headers()[0][0] == "reason"
    assert silver.run(context)["rows"] == 0
    make_topic(f"{dead}-small", max_message_bytes="1000")
    small = make_settings(dead_letter_topic=f"{dead}-small", bronze_topic=topic, data_dir=settings.data_dir + "-small")
    with pytest.raises(SettingsError, match=r"max.message.bytes of topic .* is 1000, and a dead letter needs 6296"):
        silver.run(make_context(small))
    assert not Path(small.data_dir).exists()


def test_a_topic_that_was_made_anew_has_letters_of_its_own(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, admin: AdminClient, tmp_path: Path
) -> None:
    """The topic of dead letters knows records by topic, partition and offset, which another topic's may have, too."""
    settings = make_settings()
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [b"old"])
    silver.run(make_context(settings))
    admin.delete_topics([settings.bronze_topic])[settings.bronze_topic].result(30)
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [b"new"])
    context = make_context(dataclasses.replace(settings, data_dir=str(tmp_path / "another")))
    assert silver.run(context)["rejected"] == 1
    assert [record.value() for record in context.kafka.read_all(settings.dead_letter_topic)] == [b"old", b"new"]


def test_a_step_may_give_a_column_another_type(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Refused records have the columns of the schema, and say nothing of the table's."""
    steps = ModuleType("typed_steps")
    types = {"amount": F.col("amount").cast("int"), "kind": F.array("kind")}
    vars(steps)["typed"] = lambda frame: frame.withColumns(types)
    monkeypatch.setitem(sys.modules, "typed_steps", steps)
    settings = make_settings(transform="typed_steps:typed")
    make_topic(settings.bronze_topic)
    for number in range(2):
        put(settings.bronze_topic, [event(number, amount=1.5, kind="view"), b"broken"])
        for job in (silver, aggregate):
            assert job.run(make_context(settings))["rejected"] == 1
    assert report.read_windows(settings) == [("2024-05-01T00:00:00Z", "de", 2, 2.0)]
    assert [(row.amount, row.kind) for row in table(spark, settings)] == [(1, ["view"])] * 2


def test_the_first_and_the_last_day(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession, table_format: str
) -> None:
    """Settings that allow any time let ids be looked for around days without a day before or after them."""
    settings = make_settings(max_behind="1000000 days", max_ahead="4000000 days", table_format=table_format)
    make_topic(settings.bronze_topic)
    times = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "+10000-01-01T00:00:00Z", "0000-12-31T23:59:59Z"]
    for number in (0, 10):
        put(settings.bronze_topic, [event(number + n, event_time=time) for n, time in enumerate(times)])
        put(settings.bronze_topic, [event(0, event_time=times[0])])
        done = silver.run(make_context(settings))
        assert (done["accepted"], done["rejected"]) == (2, 2)
    found = tables.read(spark, silver.table_path(settings)).select("event_id").collect()
    assert sorted(row.event_id for row in found) == ["e0", "e1", "e10", "e11"]
    letters = make_context(settings).kafka.read_all(settings.dead_letter_topic)
    reasons = {dict(letter.headers())["reason"] for letter in letters}
    assert reasons == {b"event_time is outside the years 1 to 9999"}
