"""Avro schemas: read, compared, written as the Java library writes them; and Avro's binary data as JSON.

Rule: exactly the schemas that the Java library accepts are valid: names, symbols, sizes, unions, defaults. The
canonical text keeps everything with a meaning (docs, aliases, defaults and properties too) in one order, with names
split in one way; white space and redundant parts are dropped. All reasons of an incompatibility are told, in the words
of Confluent's registry, with the path in the reader's schema.

A module of its own, imported with the first Avro schema; so are the other languages with theirs.

The binary data may come from anybody. Data nested deeper than `_DEEPEST`, or with more than `_MOST_VALUES` values, is
refused, and few bytes may have few values: so neither stack nor memory grows by the claims of a few bytes. Data that
does not fit its schema raises ValueError.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set, Sized
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from math import isfinite, isnan
from typing import Any, NamedTuple, Self

from pykafka_broker.config.values import java_double
from pykafka_broker.protocol.runtime import DecodeError, read_varlong
from pykafka_broker.registry.kinds import Effort, Parsed, read_json, write_json
from pykafka_broker.registry.problems import InvalidSchema

# -- types


Json = Any
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
MISSING = object()  # no default; null would be a default
_MOST_BYTES = 2_147_483_639  # of a fixed type: the longest array of Java
# The names that are no properties of any type: the Java library drops those without a meaning for the type.
_OWN = frozenset({"type", "name", "namespace", "doc", "aliases", "fields", "symbols", "size", "items", "values"})
_OWN_OF_FIELD = {"name", "type", "doc", "default", "order", "aliases"}


@dataclass(eq=False, slots=True)
class Type:
    """An Avro type. name: the full name. branches: of a union. items: of an array or a map."""

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
    """A reader of types; `names` has the types read so far."""

    def __init__(self, effort: Effort | None = None) -> None:
        self.names: dict[str, Type] = {}
        self._effort = effort or Effort()
        self._awaited: dict[str, Type] = {}  # by name: mentioned before their definition
        self._unchecked: list[tuple[Type, Json, str]] = []  # defaults that came before such a definition

    def read_whole(self, found: Json) -> Type:
        """Read a text with the definitions of all types that it mentions. Raises InvalidSchema."""
        made = self.read(found)
        for name in self._awaited:
            raise InvalidSchema(f'Undefined name: "{name}"')
        for kind, default, name in self._unchecked:
            self._check_default(kind, default, name)
        return made

    def read(self, found: Json, namespace: str = "") -> Type:
        """Read a type. Raises InvalidSchema."""
        if isinstance(found, str):
            return self._named(found, namespace)
        if isinstance(found, list):
            return self._union(found, namespace)
        if not isinstance(found, dict) or "type" not in found:
            raise InvalidSchema(f"No type: {found}")
        kind = found["type"]
        if not isinstance(kind, str):
            raise InvalidSchema(f"No type: {found}")
        if kind in PRIMITIVES:
            return Type(kind, properties=_rest(found, _OWN))
        if kind in NAMED:
            return self._definition(kind, found, namespace)
        if kind == "array" or kind == "map":
            within = "items" if kind == "array" else "values"
            if within not in found:
                raise InvalidSchema(f"No {within} type: {found}")
            return Type(kind, items=self.read(found[within], namespace), properties=_rest(found, _OWN))
        return self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return Type(name)
        names = (name,) if "." in name or not namespace else (f"{namespace}.{name}", name)
        for full in names:
            if full in self.names:
                return self.names[full]
        return self._awaited.setdefault(names[0], Type("", names[0]))

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
        for alias in aliases:
            for part in alias.split("."):
                _valid_name(part)
        made = self.names[full] = self._awaited.pop(full, Type(kind, full))
        made.kind, made.doc, made.aliases = kind, _text(found, "doc"), aliases
        made.properties = _rest(found, _OWN | {"default"} if kind == "enum" else _OWN)
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
        if not isinstance(order, str) or order.lower() not in ("ascending", "descending", "ignore"):
            raise InvalidSchema(f"the order of field {name} is {order}")
        kind = self.read(found["type"], namespace)
        default = found.get("default", MISSING)
        if isinstance(default, str) and kind.kind in ("float", "double"):
            default = _number_of(default, name)
        elif self._awaited:
            self._unchecked.append((kind, default, name))
        else:
            self._check_default(kind, default, name)
        aliases = list(dict.fromkeys(_aliases(found)))
        return Field(name, kind, _text(found, "doc"), default, order.lower(), aliases, _rest(found, _OWN_OF_FIELD))

    def _check_default(self, kind: Type, default: Json, name: str) -> None:
        if default is not MISSING and not fits(kind, default, self._effort):
            raise InvalidSchema(f"Invalid default for field {name}: {default}")


def _number_of(default: str, field: str) -> float | str:
    """Return the number in the text of a default; text for the numbers that JSON lacks. Raises InvalidSchema."""
    try:
        number = java_double(default)
    except ValueError:
        raise InvalidSchema(f"Invalid default for field {field}: {default}") from None
    if isfinite(number):
        return number
    return "NaN" if isnan(number) else "Infinity" if number > 0 else "-Infinity"


def fits(kind: Type, value: Json, effort: Effort) -> bool:
    """Return whether a JSON value is a valid default of the type. Raises InvalidSchema for a too long check."""
    return _Fitting(effort).fits(kind, value)


class _Fitting:
    """A check of a default. Each type meets each value once: unions within unions would multiply the checks."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._known: dict[tuple[int, int], bool] = {}

    def fits(self, kind: Type, value: Json) -> bool:
        self._effort.spend()
        if not isinstance(value, dict | list):
            return self._fits(kind, value)
        pair = id(kind), id(value)
        if pair not in self._known:
            self._known[pair] = self._fits(kind, value)
        return self._known[pair]

    def _fits(self, kind: Type, value: Json) -> bool:
        match kind.kind:
            case "array":
                return isinstance(value, list) and all(self.fits(_of(kind), each) for each in value)
            case "map":
                return isinstance(value, dict) and all(self.fits(_of(kind), each) for each in value.values())
            case "union":
                return any(self.fits(branch, value) for branch in kind.branches)
            case "record" | "error":
                return isinstance(value, dict) and all(
                    self.fits(each.type, value[each.name]) if each.name in value else each.default is not MISSING
                    for each in kind.fields
                )
        return _fits_plain(kind, value)


def _fits_plain(kind: Type, value: Json) -> bool:
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
    return isinstance(value, str)  # whatever a fixed type or an enum may hold, as in the Java library


def _of(kind: Type) -> Type:
    assert kind.items is not None
    return kind.items


def _read_enum(made: Type, found: dict[str, Json]) -> None:
    symbols, default = found.get("symbols"), _text(found, "default")
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
    if type(size) is not int or not 0 <= size <= _MOST_BYTES:
        raise InvalidSchema(f"Invalid or no size: {found}")
    return size


def _full_name(found: dict[str, Json], namespace: str) -> tuple[str, str]:
    """Return the full name of a definition, and the namespace of the names within."""
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
    """Return a name: letters and digits of any script and underscores, as in Java. Raises InvalidSchema."""
    if (
        not isinstance(name, str)
        or not (name[:1].isalpha() or name[:1] == "_")
        or not all(each.isalpha() or each.isdecimal() or each == "_" for each in name)
        or max(name) > "\uffff"  # two characters for Java, neither of them a letter
    ):
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


def _rest(found: Mapping[str, Json], own: Set[str]) -> dict[str, Json]:
    return {name: value for name, value in found.items() if name not in own}


# -- compatibility


_PROMOTED_TO = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_STEPS_OF_A_REASON = 32  # for each type that has it
_SAYS = {
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the {{new}} schema does not match with "
    "the {{old}} schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the {{new}} schema does not match with the {{old}} schema",
    "MISSING_ENUM_SYMBOLS": "The {{new}} schema is missing enum symbols '{info}' at path '{path}' in the {{old}} "
    "schema",
    "MISSING_UNION_BRANCH": "The {{new}} schema is missing a type inside a union field at path '{path}' in the {{old}} "
    "schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{info}' at path '{path}' in the {{new}} schema has no default "
    "value and is missing in the {{old}} schema",
    "AMBIGUOUS_FIELD": "The field '{info}' at path '{path}' in the {{new}} schema matches several fields in the "
    "{{old}} schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
}


class Reason(NamedTuple):
    kind: str
    path: str
    info: str

    def __str__(self) -> str:
        path, info = self.path or "/", self.info.replace("{", "{{").replace("}", "}}")
        says = _SAYS[self.kind].format(path=path, info=info)
        return f"{{{{errorType:'{self.kind}', description:'{says}', additionalInfo:'{info}'}}}}"


class _Comparison:
    """A comparison of types. Pairs under comparison count as compatible: types may contain themselves."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._known: dict[tuple[int, int], list[Reason]] = {}
        self._branches: dict[int, dict[str, list[tuple[int, Type]]]] = {}  # of unions

    def compare(self, reader: Type, writer: Type, path: str) -> list[Reason]:
        pair = id(reader), id(writer)
        if pair not in self._known:
            self._known[pair] = []
            self._known[pair] = self._compare(reader, writer, path)
        found = self._known[pair]
        self._effort.spend(1 + _STEPS_OF_A_REASON * len(found))
        return found

    def _compare(self, reader: Type, writer: Type, path: str) -> list[Reason]:
        if writer.kind == "union":
            return self._of_union(reader, writer, path)
        if reader.kind == "union":
            return [] if self._has_branch(reader, writer, path) else [_lacking(writer, path)]
        if _called(reader) != _called(writer):
            if reader.kind in _PROMOTED_TO.get(writer.kind, ()):
                return []
            says = f"reader type: {_called(reader)} not compatible with writer type: {_called(writer)}"
            return [Reason("TYPE_MISMATCH", path, says)]
        if reader.items is not None and writer.items is not None:
            return self.compare(reader.items, writer.items, f"{path}/{'items' if reader.kind == 'array' else 'values'}")
        return self._of_named(reader, writer, path) if reader.name else []

    def _of_union(self, reader: Type, writer: Type, path: str) -> list[Reason]:
        found: list[Reason] = []
        for index, branch in enumerate(writer.branches):
            if reader.kind != "union":
                found += self.compare(reader, branch, f"{path}/{index}")
            elif not self._has_branch(reader, branch, path):
                found.append(_lacking(branch, f"{path}/{index}"))
        return found

    def _has_branch(self, reader: Type, writer: Type, path: str) -> bool:
        if id(reader) not in self._branches:
            self._branches[id(reader)] = _by_name(reader.branches)
        by_name = self._branches[id(reader)]
        candidates = [*by_name[""], *(by_name.get(_last(writer.name), ()) if writer.name else ())]
        return any(not self.compare(branch, writer, f"{path}/{index}") for index, branch in candidates)

    def _of_named(self, reader: Type, writer: Type, path: str) -> list[Reason]:
        found: list[Reason] = []
        parts: tuple[Sized, ...] = (reader.aliases, reader.fields, writer.fields, reader.symbols, writer.symbols)
        self._effort.spend(sum(len(each) for each in parts) >> 2)
        if _last(reader.name) != _last(writer.name) and writer.name not in reader.aliases:
            found.append(Reason("NAME_MISMATCH", f"{path}/name", f"expected: {writer.name}"))
        if reader.kind == "fixed" and reader.size != writer.size:
            found.append(
                Reason("FIXED_SIZE_MISMATCH", f"{path}/size", f"expected: {writer.size}, found: {reader.size}")
            )
        if reader.kind == "enum" and reader.default is None:
            missing = sorted(set(writer.symbols) - set(reader.symbols))
            if missing:
                found.append(Reason("MISSING_ENUM_SYMBOLS", f"{path}/symbols", f"[{', '.join(missing)}]"))
        by_name = {each.name: each for each in writer.fields}
        for index, each in enumerate(reader.fields):
            found += self._of_field(each, by_name, f"{path}/fields/{index}")
        return found

    def _of_field(self, field: Field, written: dict[str, Field], path: str) -> list[Reason]:
        names = [name for name in (field.name, *field.aliases) if name in written]
        if len(names) > 1:
            return [Reason("AMBIGUOUS_FIELD", path, field.name)]
        if names:
            return self.compare(field.type, written[names[0]].type, f"{path}/type")
        if field.default is not MISSING or (field.type.kind == "enum" and field.type.default is not None):
            return []
        return [Reason("READER_FIELD_MISSING_DEFAULT_VALUE", path, field.name)]


def _by_name(branches: list[Type]) -> dict[str, list[tuple[int, Type]]]:
    """Return numbered branches by the last part of name and aliases; unnamed types are under the empty name."""
    found: dict[str, list[tuple[int, Type]]] = {"": []}
    for index, branch in enumerate(branches):
        for name in {_last(each) for each in (branch.name, *branch.aliases)}:
            found.setdefault(name, []).append((index, branch))
    return found


def _lacking(writer: Type, path: str) -> Reason:
    return Reason("MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {_called(writer)}")


def _called(kind: Type) -> str:
    """Return the name of a type's kind in reasons; an error is a record."""
    return "RECORD" if kind.kind == "error" else kind.kind.upper()


def _last(name: str) -> str:
    return name.rpartition(".")[2]


# -- the schema


class AvroSchema(Parsed):
    """A schema. elsewhere: the names defined by referenced schemas."""

    def __init__(self, type: Type, elsewhere: frozenset[str]) -> None:
        self.type = type
        self._elsewhere = elsewhere
        self.canonical = self.identity = write_json(_SchemaWriter(elsewhere, ordered=False).write(type, ""))

    @cached_property
    def normalized(self) -> str:
        return write_json(_SchemaWriter(self._elsewhere, ordered=True).write(self.type, ""))

    @property
    def fields(self) -> set[str]:
        return {each.name for each in self.type.fields}

    def differences(self, written: Self) -> list[str]:
        effort = Effort(len(self.canonical) + len(written.canonical))
        return [str(each) for each in _Comparison(effort).compare(self.type, written.type, "")]


def parse(text: str, library: Mapping[str, str]) -> AvroSchema:
    """Parse a schema. Raises InvalidSchema."""
    reader = Reader(Effort(len(text) + sum(map(len, library.values()))))
    for needed in library.values():
        reader.read_whole(_json(needed))
    elsewhere = frozenset(reader.names)
    return AvroSchema(reader.read_whole(_json(text)), elsewhere)


def _json(text: str) -> Json:
    """Read JSON; the name of a primitive type may lack quotes, as for Java's parser."""
    if text.strip() in PRIMITIVES - {"null"}:
        return text.strip()
    found = read_json(text)
    if not isinstance(found, str | list | dict):
        raise InvalidSchema(f"No type: {found}")
    return found


class _SchemaWriter:
    """A writer of types as JSON; a second mention of a type is its name."""

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


# -- binary data


_DEEPEST = 200  # types within types
_MOST_VALUES = 1 << 20
_VALUES_OF_EVERY_DATA = 1 << 14
_VALUES_OF_A_BYTE = 64  # a value may take none: null, an empty record
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class Reading:
    """A reader of binary data, from the first byte on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._values = 0
        self._most_values = min(_MOST_VALUES, _VALUES_OF_EVERY_DATA + _VALUES_OF_A_BYTE * len(data))

    def value(self, kind: Type, depth: int = 0) -> Json:
        """Return a value as JSON. Raises ValueError."""
        if depth > _DEEPEST:
            raise ValueError(f"it is nested deeper than {_DEEPEST} levels")
        self._values += 1
        if self._values > self._most_values:
            raise ValueError(f"it has more than {self._most_values} values")
        match kind.kind:
            case "union":
                return self.value(_one_of(kind.branches, self._long()), depth + 1)
            case "record" | "error":
                return {each.name: self.value(each.type, depth + 1) for each in kind.fields}
            case "array":
                return [self.value(_of(kind), depth + 1) for _ in self._counted()]
            case "map":
                return {self._text(): self.value(_of(kind), depth + 1) for _ in self._counted()}
        return self._logical(kind, self._plain(kind))

    def _plain(self, kind: Type) -> Json:
        match kind.kind:
            case "null":
                return None
            case "boolean":
                return self._take(1) != b"\0"
            case "int" | "long":
                return self._long()
            case "float" | "double":
                form = _FLOAT if kind.kind == "float" else _DOUBLE
                number = form.unpack(self._take(form.size))[0]
                return number if isfinite(number) else str(number)  # JSON has no infinity
            case "enum":
                return _one_of(kind.symbols, self._long())
            case "string":
                return self._text()
        return self._take(kind.size if kind.kind == "fixed" else self._long())

    def _logical(self, kind: Type, plain: Json) -> Json:
        """Return times and decimals as text, and bytes as in Avro's JSON: a character for each byte."""
        logical = kind.properties.get("logicalType")
        told = _LOGICAL.get((kind.kind, logical)) if isinstance(logical, str) else None
        if told is not None:
            try:
                return told(plain, kind)
            except (ArithmeticError, ValueError, TypeError):
                pass  # no such time, or a senseless logical type: the plain value is shown
        return plain.decode("latin-1") if isinstance(plain, bytes) else plain

    def _counted(self) -> Iterator[int]:
        """Yield once for each item of an array or map, block by block."""
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # the block's size in bytes
            yield from range(count)

    def _text(self) -> str:
        return self._take(self._long()).decode()

    def _long(self) -> int:
        try:
            value, self._at = read_varlong(self._data, self._at)
        except DecodeError:
            raise ValueError("it ends within a number") from None
        return value

    def _take(self, size: int) -> bytes:
        begin, end = self._at, self._at + size
        if not begin <= end <= len(self._data):
            raise ValueError("it is shorter than it says")
        self._at = end
        return self._data[begin:end]


def _one_of(among: list[Any], index: int) -> Any:
    if not 0 <= index < len(among):
        raise ValueError(f"it is number {index} of {len(among)}")
    return among[index]


def _decimal(plain: bytes, kind: Type) -> str:
    scale = kind.properties.get("scale", 0)
    if type(scale) is not int or len(plain) > 1 << 10:
        raise ValueError
    # from text, which keeps every digit: arithmetic, `scaleb` too, rounds to 28 digits
    return str(Decimal(f"{int.from_bytes(plain, 'big', signed=True)}E{-scale}"))


def _since_epoch(unit: str, local: bool) -> Callable[[int, Type], str]:
    epoch = _EPOCH.replace(tzinfo=None) if local else _EPOCH
    return lambda plain, kind: str(epoch + timedelta(**{unit: plain}))


def _since_midnight(unit: str) -> Callable[[int, Type], str]:
    def told(plain: int, kind: Type) -> str:
        at = _EPOCH + timedelta(**{unit: plain})
        if at.date() != _EPOCH.date():
            raise ValueError
        return str(at.time())

    return told


_LOGICAL: dict[tuple[str, str], Callable[[Any, Type], str]] = {
    ("int", "date"): lambda plain, kind: str(date(1970, 1, 1) + timedelta(plain)),
    ("int", "time-millis"): _since_midnight("milliseconds"),
    ("long", "time-micros"): _since_midnight("microseconds"),
    ("long", "timestamp-millis"): _since_epoch("milliseconds", local=False),
    ("long", "timestamp-micros"): _since_epoch("microseconds", local=False),
    ("long", "local-timestamp-millis"): _since_epoch("milliseconds", local=True),
    ("long", "local-timestamp-micros"): _since_epoch("microseconds", local=True),
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
}
