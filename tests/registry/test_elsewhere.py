"""Values that were written with the schemas of a registry that is another process's."""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from uuid import UUID

import pytest

from pykafka_broker.registry.decoding import Decoder
from pykafka_broker.registry.elsewhere import SchemasElsewhere
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.control_client import ControlClient
from tests.registry.rest import Rest
from tests.registry.test_decoding import framed

ITEM = {"type": "record", "name": "Item", "fields": [{"name": "name", "type": "string"}]}
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "Item"}]}
APPLES = b"\x0capples"


def told(schemas: SchemasElsewhere, value: bytes, header: bytes | None = None) -> object:
    return asyncio.run(Decoder(schemas).decode(value, header))


@pytest.fixture
def schemas(broker: KafkaBroker) -> SchemasElsewhere:
    return SchemasElsewhere(broker.schema_registry_url + "/", None)


def test_a_schema_comes_with_those_that_it_needs(schemas: SchemasElsewhere, rest: Rest) -> None:
    rest.register("elsewhere%2Fitem", ITEM)
    needs = [{"name": "Item", "subject": "elsewhere/item", "version": 1}]
    schema_id = rest.register("elsewhere-order", ORDER, references=needs)
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
