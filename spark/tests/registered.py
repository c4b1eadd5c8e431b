"""Values of Avro under test: their schemas, a registry, and a reference in plain Python."""

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from urllib.request import Request, urlopen

from fastavro import parse_schema, schemaless_writer

from pykafka_broker.testing import KafkaBroker

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
    """Run a registry; the URL."""
    with KafkaBroker(schema_registry=True) as broker:
        yield broker.schema_registry_url


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
