"""Values written by serializers with a schema of a registry, as JSON; and schemas of another registry.

Rule: the framing is Confluent's. A value begins with a zero byte and the schema's id in four bytes, or with a one and
the schema's GUID in sixteen bytes. Protobuf adds the path to the message within the file. Then comes the data. All but
the data may be in a header instead. A value that does not fit its schema is an error with the reason. Another registry
is asked when a value names one of its schemas, in a thread and for a few seconds at most. Answers are kept, unless they
are very long: the schema of an id never changes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote
from uuid import UUID

from pykafka_broker.protocol.runtime import DecodeError, read_varint
from pykafka_broker.registry.parsing import Needed, library_of, off_the_loop, texts_of
from pykafka_broker.registry.problems import InvalidSchema, RegistryError
from pykafka_broker.registry.records import Reference
from pykafka_broker.registry.registry import Registry
from pykafka_broker.registry.subjects import DEFAULT_CONTEXT

# -- decoding


_FRAME = struct.Struct(">bi")
_BY_ID, _BY_GUID = 0, 1
_GUID_END = 17


class SchemaText(NamedTuple):
    """A schema by text. library: the texts of referenced schemas by name, in the order of reading."""

    schema_id: int
    kind: str
    text: str
    library: Mapping[str, str]


class Schemas(Protocol):
    async def find(self, name: int | UUID) -> SchemaText | None:
        """Return the schema of an id or a GUID. Raises ValueError if the registry can't be asked."""


class OwnSchemas:
    """The schemas of the registry in the same process."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def find(self, name: int | UUID) -> SchemaText | None:
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
        except (RegistryError, InvalidSchema):
            return None
        return SchemaText(schema_id, schema.kind, schema.text, library)


class Decoder:
    """A decoder of values, used by the control API."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    async def decode(self, data: bytes, header: bytes | None) -> tuple[int, str, str] | None:
        """Return the schema's id, kind and the value as JSON; None without a known schema.

        Raises:
            ValueError: the value does not fit the schema, or no registry returns the schema.
        """
        framed = data if header is None else header + data
        named = _named(framed)
        found = None if named is None else await self._schemas.find(named[0])
        if named is None or found is None:
            return None
        read, body = _READS[found.kind], framed[named[1] :]
        try:
            size = len(data) + len(found.text) + sum(map(len, found.library.values()))
            told = await off_the_loop(size, lambda: read(found.text, found.library, body))
        except InvalidSchema as error:  # another registry may accept more schemas
            raise ValueError(f"its schema can't be read: {error}") from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        return found.schema_id, found.kind, told


def _named(framed: bytes) -> tuple[int | UUID, int] | None:
    """Return the id or GUID in a frame, and where the rest begins."""
    if len(framed) >= _FRAME.size and framed[0] == _BY_ID:
        return _FRAME.unpack_from(framed)[1], _FRAME.size
    if len(framed) >= _GUID_END and framed[0] == _BY_GUID:
        return UUID(bytes=framed[1:_GUID_END]), _GUID_END
    return None


def _avro(text: str, library: Mapping[str, str], body: bytes) -> str:
    from pykafka_broker.registry.avro import Reading, parse

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
    from google.protobuf.message import DecodeError as ProtobufError

    from pykafka_broker.registry.protobuf import message_class

    indexes, at = _indexes(body)
    message = message_class(text, library, indexes)()
    try:
        message.ParseFromString(body[at:])
    except ProtobufError as error:
        raise ValueError(f"it does not fit the schema: {error}") from None
    try:
        return MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
    except (TypeError, SerializeToJsonError) as error:  # an Any of an unknown type, a time out of range
        raise ValueError(f"it has no form in JSON: {error}") from None


def _indexes(body: bytes) -> tuple[list[int], int]:
    """Return the path to a Protobuf message within the file, and where the data begins."""
    try:
        count, at = read_varint(body, 0)
        indexes = []
        for _ in range(count):
            index, at = read_varint(body, at)
            indexes.append(index)
    except DecodeError:
        raise ValueError("it does not say which message it is") from None
    return indexes or [0], at


def _json(text: str, library: Mapping[str, str], body: bytes) -> str:
    try:
        return json.dumps(json.loads(body), ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"it does not fit the schema: {error}") from None


_READS: dict[str, Callable[[str, Mapping[str, str], bytes], str]] = {
    "AVRO": _avro,
    "PROTOBUF": _protobuf,
    "JSON": _json,
}


# -- a registry elsewhere


_TIMEOUT_S = 5.0
_MOST_BYTES = 8 << 20  # of an answer
_MOST_KEPT = 1_000
_LONGEST_KEPT = 64 << 10  # characters; a longer schema is asked for again
_MISSING = 404


class SchemasElsewhere:
    """The schemas of a registry at a URL. user: `name:password` or None."""

    def __init__(self, url: str, user: str | None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if user is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        self._kept: OrderedDict[int | UUID, SchemaText] = OrderedDict()

    async def find(self, name: int | UUID) -> SchemaText | None:
        found = self._kept.get(name)
        if found is None:
            found = await asyncio.to_thread(self._ask, name)
        if found is not None and len(found.text) + sum(map(len, found.library.values())) <= _LONGEST_KEPT:
            self._kept[name] = found
            self._kept.move_to_end(name)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found

    def _ask(self, name: int | UUID) -> SchemaText | None:
        if isinstance(name, int) and name < 0:
            return None
        path = f"/schemas/ids/{name}" if isinstance(name, int) else f"/schemas/guids/{name}"
        try:
            schema_id = name if isinstance(name, int) else self._id_of(path)
            schema = None if schema_id is None else self._get(path)
            if schema is None or schema_id is None:
                return None
            kind = schema.get("schemaType") or "AVRO"
            if kind not in _READS:
                raise ValueError(f"the schema registry has a schema of type {kind}, which can't be read here")
            return SchemaText(schema_id, kind, str(schema["schema"]), self._library(schema))
        except (AttributeError, IndexError, KeyError, TypeError):
            raise ValueError("the schema registry answers something else than a schema") from None

    def _id_of(self, path: str) -> int | None:
        ids = self._get(f"{path}/ids")
        return int(ids[0]["id"]) if ids else None

    def _library(self, schema: Any) -> dict[str, str]:
        """Return the texts of referenced schemas in the order of reading."""

        @cache
        def find(subject: str, reference: Reference) -> Needed:
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}?deleted=true"
            found = self._get(path)
            if found is None:
                raise ValueError(f"the schema registry has no {reference.name}, which the schema needs")
            return Needed(str(found["schema"]), reference.subject, _references(found))

        try:
            return texts_of(Needed("", "", _references(schema)), find)
        except InvalidSchema as error:
            raise ValueError(f"the schema can't be read: {error}") from None

    def _get(self, path: str) -> Any:
        """Return the JSON at a path, None for a missing path. Raises ValueError without an answer."""
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        headers = self._headers

        class RefusesRedirects(HTTPRedirectHandler):
            def redirect_request(self, *args: Any) -> Request | None:  # a password is for nobody else
                return None if "Authorization" in headers else super().redirect_request(*args)

        try:
            request = Request(self._url + path, headers=headers)
            with build_opener(RefusesRedirects).open(request, timeout=_TIMEOUT_S) as answer:
                content = answer.read(_MOST_BYTES + 1)
        except HTTPError as error:
            with error:
                if error.code == _MISSING:
                    return None
            raise ValueError(f"the schema registry answers {error.code} {error.reason}") from None
        except (OSError, HTTPException) as error:
            raise ValueError(f"the schema registry can't be asked: {getattr(error, 'reason', error)}") from None
        if len(content) > _MOST_BYTES:
            raise ValueError(f"the schema registry answers more than {_MOST_BYTES} bytes")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise ValueError("the schema registry answers something else than JSON") from None


def _references(schema: Any) -> tuple[Reference, ...]:
    found = schema.get("references") or ()
    return tuple(Reference(str(each["name"]), str(each["subject"]), int(each["version"])) for each in found)
