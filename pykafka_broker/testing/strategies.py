"""Strategies of Hypothesis: records, headers, poison pills, and values of registered schemas.

Rule: everything that a strategy draws can be produced. Values of a schema are valid by that schema; poison pills are
values that consumers meet in production, and that a decoder may fail on. The module needs the extra `hypothesis`, and
no other module imports it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pykafka_broker.testing.record import NewRecord

_FIRST_MESSAGE = b"\0"  # of a Protobuf schema: which of its messages follows
MAGIC = b"\0"  # a value of a schema registry: this byte, the schema's id in four bytes, the data
_MOST_BYTES = 100
_MOST_HEADERS = 4
_HUGE_BYTES = 900_000  # below `message.max.bytes` by default
_UNKNOWN_ID = (1 << 31) - 1
_TIMEOUT_S = 30.0
_MOST_ITEMS = 5

Content = bytes | None


def contents(most_bytes: int = _MOST_BYTES) -> SearchStrategy[Content]:
    """Keys and values: bytes, text as UTF-8, and none."""
    text = st.text(max_size=most_bytes // 4).map(str.encode)
    return st.none() | text | st.binary(max_size=most_bytes)


def headers() -> SearchStrategy[list[tuple[str, Content]]]:
    """Headers of a record: a name may come twice or be empty, a value may be none."""
    return st.lists(st.tuples(st.text(max_size=20), contents(40)), max_size=_MOST_HEADERS)


def records(
    keys: SearchStrategy[Any] | None = None,
    values: SearchStrategy[Any] | None = None,
    of_headers: SearchStrategy[Any] | None = None,
) -> SearchStrategy[NewRecord]:
    """Records for `broker.produce(topic, [...])`; each part by its own strategy, or by `contents()` and `headers()`."""
    return st.builds(
        NewRecord,
        value=contents() if values is None else values,
        key=contents() if keys is None else keys,
        headers=headers() if of_headers is None else of_headers,
    )


# -- poison pills


def poison_pills(huge_bytes: int = _HUGE_BYTES) -> SearchStrategy[Content]:
    """Values that a decoder may fail on.

    None, an empty value, broken UTF-8, broken or deep JSON, a value of `huge_bytes`, and values of a schema registry
    with a wrong magic byte, an incomplete id, the id of an unknown schema, or without data.
    """
    return st.one_of(
        st.none(),
        st.just(b""),
        _broken_text(),
        _broken_json(),
        st.builds(lambda byte: byte * huge_bytes, st.sampled_from([b"\0", b"x", b"\xff"])),
        st.binary(min_size=1, max_size=_MOST_BYTES).filter(lambda data: data[:1] != MAGIC),
        st.binary(max_size=3).map(lambda part: MAGIC + part),
        st.binary(max_size=_MOST_BYTES).map(lambda data: wire(_UNKNOWN_ID, data)),
        st.integers(0, 10).map(lambda id: wire(id, b"")),
    )


def _broken_text() -> SearchStrategy[bytes]:
    parts = [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]  # none of them is UTF-8
    text = st.text(max_size=10).map(str.encode)
    return st.builds(lambda before, part: before + part, text, st.sampled_from(parts))


def _broken_json() -> SearchStrategy[bytes]:
    whole = st.dictionaries(st.text(max_size=5), st.integers(), min_size=1, max_size=3).map(json.dumps)
    cut = whole.map(lambda text: text[:-1].encode())
    deep = st.integers(1_000, 20_000).map(lambda depth: b"[" * depth)
    return cut | deep | st.sampled_from([b"NaN", b"{'id': 1}", b'{"id": 1}{"id": 2}'])


# -- schemas


def wire(schema_id: int, data: bytes) -> bytes:
    """Return data as serializers of a schema registry write it."""
    return MAGIC + struct.pack(">i", schema_id) + data


def registered(url: str, subject: str, version: int | str = "latest") -> SearchStrategy[bytes]:
    """Values of a registered schema of Avro, JSON or Protobuf, as serializers write them. Of Protobuf, values of the
    first message.

    Args:
        url: the schema registry, `broker.schema_registry_url`; it is asked at once.
        subject: such as "orders-value".

    Raises:
        ValueError: the schema has references, or a keyword that is not known here.
        OSError: the registry has no such schema, or can't be reached.
    """
    with urlopen(f"{url}/subjects/{quote(subject, safe='')}/versions/{version}", timeout=_TIMEOUT_S) as answer:
        found = json.load(answer)
    kind = found.get("schemaType", "AVRO")
    if found.get("references"):
        raise ValueError(f"{subject} has a schema with references: only schemas without them are drawn")
    if kind == "AVRO":
        data = _Avro().of(json.loads(found["schema"])).map(lambda drawn: drawn[1])
    elif kind == "PROTOBUF":
        data = protobuf_messages(found["schema"]).map(lambda message: _FIRST_MESSAGE + message.SerializeToString())
    else:
        data = json_values(found["schema"]).map(lambda value: json.dumps(value).encode())
    return data.map(lambda each: wire(found["id"], each))


def avro_values(schema: str | Any) -> SearchStrategy[Any]:
    """Values of an Avro schema, in Python's types; logical types as the plain ones below them.

    Args:
        schema: as JSON text, or what the text stands for.
    """
    return _Avro().of(json.loads(schema) if isinstance(schema, str) else schema).map(lambda drawn: drawn[0])


Drawn = tuple[Any, bytes]  # a value, and the value as Avro's binary encoding


def _zigzag(number: int) -> bytes:
    left, made = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    made.append(left)
    return bytes(made)


def _with_length(data: bytes) -> bytes:
    return _zigzag(len(data)) + data


_DAY_MS = 86_400_000
_TO_9999_MS = 253_402_300_799_999
_LOGICAL: dict[tuple[str, str], SearchStrategy[Any]] = {  # by type too: of another type Avro ignores the logical one
    ("int", "date"): st.integers(0, _TO_9999_MS // _DAY_MS),
    ("int", "time-millis"): st.integers(0, _DAY_MS - 1),
    ("long", "time-micros"): st.integers(0, _DAY_MS * 1000 - 1),
    ("string", "uuid"): st.uuids().map(str),
    **{("long", f"{local}timestamp-millis"): st.integers(0, _TO_9999_MS) for local in ("", "local-")},
    **{("long", f"{local}timestamp-micros"): st.integers(0, _TO_9999_MS * 1000) for local in ("", "local-")},
}
_PLAIN: dict[str, tuple[SearchStrategy[Any], Callable[[Any], bytes]]] = {
    "null": (st.none(), lambda value: b""),
    "boolean": (st.booleans(), lambda value: bytes([value])),
    "int": (st.integers(-(1 << 31), (1 << 31) - 1), _zigzag),
    "long": (st.integers(-(1 << 63), (1 << 63) - 1), _zigzag),
    "float": (st.floats(width=32, allow_nan=False), struct.Struct("<f").pack),
    "double": (st.floats(allow_nan=False), struct.Struct("<d").pack),
    "bytes": (st.binary(max_size=_MOST_BYTES), _with_length),
    "string": (st.text(max_size=_MOST_BYTES // 4), lambda value: _with_length(value.encode())),
}


class _Avro:
    """Strategies of the types of one schema; a named type is made once."""

    def __init__(self) -> None:
        self._named: dict[str, SearchStrategy[Drawn]] = {}

    def of(self, schema: Any, namespace: str = "") -> SearchStrategy[Drawn]:
        if isinstance(schema, list):
            branches = [self.of(each, namespace) for each in schema]
            return st.one_of([_branch(index, each) for index, each in enumerate(branches)])
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.of(kind, namespace)
        if kind in ("record", "error", "enum", "fixed"):
            return self._new(schema, kind, namespace)
        if kind == "array":
            items = st.lists(self.of(schema["items"], namespace), max_size=_MOST_ITEMS)
            return items.map(lambda drawn: ([value for value, _ in drawn], _block([data for _, data in drawn])))
        if kind == "map":
            pairs = st.dictionaries(st.text(max_size=10), self.of(schema["values"], namespace), max_size=_MOST_ITEMS)
            return pairs.map(_map_of)
        logical = _LOGICAL.get((kind, schema.get("logicalType", "")))
        if logical is not None:
            write = _PLAIN[kind][1]
            return logical.map(lambda value: (value, write(value)))
        if schema.get("logicalType") == "decimal" and kind == "bytes":
            return _decimals(schema).map(lambda data: (data, _with_length(data)))
        return self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> SearchStrategy[Drawn]:
        if name in _PLAIN:
            values, write = _PLAIN[name]
            return values.map(lambda value: (value, write(value)))
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        known = full if full in self._named else name
        if known not in self._named:
            raise ValueError(f"{name} is no type of Avro that is known here")
        return st.deferred(lambda: self._named[known])

    def _new(self, schema: Mapping[str, Any], kind: str, namespace: str) -> SearchStrategy[Drawn]:
        name = schema["name"]
        namespace = name.rpartition(".")[0] or schema.get("namespace", namespace)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        self._named[full] = st.nothing()  # its own fields may name it
        made: SearchStrategy[Drawn]
        if kind == "enum":
            symbols = schema["symbols"]
            made = st.sampled_from(range(len(symbols))).map(lambda index: (symbols[index], _zigzag(index)))
        elif kind == "fixed":
            size = schema["size"]
            decimal = schema.get("logicalType") == "decimal"
            made = (_decimals(schema, size) if decimal else st.binary(min_size=size, max_size=size)).map(
                lambda data: (data, data)
            )
        else:
            names = [each["name"] for each in schema["fields"]]
            fields = st.tuples(*(self.of(each["type"], namespace) for each in schema["fields"]))
            made = fields.map(lambda drawn: _record_of(names, drawn))
        self._named[full] = made
        return made


def _branch(index: int, values: SearchStrategy[Drawn]) -> SearchStrategy[Drawn]:
    return values.map(lambda drawn: (drawn[0], _zigzag(index) + drawn[1]))


def _record_of(names: Iterable[str], drawn: Iterable[Drawn]) -> Drawn:
    pairs = list(zip(names, drawn, strict=True))
    return {name: value for name, (value, _) in pairs}, b"".join(data for _, (_, data) in pairs)


def _map_of(drawn: Mapping[str, Drawn]) -> Drawn:
    items = [_with_length(name.encode()) + data for name, (_, data) in drawn.items()]
    return {name: value for name, (value, _) in drawn.items()}, _block(items)


def _block(items: list[bytes]) -> bytes:
    return (_zigzag(len(items)) + b"".join(items) if items else b"") + b"\0"


def _decimals(schema: Mapping[str, Any], size: int | None = None) -> SearchStrategy[bytes]:
    most = 10 ** schema["precision"] - 1
    if size is not None:
        most = min(most, (1 << 8 * size - 1) - 1)
    length = size or (most.bit_length() // 8 + 1)
    return st.integers(-most, most).map(lambda number: number.to_bytes(length, "big", signed=True))


# -- JSON Schema

_JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def json_values(schema: str | Any) -> SearchStrategy[Any]:
    """Values that are valid by a JSON Schema.

    Types, `enum`, `const`, limits, `pattern`, `properties`, `required`, `items`, `anyOf`, `oneOf` and `$ref` within the
    schema are drawn as the schema says. Other words only filter.

    Args:
        schema: as JSON text, or what the text stands for.
    """
    import jsonschema

    root = json.loads(schema) if isinstance(schema, str) else schema
    validator = jsonschema.validators.validator_for(root)(root)
    return _JsonSchema(root).of(root).filter(validator.is_valid)


class _JsonSchema:
    """Strategies of the parts of one schema."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._referred: dict[str, SearchStrategy[Any]] = {}

    def of(self, schema: Any) -> SearchStrategy[Any]:
        if schema is True or schema == {}:
            return _JSON
        if schema is False:
            return st.nothing()
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        for word in ("anyOf", "oneOf"):
            if word in schema:
                rest = {name: value for name, value in schema.items() if name != word}
                return st.one_of(
                    [self.of({**rest, **each} if isinstance(each, dict) else each) for each in schema[word]]
                )
        types = schema.get("type", [_type_by_words(schema)])
        kinds = [types] if isinstance(types, str) else types
        return st.one_of([self._of_type(kind, schema) for kind in kinds])

    def _reference(self, path: str) -> SearchStrategy[Any]:
        if not path.startswith("#"):
            raise ValueError(f"{path} is a schema outside of this one")
        if path not in self._referred:
            target = self._root
            for part in filter(None, path.lstrip("#").split("/")):
                name = part.replace("~1", "/").replace("~0", "~")
                target = target[int(name)] if isinstance(target, list) else target[name]
            self._referred[path] = st.deferred(lambda: self.of(target))
        return self._referred[path]

    def _of_type(self, kind: str, schema: Mapping[str, Any]) -> SearchStrategy[Any]:
        if kind == "array":
            items = schema.get("items", True)
            made = self.of(items if isinstance(items, dict) else True)  # of others a few may be valid
            least, most = schema.get("minItems", 0), schema.get("maxItems")
            return st.lists(made, min_size=least, max_size=most if most is not None else least + _MOST_ITEMS)
        if kind == "object":
            return self._objects(schema)
        if kind in ("integer", "number"):
            return _numbers(kind, schema)
        if kind == "string":
            if "pattern" in schema:
                return st.from_regex(schema["pattern"])
            least, most = schema.get("minLength", 0), schema.get("maxLength")
            return st.text(min_size=least, max_size=most if most is not None else least + 20)
        if kind == "boolean":
            return st.booleans()
        if kind == "null":
            return st.none()
        if kind == "any":
            return _JSON
        raise ValueError(f"{kind} is no type of JSON Schema")

    def _objects(self, schema: Mapping[str, Any]) -> SearchStrategy[dict[str, Any]]:
        properties = {name: self.of(each) for name, each in schema.get("properties", {}).items()}
        others = schema.get("additionalProperties", True)
        wanted = {name: properties.get(name, _JSON) for name in schema.get("required", ())}
        optional = {name: each for name, each in properties.items() if name not in wanted}
        made = st.fixed_dictionaries(wanted, optional=optional)
        if others is False:
            return made
        more = st.dictionaries(st.text(max_size=5), self.of(others), max_size=2)
        return st.builds(lambda own, rest: rest | own, made, more)


def _type_by_words(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema without one is about; "any" if that is open."""
    if {"properties", "required"} & schema.keys():
        return "object"
    return "array" if "items" in schema else "any"


def _numbers(kind: str, schema: Mapping[str, Any]) -> SearchStrategy[Any]:
    limits = map(schema.get, ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"))
    least, most, above, below = (None if isinstance(each, bool) else each for each in limits)  # draft 4 has flags
    step = schema.get("multipleOf")
    low, high = least if above is None else above, most if below is None else below
    if kind == "integer" or isinstance(step, int):
        unit = step if isinstance(step, int) else 1
        first = None if low is None else -(-low // unit)
        last = None if high is None else high // unit
        bounds = [None if each is None else int(each) for each in (first, last)]
        return st.integers(*bounds).map(lambda number: number * unit)
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


# -- Protobuf

_SECONDS = (-62_135_596_800, 253_402_300_799)  # the years 1 to 9999
_WELL_KNOWN: dict[str, SearchStrategy[dict[str, Any]]] = {  # not every value of their fields is valid
    "google.protobuf.Timestamp": st.fixed_dictionaries(
        {"seconds": st.integers(*_SECONDS), "nanos": st.integers(0, 999_999_999)}
    ),
    "google.protobuf.Duration": st.fixed_dictionaries({"seconds": st.integers(-315_576_000_000, 315_576_000_000)}),
    "google.protobuf.Any": st.just({}),
}


def protobuf_messages(schema: str, message: str | None = None) -> SearchStrategy[Any]:
    """Messages of a Protobuf schema, as objects of Google's library.

    Args:
        schema: the text of a .proto file.
        message: the name of a message at the top of the file; by default the first one.

    Raises:
        ValueError: there is no such message, or the schema is not valid.
    """
    from pykafka_broker.registry.protobuf import descriptor_of, message_class

    names = [each.name for each in descriptor_of(schema, {}).message_type]
    if not names or message not in (None, *names):
        raise ValueError(f"the schema has no message {message or ''}; it has {', '.join(names) or 'none'}")
    return _Protobuf().of(message_class(schema, {}, [0 if message is None else names.index(message)]))


class _Protobuf:
    """Strategies of the messages of one schema; each is made once, as a message may hold itself."""

    def __init__(self) -> None:
        self._made: dict[str, SearchStrategy[Any]] = {}

    def of(self, kind: Any) -> SearchStrategy[Any]:
        descriptor = kind.DESCRIPTOR
        name = descriptor.full_name
        if name not in self._made:
            self._made[name] = st.deferred(lambda: self._made[name])
            parts = [_WELL_KNOWN[name]] if name in _WELL_KNOWN else self._parts(descriptor)
            drawn = st.tuples(*parts)
            self._made[name] = drawn.map(
                lambda parts: kind(**{key: each for part in parts for key, each in part.items()})
            )
        return self._made[name]

    def _parts(self, descriptor: Any) -> list[SearchStrategy[dict[str, Any]]]:
        """Return strategies of a message's fields: one for those that stand alone, and one for each oneof."""
        alone = [field for field in descriptor.fields if field.containing_oneof is None]
        required = {field.name: self._field(field) for field in alone if field.is_required}
        optional = {field.name: self._field(field) for field in alone if not field.is_required}
        parts: list[SearchStrategy[dict[str, Any]]] = [st.fixed_dictionaries(required, optional=optional)]
        for oneof in descriptor.oneofs:
            one = [st.fixed_dictionaries({field.name: self._field(field)}) for field in oneof.fields]
            parts.append(st.one_of(st.just({}), *one))
        return parts

    def _field(self, field: Any) -> SearchStrategy[Any]:
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            keys, values = inner.fields_by_name["key"], inner.fields_by_name["value"]
            return st.dictionaries(self._single(keys), self._single(values), max_size=_MOST_ITEMS)
        return st.lists(self._single(field), max_size=_MOST_ITEMS) if field.is_repeated else self._single(field)

    def _single(self, field: Any) -> SearchStrategy[Any]:
        from google.protobuf.message_factory import GetMessageClass

        if field.message_type is not None:
            return self.of(GetMessageClass(field.message_type))
        if field.enum_type is not None:
            return st.sampled_from([each.number for each in field.enum_type.values])
        if field.cpp_type == field.CPPTYPE_STRING:
            text = st.text(max_size=_MOST_BYTES // 4)
            return st.binary(max_size=_MOST_BYTES) if field.type == field.TYPE_BYTES else text
        return _SCALARS[field.cpp_type]


_SCALARS: dict[int, SearchStrategy[Any]] = {  # by FieldDescriptor.CPPTYPE_*
    1: st.integers(-(1 << 31), (1 << 31) - 1),
    2: st.integers(-(1 << 63), (1 << 63) - 1),
    3: st.integers(0, (1 << 32) - 1),
    4: st.integers(0, (1 << 64) - 1),
    5: st.floats(allow_nan=False),
    6: st.floats(width=32, allow_nan=False),
    7: st.booleans(),
}
