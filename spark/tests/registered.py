"""Values of Avro under test: their schemas, a registry, and a reference in plain Python."""

import json
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

from fastavro import parse_schema, schemaless_writer

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.security_spec import Authority

FIELDS: list[dict[str, Any]] = [
    {"name": "event_id", "type": "string"},
    {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "user_id", "type": ["null", "string"], "default": None},
    {"name": "country", "type": {"type": "enum", "name": "Country", "symbols": ["de", "fr"]}},
    {"name": "amount", "type": ["null", "double"], "default": None},
]
VERSION_1: dict[str, Any] = {"type": "record", "name": "Event", "fields": FIELDS}
VERSION_2: dict[str, Any] = {
    **VERSION_1,
    "fields": [
        {"name": "channel", "type": "string", "default": "web"},
        *FIELDS,
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}


@contextmanager
def registry() -> Iterator[str]:
    """Run a registry, and yield its URL."""
    with KafkaBroker(schema_registry=True) as broker:
        yield broker.schema_registry_url


@contextmanager
def behind_tls(url: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Serve a registry's answers over TLS; yield the URL, and the file with the certificate of the authority."""
    authority = Authority()
    (folder / "server.pem").write_text(authority.issue("registry", ["127.0.0.1"]))
    (folder / "ca.pem").write_text(authority.pem)

    class Passing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with urlopen(url + self.path, timeout=30) as answer:
                self.send_response(answer.status)
                self.end_headers()
                self.wfile.write(answer.read())

    with ThreadingHTTPServer(("127.0.0.1", 0), Passing) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}", folder / "ca.pem"
        finally:
            server.shutdown()


def register(url: str, subject: str, schema: str, **more: Any) -> int:
    """Return the id of the schema, registered under the subject. more: schemaType, references."""
    body = json.dumps({"schema": schema, **more}).encode()
    request = Request(f"{url}/subjects/{subject}/versions", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=30) as answer:
        return int(json.load(answer)["id"])


def framed(schema_id: int, data: bytes) -> bytes:
    return struct.pack(">bi", 0, schema_id) + data


def avro(schema_id: int, schema: Mapping[str, Any], value: Any) -> bytes:
    stream = BytesIO()
    schemaless_writer(stream, parse_schema(json.loads(json.dumps(schema))), value)
    return framed(schema_id, stream.getvalue())
