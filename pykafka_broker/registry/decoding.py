"""Values that serializers have written with a schema of the registry, told as JSON.

Rule: the framing is Confluent's: a zero and the schema's id in four bytes, or a one and its GUID in sixteen; for
Protobuf which message of the file it is; and the data. All but the data may stand in a header instead. What does not
fit its schema is not told, and why is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from pykafka_broker.registry.parsing import library_of, off_the_loop
from pykafka_broker.registry.problems import InvalidSchema, Refused
from pykafka_broker.registry.registry import Registry
from pykafka_broker.registry.subjects import DEFAULT_CONTEXT

_FRAME = struct.Struct(">bi")
_BY_ID, _BY_GUID = 0, 1
_GUID_END = 17


class Found(NamedTuple):
    """A schema to read by: its id, its kind, its text, and the texts that it needs by their names, those first that
    others need."""

    schema_id: int
    kind: str
    text: str
    library: Mapping[str, str]


class Schemas(Protocol):
    """A registry, here or elsewhere."""

    async def find(self, name: int | UUID) -> Found | None:
        """By its id or its GUID. Raises ValueError where it can't be asked."""


class OwnSchemas:
    """Those of the registry of this process."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def find(self, name: int | UUID) -> Found | None:
        context, schema_id = DEFAULT_CONTEXT, name
        if isinstance(name, UUID):
            ids = self._registry.state.ids_of_guid(str(name))
            if not ids:
                return None
            context, schema_id = ids[0]
        assert isinstance(schema_id, int)
        try:
            schema = self._registry.schema(schema_id, context)
            subject = self._registry.uses(schema_id, context, deleted=True)[0].subject
            library = library_of(self._registry.state, subject, schema)
        except (Refused, InvalidSchema):
            return None
        return Found(schema_id, schema.kind, schema.text, library)


class Decoder:
    """`decode` is what the control API asks."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    async def decode(self, data: bytes, header: bytes | None) -> tuple[int, str, str] | None:
        """The schema's id, its kind and the value as JSON; None where no schema is named that the registry has. Raises
        ValueError where it does not fit the schema, or that can't be had."""
        framed = data if header is None else header + data
        named = _named(framed)
        found = None if named is None else await self._schemas.find(named[0])
        if named is None or found is None:
            return None
        read, body = _READS[found.kind], framed[named[1] :]
        try:
            told = await off_the_loop(len(data), lambda: read(found.text, found.library, body))
        except InvalidSchema as error:  # another registry may take what this one does not
            raise ValueError(f"its schema can't be read: {error}") from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        return found.schema_id, found.kind, told


def _named(framed: bytes) -> tuple[int | UUID, int] | None:
    """The schema, and where the rest begins."""
    if len(framed) > _FRAME.size and framed[0] == _BY_ID:
        return _FRAME.unpack_from(framed)[1], _FRAME.size
    if len(framed) > _GUID_END and framed[0] == _BY_GUID:
        return UUID(bytes=framed[1:_GUID_END]), _GUID_END
    return None


def _json(text: str, library: Mapping[str, str], body: bytes) -> str:
    return json.dumps(json.loads(body), ensure_ascii=False)


def _avro(text: str, library: Mapping[str, str], body: bytes) -> str:
    from pykafka_broker.registry.avro.reading import Reading
    from pykafka_broker.registry.avro.schema import parse

    try:
        schema = parse(text, library).type
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None
    try:
        found = Reading(body).value(schema)
    except ValueError as error:
        raise ValueError(f"it does not fit the schema: {error}") from None
    return json.dumps(found, ensure_ascii=False)


def _protobuf(text: str, library: Mapping[str, str], body: bytes) -> str:
    from google.protobuf.json_format import MessageToJson, SerializeToJsonError
    from google.protobuf.message import DecodeError

    from pykafka_broker.registry.protobuf.messages import message_class

    indexes, at = _indexes(body)
    message = message_class(text, library, indexes)()
    try:
        message.ParseFromString(body[at:])
    except DecodeError as error:
        raise ValueError(f"it does not fit the schema: {error}") from None
    try:
        return MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
    except (TypeError, SerializeToJsonError) as error:  # an Any of a type that the schema does not know, such a time
        raise ValueError(f"it has no form in JSON: {error}") from None


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


_READS = {"AVRO": _avro, "PROTOBUF": _protobuf, "JSON": _json}
