"""Values that serializers have written with a schema of the registry, told as JSON.

Rule: the framing is Confluent's: a zero, the schema's id in four bytes, for Protobuf which message of the file it is,
and the data. What does not fit its schema is not told, and why is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from pykafka_broker.registry.parsing import library_of, off_the_loop
from pykafka_broker.registry.problems import InvalidSchema, Refused
from pykafka_broker.registry.registry import Registry
from pykafka_broker.registry.subjects import DEFAULT_CONTEXT

_FRAME = struct.Struct(">bi")
_MAGIC = 0


class Decoder:
    """`decode` is what the control API asks."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def decode(self, data: bytes) -> tuple[int, str, str] | None:
        """The schema's id, its kind and the value as JSON; None where the data is not framed or its id is not known.
        Raises ValueError where it does not fit the schema."""
        if len(data) <= _FRAME.size or data[0] != _MAGIC:
            return None
        schema_id = _FRAME.unpack_from(data)[1]
        try:
            schema = self._registry.schema(schema_id, DEFAULT_CONTEXT)
            subject = self._registry.uses(schema_id, DEFAULT_CONTEXT, deleted=True)[0].subject
            library = library_of(self._registry.state, subject, schema)
        except (Refused, InvalidSchema):
            return None
        reads = {"AVRO": _avro, "PROTOBUF": _protobuf, "JSON": _json}
        read, body = reads[schema.kind], data[_FRAME.size :]
        return schema_id, schema.kind, await off_the_loop(len(data), lambda: read(schema.text, library, body))


def _json(text: str, library: Mapping[str, str], body: bytes) -> str:
    return json.dumps(json.loads(body), ensure_ascii=False)


def _avro(text: str, library: Mapping[str, str], body: bytes) -> str:
    import fastavro

    named: dict[str, Any] = {}
    try:
        for needed in library.values():
            fastavro.parse_schema(json.loads(needed), named_schemas=named)
        found = fastavro.schemaless_reader(BytesIO(body), fastavro.parse_schema(json.loads(text), named_schemas=named))
    except (EOFError, IndexError, KeyError, TypeError, OverflowError, fastavro.schema.SchemaParseException) as error:
        raise ValueError(f"it does not fit the schema: {error!r}") from None
    return json.dumps(found, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    """Bytes as Avro's own JSON has them, a character for each; times and decimals as text."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _protobuf(text: str, library: Mapping[str, str], body: bytes) -> str:
    from google.protobuf.json_format import MessageToJson
    from google.protobuf.message import DecodeError

    from pykafka_broker.registry.protobuf.messages import message_class

    indexes, at = _indexes(body)
    message = message_class(text, library, indexes)()
    try:
        message.ParseFromString(body[at:])
    except DecodeError as error:
        raise ValueError(f"it does not fit the schema: {error}") from None
    return MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=False)


def _indexes(body: bytes) -> tuple[list[int], int]:
    """Which message it is: its place in the file, then in that message, and so on; and where the data begins."""
    count, at = _zigzag(body, 0)
    indexes = []
    for _ in range(count):
        index, at = _zigzag(body, at)
        indexes.append(index)
    return indexes or [0], at


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(body) or shift > 28:
            raise ValueError("it does not say which message it is")
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
