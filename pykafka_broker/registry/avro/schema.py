"""An Avro schema, and its text as the Java library writes it.

Rule: what means something is in the canonical text (docs, aliases, defaults and properties too), in one order and with
names split one way; white space and what can be left out is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from pykafka_broker.registry.avro.compatibility import incompatibilities
from pykafka_broker.registry.avro.types import MISSING, NAMED, Field, Reader, Type
from pykafka_broker.registry.kinds import read_json, write_json
from pykafka_broker.registry.problems import InvalidSchema

Json = Any
_BARE = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}


class AvroSchema:
    """`type` is what it is; `elsewhere` the names that other schemas have defined."""

    def __init__(self, type: Type, elsewhere: frozenset[str]) -> None:
        self.type = type
        self._elsewhere = elsewhere
        self.canonical = self.identity = write_json(_Writer(elsewhere, ordered=False).write(type, ""))

    @cached_property
    def normalized(self) -> str:
        return write_json(_Writer(self._elsewhere, ordered=True).write(self.type, ""))

    def differences(self, written: Self) -> list[str]:
        return incompatibilities(self.type, written.type)

    def formatted(self, form: str) -> str:
        return self.canonical


def parse(text: str, library: Mapping[str, str]) -> AvroSchema:
    """Raises InvalidSchema."""
    reader = Reader()
    for needed in library.values():
        reader.read(_json(needed))
    elsewhere = frozenset(reader.names)
    return AvroSchema(reader.read(_json(text)), elsewhere)


def _json(text: str) -> Json:
    """The name of a primitive type may stand without quotes, as Java's parser has it."""
    if text.strip() in _BARE - {"null"}:
        return text.strip()
    found = read_json(text)
    if not isinstance(found, str | list | dict):
        raise InvalidSchema(f"No type: {found}")
    return found


class _Writer:
    """A type as JSON; what has been defined is called by its name after that."""

    def __init__(self, defined: frozenset[str], ordered: bool) -> None:
        self._defined = set(defined)
        self._ordered = ordered

    def write(self, kind: Type, namespace: str) -> Json:
        if kind.kind == "union":
            return [self.write(each, namespace) for each in kind.branches]
        if kind.kind in NAMED:
            return self._write_named(kind, namespace)
        if kind.items is not None:
            within = "items" if kind.kind == "array" else "values"
            return {"type": kind.kind, within: self.write(kind.items, namespace), **self._properties(kind)}
        return {"type": kind.kind, **self._properties(kind)} if kind.properties else kind.kind

    def _write_named(self, kind: Type, namespace: str) -> Json:
        own, _, name = kind.name.rpartition(".")
        if kind.name in self._defined:
            return name if own == namespace else kind.name
        self._defined.add(kind.name)
        written: dict[str, Json] = {"type": kind.kind, "name": name}
        if own != namespace:
            written["namespace"] = own
        if kind.doc is not None:
            written["doc"] = kind.doc
        if kind.kind == "enum":
            written["symbols"] = kind.symbols
            if kind.default is not None:
                written["default"] = kind.default
        elif kind.kind == "fixed":
            written["size"] = kind.size
        else:
            written["fields"] = [self._write_field(each, own) for each in kind.fields]
        written |= self._properties(kind)
        if kind.aliases:
            written["aliases"] = [
                alias.removeprefix(f"{own}.") if own and "." not in alias.removeprefix(f"{own}.") else alias
                for alias in kind.aliases
            ]
        return written

    def _write_field(self, field: Field, namespace: str) -> Json:
        written: dict[str, Json] = {"name": field.name, "type": self.write(field.type, namespace)}
        if field.doc is not None:
            written["doc"] = field.doc
        if field.default is not MISSING:
            written["default"] = field.default
        if field.order != "ascending":
            written["order"] = field.order
        if field.aliases:
            written["aliases"] = field.aliases
        return written | self._properties(field)

    def _properties(self, of: Type | Field) -> dict[str, Json]:
        return dict(sorted(of.properties.items())) if self._ordered else of.properties
