"""Values of Protobuf, each read with the file of schemas that it was written with."""

import base64
import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from pyspark.sql import SparkSession

from pipeline import protobuf, silver
from pipeline.decoding import NOT_FRAMED
from pipeline.errors import BrokerUnreachable
from pipeline.registry import RegisteredSchema
from pipeline.settings import Settings
from tests import registered
from tests.registered import framed, register

pytestmark = pytest.mark.spark
EVENT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "place.proto";
message Other { string text = 1; }
message Event {
  enum Country { de = 0; fr = 1; }
  message Line { int64 pieces = 1; }
  string event_id = 1;
  google.protobuf.Timestamp event_time = 2;
  optional string user_id = 3;
  Country country = 4;
  double amount = 5;
  google.protobuf.Int64Value big = 6;
  repeated Line lines = 7;
  map<string, int64> counts = 8;
  Place place = 9;
  bytes raw = 10;
%s}
"""
PLACE = 'syntax = "proto3";\npackage shop;\nmessage Place { string street = 1; }\n'
VERSION_1, VERSION_2 = EVENT % "", EVENT % "  string channel = 11;\n"
BIG = 2**53 + 1


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with registered.registry() as found:
        yield found


@pytest.fixture
def settings(make_settings: Any, url: str) -> Settings:
    ddl = (
        "event_id STRING, event_time TIMESTAMP, user_id STRING, country STRING, amount DOUBLE, big BIGINT, "
        "lines ARRAY<STRUCT<pieces: BIGINT>>, counts MAP<STRING, BIGINT>, place STRUCT<street: STRING>, raw BINARY"
    )
    made: Settings = make_settings(value_format="protobuf", schema_registry=url, schema=ddl)
    return made


def files(url: str, topic: str) -> tuple[int, int]:
    """Register the files of schemas, and return the ids of both versions."""
    return registered_file(url, topic, VERSION_1), registered_file(url, topic, VERSION_2)


def registered_file(url: str, topic: str, text: str) -> int:
    """Register a file that imports another one; return its id."""
    register(url, f"{topic}-place", PLACE, schemaType="PROTOBUF")
    references = [{"name": "place.proto", "subject": f"{topic}-place", "version": 1}]
    return register(url, topic, text, schemaType="PROTOBUF", references=references)


def message(number: int, **more: Any) -> Any:
    """Return an event of version 2, made with descriptors of this test's own."""
    pool = descriptor_pool.DescriptorPool()
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="own.proto", package="own", syntax="proto3")
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file.dependency.append("google/protobuf/timestamp.proto")
    event = file.message_type.add(name="Event")
    one, many = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED
    for name in ("Line", "Value"):
        file.message_type.add(name=name).field.add(name="value", number=1, type=kinds.TYPE_INT64, label=one)
    entry = file.message_type.add(name="Entry")
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=one)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT64, label=one)
    file.message_type.add(name="Place").field.add(name="street", number=1, type=kinds.TYPE_STRING, label=one)
    for name, field_number, kind, label, type_name in (
        ("event_id", 1, kinds.TYPE_STRING, one, None),
        ("event_time", 2, kinds.TYPE_MESSAGE, one, ".google.protobuf.Timestamp"),
        ("user_id", 3, kinds.TYPE_STRING, one, None),
        ("country", 4, kinds.TYPE_INT32, one, None),
        ("amount", 5, kinds.TYPE_DOUBLE, one, None),
        ("big", 6, kinds.TYPE_MESSAGE, one, ".own.Value"),
        ("lines", 7, kinds.TYPE_MESSAGE, many, ".own.Line"),
        ("counts", 8, kinds.TYPE_MESSAGE, many, ".own.Entry"),
        ("place", 9, kinds.TYPE_MESSAGE, one, ".own.Place"),
        ("raw", 10, kinds.TYPE_BYTES, one, None),
        ("channel", 11, kinds.TYPE_STRING, one, None),
        ("stray", 99, kinds.TYPE_INT32, one, None),
    ):
        event.field.add(name=name, number=field_number, type=kind, label=label, type_name=type_name)
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    made: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("own.Event"))()
    made.event_id, made.country, made.amount = f"e{number}", 1, 1.5
    made.event_time.FromDatetime(datetime(2024, 5, 1, 0, number, 0, 123456, tzinfo=UTC))
    for name, value in more.items():
        setattr(made, name, value)
    return made


def value(schema_id: int, made: Any, path: bytes = b"\x02\x02") -> bytes:
    """Return a framed value; path: one number, the second message of the file."""
    return framed(schema_id, path + made.SerializeToString())


def test_every_record_has_its_place(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, spark: SparkSession, url: str
) -> None:
    topic = make_topic(settings.bronze_topic)
    first, second = files(url, topic)
    avro = register(url, f"{topic}-avro", json.dumps("long"))
    whole = message(1, user_id="ü", raw=b"\0\xff")
    whole.big.value = BIG
    whole.lines.add().value = BIG
    whole.counts.add(key="a", value=BIG)
    whole.place.street = "s"
    good = value(first, whole)
    refused = {
        b"{}": NOT_FRAMED,
        framed(avro, good[5:]): f"schema {avro} is AVRO, not PROTOBUF",
        framed(first, b""): f"not of schema {first}",
        good[:-1]: f"not of schema {first}",
        value(first, message(3), b"\x02\x08"): f"not of schema {first}",  # there is no fifth message
        framed(first, b"\x00\x0a\x01x"): "no event_id",  # the first message of the file, which has only a text
        framed(first, b"\x02\x02\x0a\x02e9"): "no event_time",
    }
    later = [value(second, message(2, channel="app")), value(first, message(4, stray=7))]
    values = [good, *refused, *later]
    put(topic, values)
    context = make_context(settings)
    done = silver.run(context)
    letters = [dict(letter.headers()) for letter in context.kafka.read_all(settings.dead_letter_topic)]
    reasons = {values[int(letter["source-offset"])]: letter["reason"].decode() for letter in letters}
    assert reasons == refused
    rows = {row.event_id: row for row in spark.read.parquet(silver.table_path(settings)).collect()}
    assert rows.keys() == {"e1", "e2", "e4"}
    row = rows["e1"]
    assert row.event_time.isoformat() == "2024-05-01T00:01:00.123456"
    assert (row.user_id, row.country, row.amount, row.big, bytes(row.raw)) == ("ü", "fr", 1.5, BIG, b"\0\xff")
    assert (row.lines[0].pieces, row.counts, row.place.street, row.unknown_fields) == (BIG, {"a": BIG}, "s", None)
    assert (rows["e2"].user_id, rows["e2"].big, rows["e2"].lines, rows["e2"].unknown_fields) == (
        None, None, [], '{"channel":"app"}',
    )  # fmt: skip
    assert rows["e4"].unknown_fields == '{"99":"[7]"}'
    assert (done["accepted"], done["unknown"]) == (3, 2)


def test_a_schema_that_is_registered_under_a_running_stream(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, start_job: Any, spark: SparkSession, url: str
) -> None:
    topic = make_topic(settings.bronze_topic)
    first = registered_file(url, topic, VERSION_1)
    put(topic, [value(first, message(n)) for n in range(5)])
    wider = dataclasses.replace(settings, trigger="asap", schema=settings.schema + ", channel STRING")
    job = start_job(silver.run, make_context(wider))
    table = Path(silver.table_path(settings))
    job.until(lambda: list(table.glob("date=*/batch=*/*.parquet")))
    second = registered_file(url, topic, VERSION_2)
    put(topic, [value(second, message(n, channel="app")) for n in range(5, 9)])
    job.until(lambda: spark.read.parquet(str(table)).count() == 9)  # what was put may come in several batches
    job.stop()
    rows = {row.event_id: row.channel for row in spark.read.parquet(str(table)).collect()}
    assert rows == {f"e{n}": "app" if n > 4 else None for n in range(9)}


def test_numbers_of_messages() -> None:
    assert protobuf.path_of(b"\x00rest") == ((0,), 1)
    assert protobuf.path_of(b"\x04\x02\x80\x01rest") == ((1, 64), 4)
    for broken in (b"", b"\x02", b"\x02\x80", b"\x01rest"):
        with pytest.raises((IndexError, ValueError)):
            protobuf.path_of(broken)


def test_extensions_have_their_names() -> None:
    """Values of fields that a file adds to a message are neither fields of it nor unknown, and were lost."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="proto2", package="p")
    made = file.message_type.add(name="X")
    made.field.add(name="a", number=1, type=kinds.TYPE_STRING, label=1)
    made.extension_range.add(start=100, end=200)
    file.extension.add(name="one", number=100, type=kinds.TYPE_STRING, label=1, extendee=".p.X")
    file.extension.add(name="many", number=101, type=kinds.TYPE_INT64, label=3, extendee=".p.X")
    text = base64.b64encode(file.SerializeToString()).decode()
    read = protobuf.reader(RegisteredSchema("PROTOBUF", text, {}))
    assert read(b"\x00\x0a\x01v") == {"a": "v"}
    found = read(b"\x00\x0a\x01v\xa2\x06\x02hi\xa8\x06\x01\xa8\x06\x02\xb2\x06\x02no")
    assert found == {"a": "v", "[p.one]": "hi", "[p.many]": [1, 2], "102": [b"no"]}


def test_types_of_protobufs_own() -> None:
    """Types with a form of their own in JSON, and keys that are no texts."""
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="proto3")
    file.dependency.append("google/protobuf/duration.proto")
    kinds = descriptor_pb2.FieldDescriptorProto
    made = file.message_type.add(name="X")
    made.field.add(name="d", number=1, type=kinds.TYPE_MESSAGE, label=1, type_name=".google.protobuf.Duration")
    made.field.add(name="m", number=2, type=kinds.TYPE_MESSAGE, label=3, type_name=".X.MEntry")
    entry = made.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_BOOL, label=1)
    entry.field.add(name="value", number=2, type=kinds.TYPE_STRING, label=1)
    text = base64.b64encode(file.SerializeToString()).decode()
    read = protobuf.reader(RegisteredSchema("PROTOBUF", text, {}))
    assert read(b"\x00\x0a\x02\x08\x03\x12\x05\x08\x01\x12\x01v") == {"d": "3s", "m": {"true": "v"}}


def test_without_a_registry(make_settings: Any, make_context: Any, make_topic: Any) -> None:
    settings = make_settings(value_format="protobuf", schema_registry="http://127.0.0.1:9")
    make_topic(settings.bronze_topic)
    with pytest.raises(BrokerUnreachable, match="the setting is schema_registry"):
        silver.run(make_context(settings))
