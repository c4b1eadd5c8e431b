"""JSON Schema from draft 4 to 2020-12: references, comparison, validity. A schema without `$schema` is of draft 7.

Rule: nothing is fetched. A reference leads into the schema itself, to one of the schemas registered as its references,
or to a metaschema, which counts as any schema; other references are refused. Data that is valid under the old schema
has to be valid under the new schema. An object's content model is open if it allows any other property, partially open
if it names schemas for other properties, closed if it allows none. A property that is added to an open content model is
incompatible: data of the old schema may use its name for something else. Combined schemas are compared by their parts:
each old part of `anyOf` and `oneOf` needs a new part, each new part of `allOf` needs an old part.

As in Confluent's registry, `required` counts only for properties that both schemas declare or that are added to an
unopen content model, and patterns count only as what covers a property that is added or removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from operator import gt, lt
from typing import Any, NamedTuple, Self
from urllib.parse import unquote, urldefrag, urljoin

from jsonschema.validators import Draft7Validator, validator_for

from pykafka_broker.registry.kinds import Effort, Parsed, read_json, reason, write_json
from pykafka_broker.registry.problems import InvalidSchema

# -- references


Json = Any
_METASCHEMAS = ("http://json-schema.org/", "https://json-schema.org/")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_BY_NAME = {"properties", "patternProperties", "$defs", "definitions", "dependencies", "dependentSchemas"}
_NO_SCHEMAS = {"enum", "const", "default", "examples"}


class Subschema(NamedTuple):
    """A schema inside of a document; the document resolves the references of the schema."""

    schema: Json
    document: SchemaDocument

    def at(self, schema: Json) -> Subschema:
        """Return a schema of the document. A keyword that the draft lacks may have any value, which says nothing."""
        return Subschema(schema if isinstance(schema, dict | bool) else True, self.document)

    @property
    def additional(self) -> Subschema:
        """Return the schema of the properties that no other keyword covers."""
        return self.at(self.schema.get("additionalProperties", True))

    def listed(self, word: str) -> list[Subschema]:
        found = self.schema.get(word)
        return [self.at(each) for each in found] if isinstance(found, list) else []

    def named(self, word: str) -> dict[str, Subschema]:
        """Return the schemas by name in the object under a keyword."""
        found = self.schema.get(word, {})
        return {name: self.at(each) for name, each in found.items()} if isinstance(found, dict) else {}


class Library:
    """The referenced documents, by reference name and by `$id`."""

    def __init__(self, found: Mapping[str, Json]) -> None:
        self._documents = {name: SchemaDocument(name, schema, self) for name, schema in found.items()}
        self._documents |= {each.id: each for each in list(self._documents.values()) if each.id}

    def get(self, name: str) -> SchemaDocument | None:
        return self._documents.get(name)


class SchemaDocument:
    """A whole schema. id: the `$id`, or "" without."""

    def __init__(self, name: str, schema: Json, library: Library) -> None:
        self.schema = schema
        self._library = library
        self._named = {where: found for found in _schemas(schema) for where in _names(found)}
        own = schema.get("$id", schema.get("id")) if isinstance(schema, dict) else None
        self.id = own if isinstance(own, str) else ""
        self._base = urldefrag(self.id or name).url
        self.targets: dict[str, Subschema] = {}  # found by `target`, by reference

    def check(self) -> None:
        """Raise InvalidSchema if a reference leads nowhere."""
        for found in _schemas(self.schema):
            for word in _REFERENCES:
                if isinstance(found.get(word), str):
                    self.follow(found[word])

    def follow(self, reference: str) -> Subschema:
        """Return the target of a reference. Raises InvalidSchema without a target."""
        uri, fragment = urldefrag(reference)
        if not uri or urljoin(self._base, uri) == self._base:
            return self._within(fragment, reference)
        document = self._library.get(uri) or self._library.get(urljoin(self._base, uri))
        if document is not None:
            return document._within(fragment, reference)
        for name in (uri, urljoin(self._base, uri)):
            if name in self._named and not fragment:
                return Subschema(self._named[name], self)
        if uri.startswith(_METASCHEMAS):
            return Subschema(True, self)  # the data has to be a schema itself; that counts as any value
        raise InvalidSchema(f"the reference {reference} leads nowhere")

    def _within(self, fragment: str, reference: str) -> Subschema:
        if f"#{fragment}" in self._named:
            return Subschema(self._named[f"#{fragment}"], self)
        found = self.schema
        if fragment and not fragment.startswith("/"):
            raise InvalidSchema(f"the reference {reference} leads nowhere")
        for part in unquote(fragment).split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and key in found:
                found = found[key]
            elif isinstance(found, list) and re.fullmatch("[0-9]{1,9}", key) and int(key) < len(found):
                found = found[int(key)]
            else:
                raise InvalidSchema(f"the reference {reference} leads nowhere")
        if not isinstance(found, dict | bool):
            raise InvalidSchema(f"the reference {reference} leads to no schema")
        return Subschema(found, self)


def target(node: Subschema) -> Subschema:
    """Follow references to the first schema without a reference. A circle of references counts as an open schema."""
    seen: dict[int, tuple[SchemaDocument, str]] = {}
    while isinstance(node.schema, dict) and isinstance(reference := node.schema.get("$ref"), str):
        if id(node.schema) in seen:
            node = Subschema(True, node.document)
        elif reference in node.document.targets:
            node = node.document.targets[reference]
        else:
            seen[id(node.schema)] = node.document, reference
            node = node.document.follow(reference)
    for document, reference in seen.values():  # a schema behind a long chain is looked up by many
        document.targets[reference] = node
    return node


def _schemas(schema: Json) -> Iterator[dict[str, Json]]:
    """Yield the schema and all schemas inside; `enum`, `const`, `default` and `examples` hold plain values."""
    waiting = [schema]
    while waiting:
        found = waiting.pop()
        if isinstance(found, list):
            waiting += found
        elif isinstance(found, dict):
            yield found
            for word, value in found.items():
                if word in _BY_NAME and isinstance(value, dict):
                    waiting += value.values()
                elif word not in _NO_SCHEMAS:
                    waiting.append(value)


def _names(found: dict[str, Json]) -> Iterator[str]:
    for word in ("$id", "id"):
        if isinstance(found.get(word), str):
            yield found[word]
    for word in ("$anchor", "$dynamicAnchor"):
        if isinstance(found.get(word), str):
            yield f"#{found[word]}"


# -- arrays and objects


_REPEATS = re.compile(r"(?<![*+?}])[*+?]|\{")  # `*?` repeats once
_MOST_REPEATS = 2
_LONGEST_NAME = 500
_CHARACTERS_A_STEP = 5_000  # compared by a pattern, at worst


def _compare_object(comparison: Comparison, old: Subschema, new: Subschema, path: str) -> list[str]:
    were, are = old.named("properties"), new.named("properties")
    found = []
    required = _required(new.schema)
    for name in sorted(required - _required(old.schema)):
        if name in were and name in are and not _has_default(are[name]):
            found.append(reason("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}"))
    for name in [*were, *(name for name in are if name not in were)]:
        where = f"{path}/properties/{name}"
        if name not in are:
            found += _removed(comparison, were[name], new, name, where)
        elif name not in were:
            found += _added(comparison, old, are[name], name, name in required, where)
        else:
            found += comparison.compare(were[name], are[name], where)
    found += _compare_rest(comparison, old, new, path)
    return found + _compare_dependencies(comparison, old, new, path)


def _removed(comparison: Comparison, was: Subschema, new: Subschema, name: str, path: str) -> list[str]:
    """Return why data with the property may be invalid now that its declaration is gone."""
    rest = _schema_for(comparison, new, name)
    if rest is None:
        if was.schema is False:
            return []
        return [reason("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)]
    if comparison.compare(was, rest, path):
        return [reason("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)]
    return []


def _added(comparison: Comparison, old: Subschema, now: Subschema, name: str, required: bool, path: str) -> list[str]:
    """Return why old data with an undeclared property of this name, or without it, may be invalid now."""
    rest = _schema_for(comparison, old, name)
    covered = rest is None or not comparison.compare(rest, now, path)
    if _is_open_model(old):
        return [] if covered else [reason("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path)]
    found = [] if covered else [reason("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)]
    if required and not _has_default(now):
        found.append(reason("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path))
    return found


def _is_open_model(node: Subschema) -> bool:
    return not node.schema.get("patternProperties") and node.additional.schema in (True, {})


def _schema_for(comparison: Comparison, node: Subschema, name: str) -> Subschema | None:
    """Return the schema for a property that is not under `properties`; None if no schema covers the property.

    Beside patterns, only a schema under `additionalProperties` covers a property that matches none of them.
    """
    for pattern, found in node.named("patternProperties").items():
        if comparison.matches(pattern, name):
            return found
    if _is_open_model(node):
        return node.at(True)
    rest = node.additional
    return None if isinstance(rest.schema, bool) else rest


class NamePattern:
    """A pattern of property names. A pattern that may take very long to match matches no name."""

    def __init__(self, pattern: str) -> None:
        self._repeats = len(_REPEATS.findall(pattern))
        self._compiled: re.Pattern[str] | None = None
        if "(" not in pattern and self._repeats <= _MOST_REPEATS:
            with suppress(re.error):  # a regular expression of JavaScript that Python does not know
                self._compiled = re.compile(pattern)

    def matches(self, name: str, effort: Effort) -> bool:
        if self._compiled is None or len(name) > _LONGEST_NAME:
            return False
        effort.spend(1 + len(name) ** (1 + self._repeats) // _CHARACTERS_A_STEP)
        return self._compiled.search(name) is not None


def _compare_rest(comparison: Comparison, old: Subschema, new: Subschema, path: str) -> list[str]:
    """Compare the schemas of unnamed properties."""
    was, now = old.additional, new.additional
    where = f"{path}/additionalProperties"
    if now.schema is False and was.schema is not False:
        return [reason("ADDITIONAL_PROPERTIES_REMOVED", where)]
    if was.schema in (True, {}) and comparison.compare(was, now, where):
        return [reason("ADDITIONAL_PROPERTIES_NARROWED", where)]
    return comparison.compare(was, now, where)


def _compare_dependencies(comparison: Comparison, old: Subschema, new: Subschema, path: str) -> list[str]:
    before, after = _dependencies(old.schema), _dependencies(new.schema)
    found = []
    for name, now in after.items():
        was, where = before.get(name), f"{path}/dependencies/{name}"
        if isinstance(now, list):
            if not isinstance(was, list):
                found.append(reason("DEPENDENCY_ARRAY_ADDED", where))
            elif not _texts(now) <= _texts(was):
                kind = "EXTENDED" if _texts(was) < _texts(now) else "CHANGED"
                found.append(reason(f"DEPENDENCY_ARRAY_{kind}", where))
        elif was is None or isinstance(was, list):
            found.append(reason("DEPENDENCY_SCHEMA_ADDED", where))
        else:
            found += comparison.compare(old.at(was), new.at(now), where)
    return found


def _dependencies(schema: dict[str, Json]) -> dict[str, Json]:
    words = ("dependencies", "dependentRequired", "dependentSchemas")
    found = (schema.get(word) for word in words)
    return {name: value for each in found if isinstance(each, dict) for name, value in each.items()}


def _compare_array(comparison: Comparison, old: Subschema, new: Subschema, path: str) -> list[str]:
    (before, rest_before), (after, rest_after) = _items(old), _items(new)
    found = []
    if new.schema.get("uniqueItems") is True and old.schema.get("uniqueItems") is not True:
        found.append(reason("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems"))
    for index in range(max(len(before), len(after))):
        was = before[index] if index < len(before) else rest_before
        now = after[index] if index < len(after) else rest_after
        where = f"{path}/items/{index}"
        differences = comparison.compare(was, now, where)
        if differences and index >= len(before):
            differences = [reason("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", where)]
        elif differences and index >= len(after):
            differences = [reason("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", where)]
        found += differences
    differences = comparison.compare(rest_before, rest_after, f"{path}/items")
    if differences and rest_after.schema is False:
        differences = [reason("ADDITIONAL_ITEMS_REMOVED", f"{path}/additionalItems")]
    return found + differences


def _items(node: Subschema) -> tuple[list[Subschema], Subschema]:
    """Return the schemas of the first items, and the schema of all others."""
    schema = node.schema
    items = schema.get("items", True)
    first, rest = (items, schema.get("additionalItems", True)) if isinstance(items, list) else ([], items)
    if isinstance(schema.get("prefixItems"), list):
        first = schema["prefixItems"]
    return [node.at(each) for each in first], node.at(rest)


def _required(schema: dict[str, Json]) -> set[str]:
    return _texts(schema.get("required"))


def _texts(found: Json) -> set[str]:
    return {each for each in found if isinstance(each, str)} if isinstance(found, list) else set()


def _has_default(node: Subschema) -> bool:
    schema = target(node).schema
    return isinstance(schema, dict) and "default" in schema


# -- combined schemas


_SUMS = ("anyOf", "oneOf")  # "sum types" in the registry's messages; `allOf` is the "product type"
_MOST_PAIRS = 250_000


def _compare_combined(comparison: Comparison, old: Subschema, new: Subschema, path: str) -> list[str]:
    # `plain` is a schema without its combined parts, compared where only the other schema has parts.
    found = []
    of_old, of_new = _sum(old), _sum(new)
    if of_new is not None:
        word, parts = of_new
        where = f"{path}/{word}"
        if of_old is None:
            plain = _without(old, ("allOf",)) if "allOf" in new.schema else old
            if not any(comparison.agree(plain, part, where) for part in parts):
                found.append(reason("TYPE_CHANGED", where))
        elif word == "oneOf" and of_old[0] == "anyOf" and len(of_old[1]) > 1:
            found.append(reason("COMBINED_TYPE_CHANGED", where))
        elif not _pairs(comparison, of_old[1], parts, where):
            kind = "SUM_TYPE_NARROWED" if len(parts) < len(of_old[1]) else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
            found.append(reason(kind, where))
    elif of_old is not None:
        plain = _without(new, ("allOf",))
        if not all(comparison.agree(part, plain, path) for part in of_old[1]):
            found.append(reason("SUM_TYPE_NARROWED", f"{path}/{of_old[0]}"))
    return found + _compare_products(comparison, old, new, path)


def _suffice(comparison: Comparison, old: Subschema, new: Subschema, path: str) -> bool:
    """Return whether the combined parts of the old schema, without the rest, are enough for a plain new schema."""
    if any(word in new.schema for word in ("allOf", *_SUMS)):
        return False
    if any(comparison.agree(each, new, path) for each in old.listed("allOf")):
        return True
    of_old = _sum(old)
    return of_old is not None and all(comparison.agree(part, new, path) for part in of_old[1])


def _compare_products(comparison: Comparison, old: Subschema, new: Subschema, path: str) -> list[str]:
    needed = new.listed("allOf")
    if not needed:
        return []
    where = f"{path}/allOf"
    given = [*old.listed("allOf"), _without(old, ("allOf",))]
    if len(needed) * len(given) > _MOST_PAIRS:
        raise InvalidSchema(f"{len(needed)} parts against {len(given)} are too many to compare")
    for part in needed:
        if not any(comparison.agree(each, part, where) for each in given):
            many = len(needed) > len(given) - 1
            return [reason("PRODUCT_TYPE_EXTENDED" if many else "COMBINED_TYPE_SUBSCHEMAS_CHANGED", where)]
    return []


def _sum(node: Subschema) -> tuple[str, list[Subschema]] | None:
    for word in _SUMS:
        if parts := node.listed(word):
            return word, parts
    return None


def _without(node: Subschema, words: tuple[str, ...]) -> Subschema:
    """Return a schema without `words`, `anyOf` and `oneOf`."""
    if not any(word in node.schema for word in (*words, *_SUMS)):
        return node
    return node.at({word: value for word, value in node.schema.items() if word not in (*words, *_SUMS)})


def _pairs(comparison: Comparison, old: list[Subschema], new: list[Subschema], path: str) -> bool:
    """Return whether each old part can be paired with a different new part.

    A matching in a bipartite graph: an old part may take the new part of another old part, which then finds another.
    """
    if len(old) * len(new) > _MOST_PAIRS:
        raise InvalidSchema(f"{len(old)} parts against {len(new)} are too many to compare")
    taken: dict[int, int] = {}

    def find(index: int, tried: set[int]) -> bool:
        comparison.effort.spend(1 + (len(new) >> 3))
        free = [candidate for candidate in range(len(new)) if candidate not in taken]
        stayed = [index] if index < len(new) and index not in taken else []  # most parts have
        for candidate in (*stayed, *free):
            if comparison.agree(old[index], new[candidate], path):
                taken[candidate] = index
                return True
        for candidate in list(taken):
            if candidate not in tried and comparison.agree(old[index], new[candidate], path):
                tried.add(candidate)
                if find(taken[candidate], tried):
                    taken[candidate] = index
                    return True
        return False

    return all(find(index, set()) for index in range(len(old)))


# -- compatibility


_STEPS_OF_A_PAIR = 2
_STEPS_OF_A_VALUE = 3
_STEPS_OF_A_REASON = 2  # for each schema that has it
_TYPES = {"null", "boolean", "integer", "number", "string", "array", "object"}
_ANNOTATIONS = frozenset(
    {
        *("$schema", "$id", "id", "$comment", "title", "description", "default", "examples", "$defs", "definitions"),
        *("readOnly", "writeOnly", "deprecated", "$anchor", "format", "contentEncoding", "contentMediaType"),
    }
)


class Comparison:
    """A comparison of two schemas, with the verdict on each pair of subschemas compared so far.

    Schemas may contain themselves. While a pair is compared it is open, and counts as compatible wherever it is met
    again. A verdict that rests on an open pair is tentative. If that pair turns out to be incompatible, the comparison
    may still go on, since the pair may be one of several alternatives: its tentative verdicts are forgotten. The depth
    of the outermost open pair that a verdict rests on tells when the verdict is settled (as in Tarjan's algorithm for
    strongly connected components).
    """

    def __init__(self, effort: Effort) -> None:
        self.effort = effort
        self._patterns: dict[str, NamePattern] = {}
        self._known: dict[tuple[int, int], list[str]] = {}
        self._rests_on: dict[tuple[int, int], int] = {}  # depth of that outermost open pair, of tentative verdicts
        self._tentative: list[tuple[int, int]] = []
        self._depth = self._outermost = 0
        self._compared: list[Json] = []  # keeps the objects behind the ids alive

    def matches(self, pattern: str, name: str) -> bool:
        """Return whether a property's name matches a pattern."""
        if pattern not in self._patterns:
            self._patterns[pattern] = NamePattern(pattern)
        return self._patterns[pattern].matches(name, self.effort)

    def agree(self, old: Subschema, new: Subschema, path: str) -> bool:
        return not self.compare(old, new, path)

    def compare(self, old: Subschema, new: Subschema, path: str) -> list[str]:
        """Return why data valid under the old schema may be invalid under the new."""
        old, new = target(old), target(new)
        if old.schema is False or is_open(new.schema):
            return []
        if is_open(old.schema) or new.schema is False:
            return [reason("TYPE_CHANGED", path)]
        pair = id(old.schema), id(new.schema)
        self.effort.spend()
        if pair in self._known:
            self.effort.spend(_STEPS_OF_A_REASON * len(self._known[pair]))
            self._outermost = min(self._outermost, self._rests_on.get(pair, self._outermost))
            return self._known[pair]
        depth, outermost_so_far, first = self._depth, self._outermost, len(self._tentative)
        self._known[pair] = []
        self._compared += (old.schema, new.schema)
        self._rests_on[pair] = self._outermost = depth
        self._depth += 1
        self._known[pair] = found = self._compare(old, new, path)
        self.effort.spend(_STEPS_OF_A_PAIR + _STEPS_OF_A_REASON * len(found))
        self._depth -= 1
        if found or self._outermost == depth:  # settled, and with the pair all verdicts that rest on it
            for each in (*self._tentative[first:], pair):
                del self._rests_on[each]
            if found:
                for each in self._tentative[first:]:
                    del self._known[each]
            del self._tentative[first:]
            self._outermost = outermost_so_far
        else:
            self._rests_on[pair] = self._outermost
            self._tentative.append(pair)
            self._outermost = min(outermost_so_far, self._outermost)
        return found

    def _compare(self, old: Subschema, new: Subschema, path: str) -> list[str]:
        before, after = old.schema, new.schema
        found = _compare_types(self, old, new, path) + _compare_values(self, before, after, path)
        types = _types(before) or _TYPES
        if "string" in types:
            found += _limits(before, after, path, ("maxLength",), ("minLength",)) + _pattern(before, after, path)
        if types & {"integer", "number"}:
            most, least = ("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")
            found += _limits(before, after, path, most, least) + _multiple_of(before, after, path)
        if "object" in types:
            found += _limits(before, after, path, ("maxProperties",), ("minProperties",))
            found += _compare_object(self, old, new, path)
        if "array" in types:
            found += _limits(before, after, path, ("maxItems",), ("minItems",))
            found += _compare_array(self, old, new, path)
        found += _compare_combined(self, old, new, path) + self._compare_not_and_if(old, new, path)
        return [] if found and _suffice(self, old, new, path) else found

    def _compare_not_and_if(self, old: Subschema, new: Subschema, path: str) -> list[str]:
        before, after = old.schema, new.schema
        found = []
        excludes = "not" in before and "not" in after and self.agree(new.at(after["not"]), old.at(before["not"]), path)
        if "not" in after and not excludes:
            found.append(reason("NOT_TYPE_EXTENDED", f"{path}/not"))
        # the old and the new value of each keyword, in turn
        condition = [each.get(word) for word in ("if", "then", "else") for each in (before, after)]
        if "if" in after and condition[::2] != condition[1::2]:
            found.append(reason("COMBINED_TYPE_CHANGED", f"{path}/if"))
        return found


def is_open(schema: Json) -> bool:
    """Return whether every value is valid under the schema."""
    return schema is True or (isinstance(schema, dict) and schema.keys() <= _ANNOTATIONS)


def _types(schema: dict[str, Json]) -> set[str] | None:
    """Return the allowed types, None for all."""
    found = schema.get("type")
    types = {found} if isinstance(found, str) else _texts(found)
    return types | {"integer"} if "number" in types else types or None


def _compare_types(comparison: Comparison, old: Subschema, new: Subschema, path: str) -> list[str]:
    are = _types(new.schema)
    if are is None:
        return []
    were = _possible_types(old, {}, comparison.effort)
    if were <= are:
        return []
    return [reason("TYPE_NARROWED" if were & are else "TYPE_CHANGED", path)]


def _possible_types(node: Subschema, known: dict[int, set[str]], effort: Effort) -> set[str]:
    """Return the types of possible values, by all keywords of the schema."""
    effort.spend()
    node = target(node)
    schema = node.schema
    if not isinstance(schema, dict):
        return set() if schema is False else _TYPES
    if id(schema) in known:
        return known[id(schema)]
    known[id(schema)] = _TYPES  # for a schema that contains itself
    found = _types(schema) or _TYPES
    values = _values(schema)
    if values is not None:
        effort.spend(len(values))
        found = found & {_type_of(each) for each in values}
    for word in ("anyOf", "oneOf", "allOf"):
        parts = [_possible_types(each, known, effort) for each in node.listed(word)]
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
    """Return the listed valid values, None without a list."""
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return found if isinstance(found, list) else None


def _compare_values(comparison: Comparison, before: dict[str, Json], after: dict[str, Json], path: str) -> list[str]:
    old, new = _values(before), _values(after)
    if new is None:
        return []
    if old is None:
        return [reason("ENUM_ARRAY_ADDED", f"{path}/enum")]
    comparison.effort.spend(_STEPS_OF_A_VALUE * (len(old) + len(new)))
    were, are = ({write_json(each, sort_keys=True) for each in values} for values in (old, new))
    if were <= are:
        return []
    return [reason("ENUM_ARRAY_NARROWED" if are < were else "ENUM_ARRAY_CHANGED", f"{path}/enum")]


def _limits(
    before: dict[str, Json], after: dict[str, Json], path: str, most: tuple[str, ...], least: tuple[str, ...]
) -> list[str]:
    found = []
    for word, is_tighter, tightened in (
        *((word, lt, "DECREASED") for word in most),
        *((word, gt, "INCREASED") for word in least),
    ):
        old, new = _number(before, word), _number(after, word)
        if new is not None and old is None:
            found.append(reason(f"{_upper(word)}_ADDED", f"{path}/{word}"))
        elif new is not None and old is not None and is_tighter(new, old):
            found.append(reason(f"{_upper(word)}_{tightened}", f"{path}/{word}"))
    return found


def _number(schema: dict[str, Json], word: str) -> float | None:
    found = schema.get(word)
    if found is True:  # draft 4: `exclusiveMaximum: true` makes `maximum` an exclusive limit
        found = schema.get(word.removeprefix("exclusive").lower())
    return found if type(found) in (int, float) else None


def _upper(word: str) -> str:
    """Return `maxLength` as `MAX_LENGTH`."""
    return "".join(f"_{each}" if each.isupper() else each.upper() for each in word)


def _pattern(before: dict[str, Json], after: dict[str, Json], path: str) -> list[str]:
    if "pattern" not in after or before.get("pattern") == after["pattern"]:
        return []
    return [reason("PATTERN_CHANGED" if "pattern" in before else "PATTERN_ADDED", f"{path}/pattern")]


def _multiple_of(before: dict[str, Json], after: dict[str, Json], path: str) -> list[str]:
    old, new = (_number(each, "multipleOf") or None for each in (before, after))
    if new is None or (old is not None and _is_multiple(old, new)):
        return []
    kind = "ADDED" if old is None else "EXPANDED" if _is_multiple(new, old) else "CHANGED"
    return [reason(f"MULTIPLE_OF_{kind}", f"{path}/multipleOf")]


def _is_multiple(number: float, of: float) -> bool:
    """Return whether a number is a multiple of another, as both are written: 0.3 is one of 0.1, but not as floats."""
    return Fraction(str(number)) % Fraction(str(of)) == 0


# -- the schema


class JsonSchema(Parsed):
    def __init__(self, found: Json, library: Library) -> None:
        self._found = found
        self.root = SchemaDocument("", found, library)
        self.root.check()
        self.canonical = self.identity = write_json(found)

    @cached_property
    def normalized(self) -> str:
        return write_json(self._found, sort_keys=True)

    @property
    def fields(self) -> set[str]:
        return set(self._found.get("properties", ())) if isinstance(self._found, dict) else set()

    def differences(self, written: Self) -> list[str]:
        old, new = (Subschema(each.schema, each) for each in (written.root, self.root))
        effort = Effort(len(self.canonical) + len(written.canonical))
        return list(dict.fromkeys(Comparison(effort).compare(old, new, "#/")))


def parse(text: str, library: Mapping[str, str]) -> JsonSchema:
    """Parse a schema. Raises InvalidSchema."""
    try:
        return _parsed(read_json(text), library)
    except ValueError as error:  # a reference is no valid address: "http://[x", say
        raise InvalidSchema(str(error)) from None


def _parsed(found: Json, library: Mapping[str, str]) -> JsonSchema:
    if not isinstance(found, dict | bool):
        raise InvalidSchema("a JSON Schema is an object, or true or false")
    if isinstance(found, dict):
        if not isinstance(found.get("$schema", ""), str):
            raise InvalidSchema("$schema is no text")
        validator = validator_for(found, default=Draft7Validator)
        # Formats are not checked: Python may not know the regular expressions of a `pattern`.
        for error in validator(validator.META_SCHEMA).iter_errors(found):
            raise InvalidSchema(f"{error.message} at #/{'/'.join(map(str, error.absolute_path))}")
    return JsonSchema(found, Library({name: read_json(needed) for name, needed in library.items()}))
