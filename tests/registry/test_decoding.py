"""Records of schema-aware serializers, decoded to JSON by the control API."""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pytest

from pykafka_broker.registry.decoding import Decoder, SchemasElsewhere
from pykafka_broker.testing import ControlError, KafkaBroker
from pykafka_broker.testing.control_client import ControlClient
from tests.registry.rest import Rest

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
    ],
}
PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Other { string name = 1; }
message Order {
  message Line { string item = 1; int64 count = 2; }
  repeated Line lines = 1;
  google.protobuf.Timestamp at = 2;
}
"""


def framed(schema_id: int, body: bytes) -> bytes:
    return struct.pack(">bi", 0, schema_id) + body


def decoded(broker: KafkaBroker, topic: str, value: bytes, **headers: bytes) -> Any:
    ((partition, offset),) = broker.produce(topic, [{"value": value, "headers": list(headers.items())}])
    path = f"/browse/topics/{topic}/partitions/{partition}/records/{offset}/decoded"
    found = broker.control.call("GET", path)
    return found["schema_type"], json.loads(found["json"])


@pytest.fixture(scope="module", autouse=True)
def topic(broker: KafkaBroker) -> None:
    broker.create_topic("decoded", exist_ok=True)  # other files may come in between


def test_avro(broker: KafkaBroker, rest: Rest) -> None:
    schema_id = rest.register("decoding-avro", ORDER)
    order = {"id": 2**60 + 1, "item": "Äpfel", "raw": b"\xff\x00"}
    body = BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(ORDER), order)
    found = decoded(broker, "decoded", framed(schema_id, body.getvalue()))
    assert found == ("AVRO", {**order, "raw": "\u00ff\u0000"})
    page = broker.control.call("GET", "/browse/topics/decoded/records", query={"decode": True, "cut_bytes": 20})
    shown = page["records"][-1]["decoded"]
    assert (shown["schema_id"], shown["schema_type"], len(shown["json"])) == (schema_id, "AVRO", 20)
    for value in (framed(999_999, b"x"), framed(schema_id, b"\x02"), b"\0", b"text"):
        broker.produce("decoded", [{"value": value}])
    page = broker.control.call(
        "GET", "/browse/topics/decoded/records", query={"decode": True, "newest": True, "limit": 4}
    )
    assert [each["decoded"] for each in page["records"]] == [None] * 4
    with pytest.raises(ControlError, match="it does not fit the schema"):
        decoded(broker, "decoded", framed(schema_id, body.getvalue()[:-1]))


def test_protobuf_and_which_message_of_a_file_it_is(broker: KafkaBroker, rest: Rest) -> None:
    schema_id = rest.register("decoding-protobuf", PROTO, schemaType="PROTOBUF")
    line = b"\x0a\x06apples\x10\x03"
    assert decoded(broker, "decoded", framed(schema_id, b"\x02\x02\x0a" + bytes([len(line)]) + line)) == (
        "PROTOBUF",
        {"lines": [{"item": "apples", "count": "3"}]},
    )
    assert decoded(broker, "decoded", framed(schema_id, b"\x04\x02\x00" + line))[1] == {"item": "apples", "count": "3"}
    assert decoded(broker, "decoded", framed(schema_id, b"\x00\x0a\x01x"))[1] == {"name": "x"}
    with pytest.raises(ControlError, match="its schema has no such message"):
        decoded(broker, "decoded", framed(schema_id, b"\x02\x08" + line))
    with pytest.raises(ControlError, match="it does not say which message it is"):
        decoded(broker, "decoded", framed(schema_id, b"\x80" * 6))


def test_json(broker: KafkaBroker, rest: Rest) -> None:
    schema_id = rest.register("decoding-json", {"type": "object"}, schemaType="JSON")
    assert decoded(broker, "decoded", framed(schema_id, b'{"a": 1}')) == ("JSON", {"a": 1})


@pytest.mark.parametrize("body", [b"NaN", b"[1e999]", b'"\xff"', b"{", b""])
def test_values_that_are_no_json_are_refused(broker: KafkaBroker, rest: Rest, body: bytes) -> None:
    schema_id = rest.register("decoding-no-json", {}, schemaType="JSON")
    with pytest.raises(ControlError, match="it does not fit the schema"):
        decoded(broker, "decoded", framed(schema_id, body))


def test_a_record_without_fields_has_no_bytes(broker: KafkaBroker, rest: Rest) -> None:
    schema_id = rest.register("decoding-tick", {"type": "record", "name": "Tick", "fields": []})
    assert decoded(broker, "decoded", framed(schema_id, b"")) == ("AVRO", {})
    guid = UUID(rest.extended("GET", "/subjects/decoding-tick/versions/1")["guid"]).bytes
    assert decoded(broker, "decoded", b"", __value_schema_id=b"\x01" + guid) == ("AVRO", {})


def test_data_that_was_made_to_hurt_is_refused(broker: KafkaBroker, rest: Rest) -> None:
    linked = {"type": "record", "name": "List", "fields": [{"name": "next", "type": ["null", "List"]}]}
    avro = rest.register("decoding-hurt-avro", linked)
    with pytest.raises(ControlError, match="nested deeper") as refused:
        decoded(broker, "decoded", framed(avro, b"\x02" * 500_000))
    assert refused.value.status == 400
    of_json = rest.register("decoding-hurt-json", {"type": "array"}, schemaType="JSON")
    with pytest.raises(ControlError, match="nested too deeply") as refused:
        decoded(broker, "decoded", framed(of_json, b"[" * 500_000))
    assert refused.value.status == 400


def test_an_any_of_an_unknown_type_is_said_to_be_one(broker: KafkaBroker, rest: Rest) -> None:
    proto = 'syntax = "proto3"; import "google/protobuf/any.proto"; message M { google.protobuf.Any a = 1; }'
    schema_id = rest.register("decoding-any", proto, schemaType="PROTOBUF")
    with pytest.raises(ControlError, match="no form in JSON") as refused:
        decoded(broker, "decoded", framed(schema_id, b"\x00\x0a\x08\x0a\x06abcd/x"))
    assert refused.value.status == 400


def test_a_header_may_name_the_schema_by_its_guid(broker: KafkaBroker, rest: Rest) -> None:
    rest.register("decoding-headers", PROTO, schemaType="PROTOBUF")
    guid = UUID(rest.extended("GET", "/subjects/decoding-headers/versions/1")["guid"]).bytes
    found = decoded(broker, "decoded", b"\x0a\x01x", __value_schema_id=b"\x01" + guid + b"\x00")
    assert found == ("PROTOBUF", {"name": "x"})
    assert decoded(broker, "decoded", b"\x01" + guid + b"\x00\x0a\x01x")[1] == {"name": "x"}
    with pytest.raises(ControlError, match="names no schema"):
        decoded(broker, "decoded", b"\x0a\x01x", __key_schema_id=b"\x01" + guid + b"\x00")
    with pytest.raises(ControlError, match="names no schema"):
        decoded(broker, "decoded", b"\x0a\x01x", __value_schema_id=b"\x01" + bytes(16) + b"\x00")


@pytest.mark.parametrize("value", [b"text", b"", b"\x00", framed(99999, b"x"), framed(-1, b"x")])
def test_what_names_no_schema_is_said_to(broker: KafkaBroker, rest: Rest, value: bytes) -> None:
    with pytest.raises(ControlError, match="the value names no schema of the registry") as refused:
        decoded(broker, "decoded", value)
    assert refused.value.status == 404


def test_without_a_registry_there_is_nothing_to_decode_with() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("t")
        with pytest.raises(ControlError, match="this broker knows no schema registry"):
            decoded(broker, "t", framed(1, b"x"))


ITEM = {"type": "record", "name": "Item", "fields": [{"name": "name", "type": "string"}]}
NAMED_ITEM = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "Item"}]}
APPLES = b"\x0capples"


def told(schemas: SchemasElsewhere, value: bytes, header: bytes | None = None) -> object:
    return asyncio.run(Decoder(schemas).decode(value, header))


@pytest.fixture
def schemas(broker: KafkaBroker) -> SchemasElsewhere:
    return SchemasElsewhere(broker.schema_registry_url + "/", None)


def test_a_schema_comes_with_those_that_it_needs(schemas: SchemasElsewhere, rest: Rest) -> None:
    rest.register("elsewhere%2Fitem", ITEM)
    needs = [{"name": "Item", "subject": "elsewhere/item", "version": 1}]
    schema_id = rest.register("elsewhere-order", NAMED_ITEM, references=needs)
    found = told(schemas, framed(schema_id, APPLES))
    assert found == (schema_id, "AVRO", '{"item": {"name": "apples"}}')


def test_a_guid_names_one_too(schemas: SchemasElsewhere, rest: Rest) -> None:
    schema_id = rest.register("elsewhere-guid", {"type": "object", "title": "by guid"}, schemaType="JSON")
    guid = UUID(rest.extended("GET", "/subjects/elsewhere-guid/versions/1")["guid"])
    assert told(schemas, b'{"a": 1}', b"\x01" + guid.bytes) == (schema_id, "JSON", '{"a": 1}')
    assert told(schemas, b'{"a": 1}', b"\x01" + bytes(16)) is None


def test_what_the_registry_does_not_have(schemas: SchemasElsewhere, rest: Rest) -> None:
    assert told(schemas, framed(99_999, b"x")) is None
    assert told(schemas, framed(-1, b"x")) is None
    assert told(schemas, b"text") is None


class _Answering(http.server.BaseHTTPRequestHandler):
    answers: list[tuple[int, bytes]] = []
    asked: list[tuple[str, str | None]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        status, body = self.answers.pop(0)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), _Answering)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    _Answering.asked.clear()
    yield f"http://127.0.0.1:{server.server_port}/registry"
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_is_asked_once_and_by_its_user(url: str) -> None:
    _Answering.answers = [(200, b'{"schema": "\\"string\\""}')]
    schemas = SchemasElsewhere(url, "me:secret")
    for _ in range(2):
        assert told(schemas, framed(7, APPLES)) == (7, "AVRO", '"apples"')
    assert _Answering.asked == [("/registry/schemas/ids/7", "Basic " + base64.b64encode(b"me:secret").decode())]


def test_a_password_goes_nowhere_else(url: str) -> None:
    _Answering.answers = [(302, b""), (200, b'{"schema": "\\"string\\""}')]
    with pytest.raises(ValueError, match="the schema registry answers 302"):
        told(SchemasElsewhere(url, "me:secret"), framed(7, APPLES))
    assert [path for path, _ in _Answering.asked] == ["/registry/schemas/ids/7"]


def test_without_one_it_may_have_moved(url: str) -> None:
    _Answering.answers = [(302, b""), (200, b'{"schema": "\\"string\\""}')]
    assert told(SchemasElsewhere(url, None), framed(7, APPLES)) == (7, "AVRO", '"apples"')


def test_a_schema_that_is_very_long_is_not_kept(url: str) -> None:
    answer = json.dumps({"schema": json.dumps({"type": "string", "doc": "-" * 70_000})}).encode()
    _Answering.answers = [(200, answer), (200, answer)]
    schemas = SchemasElsewhere(url, None)
    for _ in range(2):
        assert told(schemas, framed(7, APPLES)) == (7, "AVRO", '"apples"')
    assert len(_Answering.asked) == 2


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, b"{}", "the schema registry answers 401 Unauthorized"),
        (500, b"", "the schema registry answers 500"),
        (200, b"<html>", "something else than JSON"),
        (200, b"\xff", "something else than JSON"),
        (200, b"[]", "something else than a schema"),
        (200, b"{}", "something else than a schema"),
        (200, b'{"schema": "", "references": [{}]}', "something else than a schema"),
        (200, b'{"schema": "", "schemaType": "THRIFT"}', "of type THRIFT, which can't be read here"),
        (200, b" " * ((8 << 20) + 1), "answers more than"),
    ],
)
def test_an_answer_that_is_none_is_told_and_asked_for_again(url: str, status: int, body: bytes, says: str) -> None:
    _Answering.answers = [(status, body), (200, b'{"schema": "\\"string\\""}')]
    schemas = SchemasElsewhere(url, None)
    with pytest.raises(ValueError, match=says):
        told(schemas, framed(7, APPLES))
    assert told(schemas, framed(7, APPLES)) == (7, "AVRO", '"apples"')


def test_a_reference_that_is_gone(url: str) -> None:
    needs = json.dumps({"schema": '"X"', "references": [{"name": "X", "subject": "x", "version": 1}]})
    _Answering.answers = [(200, needs.encode()), (404, b"{}")]
    with pytest.raises(ValueError, match="has no X, which the schema needs"):
        told(SchemasElsewhere(url, None), framed(7, APPLES))


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ('{"type": "record"}', "AVRO"),
        ('"nowhere.Known"', "AVRO"),
        ("{", "AVRO"),
        ("[" * 100_000, "AVRO"),
        ("message {", "PROTOBUF"),
        ('syntax = "proto3"; import "gone.proto"; message M { gone.N n = 1; }', "PROTOBUF"),
    ],
)
def test_a_schema_that_can_not_be_read_here(url: str, schema: str, kind: str) -> None:
    _Answering.answers = [(200, json.dumps({"schema": schema, "schemaType": kind}).encode())]
    with pytest.raises(ValueError, match="its schema can't be read: "):
        told(SchemasElsewhere(url, None), framed(7, b"\x00" + APPLES))


def test_nobody_is_there() -> None:
    with pytest.raises(ValueError, match=r"can't be asked: .*refused"):
        told(SchemasElsewhere("http://127.0.0.1:1", None), framed(7, APPLES))


def test_the_page_reads_by_it(broker: KafkaBroker, rest: Rest) -> None:
    schema_id = rest.register("elsewhere-page", {"type": "string", "doc": "page"})
    command = [sys.executable, "-m", "pykafka_broker", "--ephemeral", "--listen", "0", "--control", "0"]
    command += ["--schema-registry-url", broker.schema_registry_url, "--stop-on-stdin-close"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        control = ControlClient(process.stdout.readline().removeprefix("control on ").strip())
        control.call("POST", "/topics", {"name": "t"})
        value = base64.b64encode(framed(schema_id, APPLES)).decode()
        control.call("POST", "/topics/t/records", {"records": [{"value_base64": value}]})
        found = control.call("GET", "/browse/topics/t/partitions/0/records/0/decoded")
        process.stdin.close()
    assert (found["schema_id"], json.loads(found["json"])) == (schema_id, "apples")
