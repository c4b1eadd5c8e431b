"""Typed nodes of a message schema. Rule: what the JSON leaves implied (defaults, Python names) is settled here."""

from __future__ import annotations

import json
import keyword
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol.generator.versions import Versions

# struct format of the types whose size doesn't depend on their value
FIXED = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I", "float64": "d",
    "uuid": "16s",
}  # fmt: skip
PYTHON_TYPES = {
    "bool": "bool", "float64": "float", "uuid": "bytes", "string": "str", "bytes": "bytes", "records": "Records",
}  # fmt: skip

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake(name: str) -> str:
    """Return `topic_id` for `TopicId`; KRaft is a single word; a keyword gets a trailing underscore."""
    words = _WORD_START.sub("_", name.replace("KRaft", "Kraft")).lower()
    return words + "_" if keyword.iskeyword(words) else words


@dataclass(frozen=True)
class Field:
    """A field of a struct, over all versions."""

    name: str  # as in the schema
    python: str
    type: str  # a key of FIXED, "string", "bytes", "records", or a struct's name
    array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    flexible: Versions | None  # overrides the message's, for the request header's client id only
    tag: int | None
    default: str | None  # the schema's text; "null" is null
    ignorable: bool

    @property
    def is_struct(self) -> bool:
        return self.type not in FIXED and self.type not in PYTHON_TYPES

    @property
    def default_is_null(self) -> bool:
        if self.is_struct and not self.array and self.tagged:
            return False  # whatever the schema says: Kafka leaves out one of default values, and writes a null
        return self.default == "null" or (self.type == "records" and not self.array and bool(self.nullable))

    @property
    def element_type(self) -> str:
        return self.type if self.is_struct else PYTHON_TYPES.get(self.type, "int")

    @property
    def annotation(self) -> str:
        """The Python type of the attribute."""
        text = f"list[{self.element_type}]" if self.array else self.element_type
        optional = (self.nullable or self.default_is_null) and text != "Records"
        return f"{text} | None" if optional else text

    @property
    def default_literal(self) -> str:
        """Return the default as a Python expression; `EMPTY` stands for a new array or struct."""
        if self.default_is_null:
            return "None"
        if self.array or self.is_struct:
            return "EMPTY"
        if self.type in ("string", "bytes", "records"):
            return repr(self.default or "") if self.type == "string" else 'b""'
        if self.type == "uuid":
            return "ZERO_UUID"
        if self.type == "bool":
            return str(self.default == "true")
        return str(float(self.default or 0)) if self.type == "float64" else str(int(self.default or "0", 0))


@dataclass(frozen=True)
class StructType:
    """A struct of a message, or the message itself."""

    name: str
    fields: tuple[Field, ...]


@dataclass
class Message:
    """A schema file."""

    name: str
    kind: str  # request, response, header, data, metadata, coordinator-key, coordinator-value
    area: str  # the jar it comes from: clients, group-coordinator, metadata, ...
    api_key: int | None
    versions: Versions
    flexible: Versions
    latest_unstable: bool
    listeners: tuple[str, ...]
    root: StructType
    structs: dict[str, StructType] = field(default_factory=dict)  # innermost first, without the root

    @property
    def module(self) -> str:
        return snake(self.name)

    @property
    def is_bounded(self) -> bool:
        """Return whether elements and tagged fields are counted and bounded, as any client may send the message."""
        return self.kind == "request" or self.name == "RequestHeader"

    @property
    def folder(self) -> str:
        """Return `messages` for requests and responses, `stored` for records on disk."""
        travels = self.kind in ("request", "response", "header") or self.name in TRAVELLING_DATA
        return "messages" if travels else "stored"


# Of type "data" and yet not on disk: they travel inside the bytes of other messages.
TRAVELLING_DATA = ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription", "DefaultPrincipalData")


def parse_message(raw: dict[str, Any], area: str) -> Message:
    """Return the message of a schema file."""
    structs: dict[str, StructType] = {}
    for common in raw.get("commonStructs", []):
        _parse_struct(common["name"], common["fields"], structs)
    root = StructType(raw["name"], tuple(_parse_field(inner, structs) for inner in raw["fields"]))
    return Message(
        name=raw["name"],
        kind=raw["type"],
        area=area,
        api_key=raw.get("apiKey"),
        versions=Versions.parse(raw["validVersions"]),
        flexible=Versions.parse(raw.get("flexibleVersions")),
        latest_unstable=bool(raw.get("latestVersionUnstable")),
        listeners=tuple(raw.get("listeners", ())),
        root=root,
        structs=structs,
    )


def _parse_struct(name: str, fields: list[dict[str, Any]], structs: dict[str, StructType]) -> None:
    parsed = StructType(name, tuple(_parse_field(inner, structs) for inner in fields))
    if structs.setdefault(name, parsed) != parsed:
        raise ValueError(f"two different structs are called {name}")


def _parse_field(raw: dict[str, Any], structs: dict[str, StructType]) -> Field:
    array = raw["type"].startswith("[]")
    name = raw["type"].removeprefix("[]")
    if "fields" in raw:
        _parse_struct(name, raw["fields"], structs)
    return Field(
        name=raw["name"],
        python=snake(raw["name"]),
        type=name,
        array=array,
        versions=Versions.parse(raw.get("versions", raw.get("taggedVersions"))),
        nullable=Versions.parse(raw.get("nullableVersions")),
        tagged=Versions.parse(raw.get("taggedVersions")),
        flexible=Versions.parse(raw["flexibleVersions"]) if "flexibleVersions" in raw else None,
        tag=raw.get("tag"),
        default=raw.get("default"),
        ignorable=bool(raw.get("ignorable")),
    )


def load_messages(schemas: Path) -> list[Message]:
    """Return the messages of the committed schemas, by name."""
    paths = sorted(schemas.glob("*/*.json"), key=lambda path: path.stem)
    return [parse_message(json.loads(path.read_text()), path.parent.name) for path in paths]
