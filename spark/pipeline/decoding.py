"""Values of Avro and Protobuf as JSON text, which is parsed like any other. Rule: a value is read with the schema that
it was written with, which its first five bytes name: a zero and the schema's id in the registry. A value that can't be
read has a reason; nothing is guessed.

`fastavro` decodes, in a Python function of the tasks. Spark's own `from_avro` takes one schema for the whole stream,
and no id, so the values of a topic with two schemas would have to be sorted by schema first.
"""

from __future__ import annotations

import base64
import datetime
import importlib
import json
import ssl
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipeline.errors import BrokerUnreachable, SettingsError
from pipeline.registry import RegisteredSchema, Registry, RegistryAddress, RegistryUnavailable, UnknownSchema
from pipeline.settings import AVRO, JSON, PROTOBUF, Settings

FRAME = struct.Struct(">bi")
NOT_FRAMED = "has no id of a schema (a zero and four bytes)"
DECODED = "text STRING, reason STRING"
PACKAGES = {AVRO: ("fastavro", "fastavro"), PROTOBUF: ("google.protobuf", "protobuf")}  # the module, and its package
KEPT_SCHEMAS = 1_000
Reader = Callable[[bytes], Any]


def require(settings: Settings) -> None:
    """Make sure that the driver can decode: package and registry are there.

    Raises:
        SettingsError: the package is missing.
        BrokerUnreachable: the registry does not answer.
    """
    if settings.value_format == JSON:
        return
    module, package = PACKAGES[settings.value_format]
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise SettingsError(f"value_format is {settings.value_format}, which needs the package {package}") from error
    try:
        Registry(registry_address(settings)).require_reachable()
    except RegistryUnavailable as error:
        raise BrokerUnreachable(f"the schema registry {error}; the setting is schema_registry") from error


def registry_address(settings: Settings) -> RegistryAddress:
    """Return the address with the content of the file of authorities: executors have no such file.

    Raises:
        SettingsError: the file has no certificate.
    """
    file = settings.schema_registry_ca_file
    # OpenSSL takes ASCII alone; bundles have comments in other letters
    text = Path(file).read_text(encoding="ascii", errors="backslashreplace") if file else ""
    address = RegistryAddress(settings.schema_registry, text)
    try:
        Registry(address)
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(f"schema_registry_ca_file: {file} has no certificate in PEM ({error})") from error
    return address


def decoded(value: Column, settings: Settings) -> Column:
    """Return a struct of the value as JSON text and the reason why there is none; both are null without a value."""
    address, kind = registry_address(settings), settings.value_format.upper()

    def decode(value: bytes | None) -> tuple[str | None, str | None]:
        return text_of(bytes(value), address, kind) if value else (None, None)

    return F.udf(decode, DECODED, useArrow=False)(value)


def text_of(value: bytes, address: RegistryAddress, kind: str) -> tuple[str | None, str | None]:
    """Return a framed value as JSON text, or None and the reason.

    Raises:
        RegistryUnavailable: the schema can't be had now.
    """
    if len(value) < FRAME.size or value[0]:
        return None, NOT_FRAMED
    schema_id: int = FRAME.unpack_from(value)[1]
    read = reader(address, schema_id, kind)
    if isinstance(read, str):
        return None, read
    try:
        found = read(value[FRAME.size :])
        return json.dumps(found, ensure_ascii=False, default=plain), None
    except (MemoryError, RegistryUnavailable):
        raise
    except Exception:  # whatever a library says of bytes that anybody may have written
        return None, f"not of schema {schema_id}"


@lru_cache(KEPT_SCHEMAS)
def _reader(address: RegistryAddress, schema_id: int, kind: str) -> Reader | str:
    make, form = readers()[kind]
    schema = Registry(address, form).schema(schema_id)
    if schema.kind != kind:
        return f"schema {schema_id} is {schema.kind}, not {kind}"
    try:
        return make(schema)
    except Exception:  # a text that the registry took and the library does not
        return f"schema {schema_id} can't be read"


def reader(address: RegistryAddress, schema_id: int, kind: str) -> Reader | str:
    """Return the function that reads values of a schema, or the reason why there is none."""
    try:
        return _reader(address, schema_id, kind)
    except UnknownSchema:  # not kept: the next record may come after its registration
        return f"no schema {schema_id} in the registry"


def avro_reader(schema: RegisteredSchema) -> Reader:
    """Return the reader of a schema of Avro.

    Whoever writes to the topic chooses the bytes. The compiled reader ends its process at some thousand values within
    each other, so a schema that allows these is read by the reader in Python, which raises RecursionError.

    Raises:
        ValueError: the schema has items without bytes, of which ten bytes can hold any number.
    """
    from fastavro import _read_py, parse_schema, schemaless_reader

    names: dict[str, Any] = {}
    for text in schema.references.values():
        parse_schema(json.loads(text), named_schemas=names)
    parsed = parse_schema(json.loads(schema.text), named_schemas=names)
    shape = AvroShape(names)
    shape.look_at(parsed)
    read_one = _read_py.schemaless_reader if shape.is_recursive else schemaless_reader

    def read(data: bytes) -> Any:
        stream = BytesIO(data)
        found = read_one(stream, parsed, None)
        if stream.read(1):
            raise ValueError("bytes follow the value")
        return found

    return read


class AvroShape:
    """The shape of a schema: whether its values may be in each other without an end.

    names: the named types of the schema.
    """

    def __init__(self, names: dict[str, Any]) -> None:
        self.is_recursive = False
        self._names = names
        self._within: list[str] = []
        self._known: dict[str, bool] = {}  # what was found of named types: a type may be named again and again

    def look_at(self, schema: Any) -> bool:
        """Return whether each value of a parsed type takes at least a byte.

        Raises:
            ValueError: items of an array take none.
        """
        if isinstance(schema, list):  # a union's value begins with its number
            for each in schema:
                self.look_at(each)
            return True
        if not isinstance(schema, str):
            return self._look_into(schema)
        if schema in self._within:
            self.is_recursive = True
            return True
        if schema not in self._known:
            self._known[schema] = self._look_into(self._names.get(schema, {"type": schema}))
        return self._known[schema]

    def _look_into(self, found: dict[str, Any]) -> bool:
        kind = found["type"]
        if kind == "array" and not self.look_at(found["items"]):
            raise ValueError("items without bytes")
        if kind == "map":  # a key takes a byte
            self.look_at(found["values"])
        if kind in ("record", "error"):
            self._within.append(found["name"])
            takes = [self.look_at(field["type"]) for field in found["fields"]]
            self._within.pop()
            return any(takes)
        return kind != "null" and bool(found.get("size", 1))


def plain(value: Any) -> Any:
    """Return a value that JSON does not know as Spark's JSON parser reads it for the type that it has."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(type(value).__name__)


def readers() -> dict[str, tuple[Callable[[RegisteredSchema], Reader], str]]:
    """Return what makes a reader, and the form in which the registry tells the schema, by kind."""

    def protobuf_reader(schema: RegisteredSchema) -> Reader:
        from pipeline.protobuf import reader as of_protobuf

        return of_protobuf(schema)

    return {"AVRO": (avro_reader, ""), "PROTOBUF": (protobuf_reader, "serialized")}
