"""Avro's types as objects, read from a schema's JSON by the rules of the specification.

Rule: what the Java library takes is taken, what it refuses is refused: names, symbols, sizes, unions, defaults.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pykafka_broker.registry.problems import InvalidSchema

Json = Any
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
MISSING = object()  # no default; null is one
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OWN = {
    "record": {"type", "name", "namespace", "doc", "fields", "aliases"},
    "error": {"type", "name", "namespace", "doc", "fields", "aliases"},
    "enum": {"type", "name", "namespace", "doc", "symbols", "default", "aliases"},
    "fixed": {"type", "name", "namespace", "doc", "size", "aliases"},
    "array": {"type", "items"},
    "map": {"type", "values"},
}
_OWN_OF_FIELD = {"name", "type", "doc", "default", "order", "aliases"}


@dataclass(eq=False, slots=True)
class Type:
    """`name` is the full one. `branches` are a union's, `items` what arrays and maps hold."""

    kind: str
    name: str = ""
    doc: str | None = None
    aliases: list[str] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    default: str | None = None
    size: int = 0
    items: Type | None = None
    branches: list[Type] = field(default_factory=list)
    properties: dict[str, Json] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Field:
    name: str
    type: Type
    doc: str | None
    default: Json
    order: str
    aliases: list[str]
    properties: dict[str, Json]


class Reader:
    """Reads types; `names` has those that were read."""

    def __init__(self) -> None:
        self.names: dict[str, Type] = {}

    def read(self, found: Json, namespace: str = "") -> Type:
        """Raises InvalidSchema."""
        if isinstance(found, str):
            return self._named(found, namespace)
        if isinstance(found, list):
            return self._union(found, namespace)
        if not isinstance(found, dict) or "type" not in found:
            raise InvalidSchema(f"No type: {found}")
        kind = found["type"]
        if not isinstance(kind, str):  # {"type": {...}}: what stands in it
            return self.read(kind, namespace)
        if kind in PRIMITIVES:
            return Type(kind, properties=_rest(found, {"type"}))
        if kind in NAMED:
            return self._definition(kind, found, namespace)
        if kind == "array" or kind == "map":
            within = "items" if kind == "array" else "values"
            if within not in found:
                raise InvalidSchema(f"No {within} type: {found}")
            return Type(kind, items=self.read(found[within], namespace), properties=_rest(found, _OWN[kind]))
        return self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return Type(name)
        for full in (name,) if "." in name else (f"{namespace}.{name}" if namespace else name, name):
            if full in self.names:
                return self.names[full]
        raise InvalidSchema(f'Undefined name: "{name}"')

    def _union(self, found: list[Json], namespace: str) -> Type:
        branches = [self.read(each, namespace) for each in found]
        seen = set()
        for branch in branches:
            if branch.kind == "union":
                raise InvalidSchema("Nested union")
            if (called := branch.name or branch.kind) in seen:
                raise InvalidSchema(f"Duplicate in union: {called}")
            seen.add(called)
        return Type("union", branches=branches)

    def _definition(self, kind: str, found: dict[str, Json], namespace: str) -> Type:
        full, namespace = _full_name(found, namespace)
        if full in self.names:
            raise InvalidSchema(f"Can't redefine: {full}")
        aliases = [alias if "." in alias or not namespace else f"{namespace}.{alias}" for alias in _aliases(found)]
        made = Type(kind, full, _text(found, "doc"), aliases, properties=_rest(found, _OWN[kind]))
        self.names[full] = made
        if kind == "enum":
            _read_enum(made, found)
        elif kind == "fixed":
            made.size = _size(found)
        else:
            made.fields = self._fields(found, namespace)
        return made

    def _fields(self, found: dict[str, Json], namespace: str) -> list[Field]:
        listed = found.get("fields")
        if not isinstance(listed, list):
            raise InvalidSchema("Record has no fields")
        fields = [self._field(each, namespace) for each in listed]
        names = [each.name for each in fields]
        if len(set(names)) < len(names):
            name = Counter(names).most_common(1)[0][0]
            raise InvalidSchema(f"Duplicate field {name} in record {found['name']}")
        return fields

    def _field(self, found: Json, namespace: str) -> Field:
        if not isinstance(found, dict) or "type" not in found:
            raise InvalidSchema(f"No field type: {found}")
        name, order = _valid_name(found.get("name")), found.get("order", "ascending")
        if order not in ("ascending", "descending", "ignore"):
            raise InvalidSchema(f"the order of field {name} is {order}")
        kind = self.read(found["type"], namespace)
        default = found.get("default", MISSING)
        if default is not MISSING and not fits(kind, default):
            raise InvalidSchema(f"Invalid default for field {name}: {default}")
        properties = _rest(found, _OWN_OF_FIELD)
        return Field(name, kind, _text(found, "doc"), default, order, _aliases(found), properties)


def fits(kind: Type, value: Json) -> bool:
    """Whether that is a default of the type, as JSON writes it."""
    match kind.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if kind.kind == "int" else 63
            return type(value) is int and -(1 << bits) <= value < 1 << bits
        case "float" | "double":
            return type(value) in (int, float)
        case "string":
            return isinstance(value, str)
        case "bytes":
            return isinstance(value, str) and all(ord(each) < 256 for each in value)
        case "fixed":
            return isinstance(value, str) and all(ord(each) < 256 for each in value) and len(value) == kind.size
        case "enum":
            return isinstance(value, str) and value in kind.symbols
        case "array":
            return isinstance(value, list) and all(fits(_of(kind), each) for each in value)
        case "map":
            return isinstance(value, dict) and all(fits(_of(kind), each) for each in value.values())
        case "union":
            return any(fits(branch, value) for branch in kind.branches)
    if not isinstance(value, dict):
        return False
    return all(
        fits(each.type, value[each.name]) if each.name in value else each.default is not MISSING for each in kind.fields
    )


def _of(kind: Type) -> Type:
    assert kind.items is not None
    return kind.items


def _read_enum(made: Type, found: dict[str, Json]) -> None:
    symbols, default = found.get("symbols"), found.get("default")
    if not isinstance(symbols, list):
        raise InvalidSchema(f"Enum has no symbols: {made.name}")
    made.symbols = [_valid_name(each) for each in symbols]
    if len(set(symbols)) < len(symbols):
        raise InvalidSchema(f"Duplicate enum symbol in {made.name}")
    if default is not None and default not in made.symbols:
        raise InvalidSchema(f"The Enum Default: {default} is not in the enum symbol set: {symbols}")
    made.default = default


def _size(found: dict[str, Json]) -> int:
    size = found.get("size")
    if type(size) is not int or size < 0:
        raise InvalidSchema(f"Invalid or no size: {found}")
    return size


def _full_name(found: dict[str, Json], namespace: str) -> tuple[str, str]:
    """The full name of what is defined there, and the namespace of what stands in it."""
    name = found.get("name")
    if not isinstance(name, str):
        raise InvalidSchema(f"No name in schema: {found}")
    own = found.get("namespace")
    if "." in name:
        namespace, _, name = name.rpartition(".")
    elif isinstance(own, str):
        namespace = own
    if namespace:
        for part in namespace.split("."):
            _valid_name(part)
    if _valid_name(name) in PRIMITIVES and not namespace:
        raise InvalidSchema(f"Schemas may not be named after primitives: {name}")
    return (f"{namespace}.{name}" if namespace else name), namespace


def _valid_name(name: Json) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidSchema(f"Illegal name: {name}")
    return name


def _aliases(found: dict[str, Json]) -> list[str]:
    aliases = found.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(each, str) for each in aliases):
        raise InvalidSchema(f"aliases not an array of names: {aliases}")
    return aliases


def _text(found: dict[str, Json], name: str) -> str | None:
    text = found.get(name)
    return text if isinstance(text, str) else None


def _rest(found: Mapping[str, Json], own: set[str]) -> dict[str, Json]:
    return {name: value for name, value in found.items() if name not in own}
