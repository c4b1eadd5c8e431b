"""Values of Avro, each read with the schema that it was written with."""

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import decoding, registry, replay, route, silver, store
from pipeline.decoding import NOT_FRAMED
from pipeline.errors import BrokerUnreachable, SettingsError
from pipeline.events import EMPTY, NOT_OF_COLUMNS
from pipeline.registry import RegistryAddress, RegistryUnavailable
from pipeline.settings import Settings, load
from tests import registered
from tests.registered import VERSION_1, VERSION_2, avro, framed, register

pytestmark = pytest.mark.spark
SPARK = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with registered.registry() as found:
        yield found


def value_of(number: int, **more: Any) -> dict[str, Any]:
    at = datetime(2024, 5, 1, number // 60 % 24, number % 60, 0, 123456, tzinfo=UTC)
    return {"event_id": f"e{number}", "event_time": at, "user_id": "ü", "country": "fr", "amount": 0.1 * number, **more}


@pytest.fixture
def settings(make_settings: Any, url: str) -> Settings:
    made: Settings = make_settings(value_format="avro", schema_registry=url)
    return made


def rows(spark: SparkSession, settings: Settings) -> dict[str, Any]:
    found = spark.read.parquet(silver.table_path(settings)).collect()
    assert len(found) == len({row.event_id for row in found})
    return {row.event_id: row for row in found}


def reasons(context: Any) -> dict[int, str]:
    letters = context.kafka.read_all(context.settings.dead_letter_topic)
    found = {int(dict(letter.headers())["source-offset"]): letter for letter in letters}
    assert len(found) == len(letters)
    for offset, letter in found.items():
        assert letter.value() == context.kafka.read_all(context.settings.bronze_topic)[offset].value()
    return {offset: dict(letter.headers())["reason"].decode() for offset, letter in found.items()}


def test_every_record_has_its_place(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, spark: SparkSession, url: str
) -> None:
    topic = make_topic(settings.bronze_topic)
    first, second = (register(url, topic, json.dumps(schema)) for schema in (VERSION_1, VERSION_2))
    other = register(url, f"{topic}-other", json.dumps({"type": "object"}), schemaType="JSON")
    number = register(url, f"{topic}-number", json.dumps("long"))
    typed = {**VERSION_1, "name": "Typed", "fields": [*VERSION_1["fields"][:3], {"name": "amount", "type": "string"}]}
    text = register(url, f"{topic}-text", json.dumps(typed))
    good = avro(first, VERSION_1, value_of(1))
    refused = {
        b"": EMPTY,
        b"{}": NOT_FRAMED,
        b"\0\0\0": NOT_FRAMED,
        json.dumps({"event_id": "x"}).encode(): NOT_FRAMED,
        framed(999_999, good[5:]): "no schema 999999 in the registry",
        framed(-1, good[5:]): "no schema -1 in the registry",
        framed(other, b"{}"): f"schema {other} is JSON, not AVRO",
        good[:-3]: f"not of schema {first}",
        good + b"\0": f"not of schema {first}",
        framed(first, b"\x04\xff\xfe" + good[8:]): f"not of schema {first}",  # an id that is not UTF-8
        avro(number, {"type": "long"}, 7): NOT_OF_COLUMNS,
        avro(text, typed, value_of(2, amount="much")): NOT_OF_COLUMNS,
        avro(first, VERSION_1, value_of(3, event_time=datetime(2999, 1, 1, tzinfo=UTC))): (
            "event_time is more than 1 day after the record's timestamp"
        ),
    }
    late = avro(second, VERSION_2, value_of(4, channel="app \\ud83d", tags=["a", "b"]))
    values = [good, *refused, late, avro(first, VERSION_1, value_of(1, amount=9.0)), None]
    put(topic, [{"key": b"k", "value": value} for value in values])
    context = make_context(settings)
    done = silver.run(context)
    assert reasons(context) == {
        offset: refused[value or b""] for offset, value in enumerate(values) if (value or b"") in refused
    }
    found = rows(spark, settings)
    assert found.keys() == {"e1", "e4"}
    assert found["e1"].event_time.isoformat() == "2024-05-01T00:01:00.123456"
    assert (found["e1"].user_id, found["e1"].country, found["e1"].amount) == ("ü", "fr", 0.1)
    assert (found["e1"].product, found["e1"].unknown_fields) == (None, None)
    assert json.loads(found["e4"].unknown_fields) == {"channel": "app \\ud83d", "tags": '["a","b"]'}
    assert (done["accepted"], done["rejected"], done["duplicates"], done["unknown"]) == (2, len(refused) + 1, 1, 1)


def test_a_schema_that_is_registered_under_a_running_stream(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, start_job: Any, spark: SparkSession, url: str
) -> None:
    """Version 2 comes while the stream runs; its record may even be read before its schema is registered anywhere."""
    topic = make_topic(settings.bronze_topic)
    first = register(url, topic, json.dumps(VERSION_1))
    put(topic, [avro(first, VERSION_1, value_of(n)) for n in range(10)])
    schema = settings.schema + ", channel STRING"
    job = start_job(silver.run, make_context(dataclasses.replace(settings, trigger="asap", schema=schema)))
    job.until(lambda: list(Path(silver.table_path(settings)).glob("date=*/batch=*/*.parquet")))
    second = register(url, topic, json.dumps(VERSION_2))
    newer = [avro(second, VERSION_2, value_of(n, channel="app", tags=["t"])) for n in range(10, 15)]
    put(topic, [*newer, avro(first, VERSION_1, value_of(20))])
    job.until(lambda: len(rows(spark, settings)) == 16)  # the records that were put may come in several batches
    done = job.stop()
    found = rows(spark, settings)
    assert sorted(found) == sorted(f"e{n}" for n in (*range(15), 20))
    assert {name for name, row in found.items() if row.channel} == {f"e{n}" for n in range(10, 15)}
    assert {row.unknown_fields for row in found.values() if row.channel} == {'{"tags":"[\\"t\\"]"}'}
    assert done["unknown"] == 5


def test_types(settings: Settings, make_context: Any, make_topic: Any, put: Any, spark: SparkSession, url: str) -> None:
    """Logical types, bytes, maps and records that another subject holds, as columns of Spark."""
    topic = make_topic(settings.bronze_topic)
    place = {"type": "record", "name": "Place", "fields": [{"name": "street", "type": "string"}]}
    register(url, f"{topic}-place", json.dumps(place))
    kinds = {
        "day": {"type": "int", "logicalType": "date"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4},
        "raw": "bytes",
        "counts": {"type": "map", "values": "long"},
        "place": "Place",
        "number": {"type": "string", "logicalType": "uuid"},
        "nothing": ["null", "double"],
    }
    fields = [*VERSION_1["fields"][:2], *({"name": name, "type": kind} for name, kind in kinds.items())]
    schema = {"type": "record", "name": "Typed", "fields": fields}
    references = [{"name": "Place", "subject": f"{topic}-place", "version": 1}]
    schema_id = register(url, topic, json.dumps(schema), references=references)
    inlined = {**schema, "fields": [{**f, "type": place} if f["type"] == "Place" else f for f in fields]}
    value = value_of(1) | {
        "day": datetime(2024, 2, 29, tzinfo=UTC).date(), "price": Decimal("1234567890123456.7891"), "raw": b"\0\xff",
        "counts": {"a": 2**53 + 1}, "place": {"street": "s"}, "number": "e0e5e1a4-3cbb-4b8e-a5f5-0f6c1a0a6c11",
        "nothing": float("nan"),
    }  # fmt: skip
    put(topic, [avro(schema_id, inlined, value)])
    ddl = (
        "event_id STRING, event_time TIMESTAMP, day DATE, price DECIMAL(20,4), raw BINARY, counts MAP<STRING,BIGINT>, "
        "place STRUCT<street: STRING>, number STRING, nothing DOUBLE"
    )
    assert silver.run(make_context(dataclasses.replace(settings, schema=ddl)))["accepted"] == 1
    row = rows(spark, settings)["e1"]
    assert (row.day, row.price, bytes(row.raw)) == (value["day"], value["price"], value["raw"])
    assert (row.counts, row.place.street, row.number) == ({"a": 2**53 + 1}, "s", value["number"])
    assert row.nothing != row.nothing


def test_other_jobs(settings: Settings, make_context: Any, make_topic: Any, put: Any, url: str) -> None:
    topic = make_topic(settings.bronze_topic)
    schema_id = register(url, topic, json.dumps(VERSION_2))
    put(topic, [avro(schema_id, VERSION_2, value_of(n, channel="c", tags=[])) for n in range(3)] + [b"\0broken"])
    context = make_context(settings)
    assert store.run(context)["unknown"] == 3
    assert replay.run(context)["written"] == 3
    routed = make_context(dataclasses.replace(settings, to_topic=f"{topic}-to", data_dir=f"{settings.data_dir}-route"))
    assert route.run(routed)["accepted"] == 3
    there, letters = (routed.kafka.read_all(name) for name in (f"{topic}-to", settings.dead_letter_topic))
    assert [record.value() for record in there] == [record.value() for record in context.kafka.read_all(topic)[:3]]
    assert dict(letters[-1].headers())["reason"].startswith(b"no schema")


def test_json_keeps_unknown_fields_if_it_is_told_to(
    make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, spark: SparkSession
) -> None:
    settings = make_settings(unknown_column="rest")
    make_topic(settings.bronze_topic)
    twice = event(3)[:-1] + b', "more": 1, "more": 2}'
    put(settings.bronze_topic, [event(1, more={"a": [1, None]}, less=None), event(2), twice, event(4, rest="own")])
    assert silver.run(make_context(settings))["unknown"] == 3
    found = {name: row.rest and json.loads(row.rest) for name, row in rows(spark, settings).items()}
    assert found["e1"] == {"more": '{"a":[1,null]}'}
    assert (found["e2"], found["e4"]) == (None, {"rest": "own"})
    assert found["e3"]["more"] in ("1", "2")


def test_no_value_ends_the_process(url: str) -> None:
    """Twenty kilobytes of values in each other end the compiled reader's process; ten bytes hold 2**50 nulls."""
    tree = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    node = register(url, "tree", json.dumps(tree))
    address = RegistryAddress(url)
    text, _ = decoding.text_of(framed(node, b"\x02" * 100 + b"\0"), address, "AVRO")
    assert (text or "").count("next") == 101
    assert decoding.text_of(framed(node, b"\x02" * 20_000 + b"\0"), address, "AVRO") == (None, f"not of schema {node}")
    empty = {"type": "record", "name": "Empty", "fields": [{"name": "none", "type": "null"}]}
    for number, items in enumerate(("null", empty, {"type": "fixed", "name": "Fixed", "size": 0})):
        schema = {"type": "map", "values": {"type": "array", "items": items}}
        bomb = register(url, f"bomb-{number}", json.dumps(schema))
        assert decoding.text_of(framed(bomb, b"\0"), address, "AVRO") == (None, f"schema {bomb} can't be read")
    harmless = register(url, "harmless", json.dumps({"type": "array", "items": ["null", "string"]}))
    assert decoding.text_of(framed(harmless, b"\x04\0\0\0"), address, "AVRO") == ("[null, null]", None)


def test_types_that_are_named_again_and_again_are_looked_at_once() -> None:
    """Forty records, each with two fields of the next one's type: there are 2**40 ways to the last."""
    schema: Any = "int"
    for number in range(40):
        again = schema if isinstance(schema, str) else schema["name"]
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": again}]
        schema = {"type": "record", "name": f"R{number}", "fields": fields}
    assert callable(decoding.avro_reader(registry.RegisteredSchema("AVRO", json.dumps(schema), {})))


def test_a_registry_with_a_certificate_of_an_own_authority(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, url: str, tmp_path: Path
) -> None:
    topic = make_topic(settings.bronze_topic)
    schema_id = register(url, topic, json.dumps(VERSION_1))
    put(topic, [avro(schema_id, VERSION_1, value_of(1))])
    with registered.behind_tls(url, tmp_path) as (safe_url, ca_file):
        safe = dataclasses.replace(settings, schema_registry=safe_url)
        with pytest.raises(BrokerUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            silver.run(make_context(safe))
        ca_file.write_text(f"# Főtanúsítvány\n{ca_file.read_text()}", encoding="utf-8")
        trusting = dataclasses.replace(safe, schema_registry_ca_file=str(ca_file))
        assert silver.run(make_context(trusting))["accepted"] == 1
    ca_file.write_bytes(b"\xfe\xed\xfe\xed")  # a key store of Java
    with pytest.raises(SettingsError, match=r"ca\.pem has no certificate in PEM"):
        silver.run(make_context(trusting))
    given = {"value_format": "avro", "schema_registry": url, "schema_registry_ca_file": str(tmp_path / "none")}
    with pytest.raises(SettingsError, match=r"there is no file .*none, which schema_registry_ca_file names"):
        load("silver", given, {})


def test_a_registry_that_does_not_answer(
    settings: Settings, make_context: Any, make_topic: Any, put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job ends before a byte is written, or the stream ends, and no record is a dead letter."""
    topic = make_topic(settings.bronze_topic)
    put(topic, [framed(1, b"x")])
    nowhere = dataclasses.replace(settings, schema_registry="http://127.0.0.1:9")
    with pytest.raises(BrokerUnreachable, match=r"the schema registry http://127.0.0.1:9 does not answer"):
        silver.run(make_context(nowhere))
    assert not Path(settings.data_dir).exists()
    monkeypatch.setattr(registry.Registry, "require_reachable", lambda _: None)
    with pytest.raises(BrokerUnreachable, match="the schema registry does not answer as it should"):
        silver.run(make_context(nowhere))
    assert make_context(settings).kafka.read_all(settings.dead_letter_topic) == []


def test_an_answer_that_breaks_off_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that dies while it answers has not answered; its next answer counts."""
    whole = b'{"schema": "\\"long\\""}'
    answers = [whole[:5], b"", whole]

    class Dying(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            self.wfile.write(answers.pop(0))

    monkeypatch.setattr(registry, "PAUSE_S", 0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Dying) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        asked = registry.Registry(RegistryAddress(f"http://127.0.0.1:{server.server_address[1]}"))
        assert asked.schema(1).text == '"long"'
        answers.append(b"")
        with pytest.raises(RegistryUnavailable, match="does not answer"):
            asked.require_reachable()
        server.shutdown()


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="value_format avro needs schema_registry"):
        load("silver", {"value_format": "avro"}, {})
    given = {"value_format": "avro", "schema_registry": "http://${USER}:${WORD}@r:1"}
    settings = load("silver", given, {"USER": "me", "WORD": "a%40b"})
    assert settings.schema_registry == "http://me:a%40b@r:1"
    asked = registry.Registry(RegistryAddress(settings.schema_registry))
    assert vars(asked)["_url"] == "http://r:1"
    assert vars(asked)["_headers"]["Authorization"] == "Basic bWU6YUBi"
    monkeypatch.setitem(decoding.PACKAGES, "avro", ("no_such_module", "no_such_package"))
    with pytest.raises(SettingsError, match="needs the package no_such_package"):
        decoding.require(settings)
