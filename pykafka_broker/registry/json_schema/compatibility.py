"""Whether what was valid under one JSON Schema is valid under another.

Rule: as with Confluent's registry, a schema is compared keyword by keyword, and what can't be shown to be compatible is
not. A property that is added to an open content model is not: data of the old schema may have it as something else.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.registry.json_schema.combined import compare_combined
from pykafka_broker.registry.json_schema.content import compare_array, compare_object
from pykafka_broker.registry.json_schema.references import Document, Node, target
from pykafka_broker.registry.kinds import write_json
from pykafka_broker.registry.reasons import reason

Json = Any
_TYPES = {"null", "boolean", "integer", "number", "string", "array", "object"}
_ANNOTATIONS = frozenset(
    {
        *("$schema", "$id", "id", "$comment", "title", "description", "default", "examples", "$defs", "definitions"),
        *("readOnly", "writeOnly", "deprecated", "$anchor", "format", "contentEncoding", "contentMediaType"),
    }
)


def incompatibilities(reader: Document, writer: Document) -> list[str]:
    """Why what is valid under `writer` need not be under `reader`; empty where it is."""
    found = Comparison().compare(Node(writer.schema, writer), Node(reader.schema, reader), "#/")
    return list(dict.fromkeys(found))


class Comparison:
    """Pairs that are being compared are taken to agree: schemas may hold themselves."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[str]] = {}
        self._compared: list[Json] = []  # what the ids are of, so that they stay theirs

    def agree(self, old: Node, new: Node, path: str) -> bool:
        return not self.compare(old, new, path)

    def compare(self, old: Node, new: Node, path: str) -> list[str]:
        """The reasons why what is valid under the old one need not be under the new one."""
        old, new = target(old), target(new)
        if old.schema is False or is_open(new.schema):
            return []
        if is_open(old.schema) or new.schema is False:
            return [reason("TYPE_CHANGED", path)]
        pair = id(old.schema), id(new.schema)
        if pair not in self._known:
            self._known[pair] = []
            self._compared += (old.schema, new.schema)
            self._known[pair] = self._compare(old, new, path)
        return self._known[pair]

    def _compare(self, old: Node, new: Node, path: str) -> list[str]:
        before, after = old.schema, new.schema
        found = _compare_types(old, new, path) + _compare_values(before, after, path)
        types = _types(before) or _TYPES
        if "string" in types:
            found += _limits(before, after, path, ("maxLength",), ("minLength",)) + _pattern(before, after, path)
        if types & {"integer", "number"}:
            most, least = ("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")
            found += _limits(before, after, path, most, least) + _multiple_of(before, after, path)
        if "object" in types:
            found += _limits(before, after, path, ("maxProperties",), ("minProperties",))
            found += compare_object(self, old, new, path)
        if "array" in types:
            found += _limits(before, after, path, ("maxItems",), ("minItems",))
            found += compare_array(self, old, new, path)
        return found + compare_combined(self, old, new, path) + self._not(old, new, path)

    def _not(self, old: Node, new: Node, path: str) -> list[str]:
        before, after = old.schema, new.schema
        found = []
        if "not" in after:
            forbidden = Node(after["not"], new.document)
            if "not" not in before or not self.agree(forbidden, Node(before["not"], old.document), path):
                found.append(reason("NOT_TYPE_EXTENDED", f"{path}/not"))
        condition = [each.get(word) for word in ("if", "then", "else") for each in (before, after)]
        if "if" in after and condition[::2] != condition[1::2]:
            found.append(reason("COMBINED_TYPE_CHANGED", f"{path}/if"))
        return found


def is_open(schema: Json) -> bool:
    """Whether anything is valid under it."""
    return schema is True or (isinstance(schema, dict) and schema.keys() <= _ANNOTATIONS)


def _types(schema: dict[str, Json]) -> set[str] | None:
    """None for all of them."""
    found = schema.get("type")
    types = {found} if isinstance(found, str) else set(found) if isinstance(found, list) else None
    return types | {"integer"} if types is not None and "number" in types else types


def _compare_types(old: Node, new: Node, path: str) -> list[str]:
    are = _types(new.schema)
    if are is None:
        return []
    were = _possible_types(old, {})
    if were <= are:
        return []
    return [reason("TYPE_NARROWED" if were & are else "TYPE_CHANGED", path)]


def _possible_types(node: Node, known: dict[int, set[str]]) -> set[str]:
    """The types that something valid may have, by all that the schema says of it."""
    schema, document = target(node)
    if not isinstance(schema, dict):
        return set() if schema is False else _TYPES
    if id(schema) in known:
        return known[id(schema)]
    known[id(schema)] = _TYPES  # for one that holds itself
    found = _types(schema) or _TYPES
    values = _values(schema)
    if values is not None:
        found = found & {_type_of(each) for each in values}
    for word in ("anyOf", "oneOf", "allOf"):
        parts = [_possible_types(Node(each, document), known) for each in schema.get(word, ())]
        if parts and word == "allOf":
            found = found.intersection(*parts)
        elif parts:
            found = found & set[str]().union(*parts)
    known[id(schema)] = found
    return found


def _type_of(value: Json) -> str:
    names: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


def _values(schema: dict[str, Json]) -> list[Json] | None:
    """Those that are valid at all, where they are listed."""
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return found if isinstance(found, list) else None


def _compare_values(before: dict[str, Json], after: dict[str, Json], path: str) -> list[str]:
    old, new = _values(before), _values(after)
    if new is None:
        return []
    if old is None:
        return [reason("ENUM_ARRAY_ADDED", f"{path}/enum")]
    were, are = ({write_json(each, sort_keys=True) for each in values} for values in (old, new))
    if were <= are:
        return []
    return [reason("ENUM_ARRAY_NARROWED" if are < were else "ENUM_ARRAY_CHANGED", f"{path}/enum")]


def _limits(
    before: dict[str, Json], after: dict[str, Json], path: str, most: tuple[str, ...], least: tuple[str, ...]
) -> list[str]:
    found = []
    for word, is_tighter, tightened in (
        *((word, _is_less, "DECREASED") for word in most),
        *((word, _is_more, "INCREASED") for word in least),
    ):
        old, new = _number(before, word), _number(after, word)
        if new is not None and old is None:
            found.append(reason(f"{_upper(word)}_ADDED", f"{path}/{word}"))
        elif new is not None and old is not None and is_tighter(new, old):
            found.append(reason(f"{_upper(word)}_{tightened}", f"{path}/{word}"))
    return found


def _is_less(new: float, old: float) -> bool:
    return new < old


def _is_more(new: float, old: float) -> bool:
    return new > old


def _number(schema: dict[str, Json], word: str) -> float | None:
    found = schema.get(word)
    if found is True:  # draft 4: the limit itself is not allowed
        return _number(schema, word.removeprefix("exclusive").lower())
    return found if type(found) in (int, float) else None


def _upper(word: str) -> str:
    return "".join(f"_{each}" if each.isupper() else each.upper() for each in word)


def _pattern(before: dict[str, Json], after: dict[str, Json], path: str) -> list[str]:
    if "pattern" not in after or before.get("pattern") == after["pattern"]:
        return []
    return [reason("PATTERN_CHANGED" if "pattern" in before else "PATTERN_ADDED", f"{path}/pattern")]


def _multiple_of(before: dict[str, Json], after: dict[str, Json], path: str) -> list[str]:
    old, new = _number(before, "multipleOf"), _number(after, "multipleOf")
    if new is None or (old is not None and old % new == 0):
        return []
    kind = "ADDED" if old is None else "EXPANDED" if new % old == 0 else "CHANGED"
    return [reason(f"MULTIPLE_OF_{kind}", f"{path}/multipleOf")]
