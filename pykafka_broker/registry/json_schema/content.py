"""Objects and arrays: what is required, what may be added, what is closed.

Rule: a content model is open where what is not named is valid as anything, partially open where it has to be valid
under a schema, closed where it is not valid.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from pykafka_broker.registry.json_schema.references import Node, target
from pykafka_broker.registry.reasons import reason

Json = Any
_REPEATS = re.compile(r"[*+{]")
_MOST_REPEATS = 2
_LONGEST_NAME = 500


class Compares(Protocol):
    """What compares the schemas within."""

    def compare(self, old: Node, new: Node, path: str) -> list[str]: ...


def compare_object(compares: Compares, old: Node, new: Node, path: str) -> list[str]:
    before, after = old.schema, new.schema
    were, are = _names(before), _names(after)
    found = []
    for name in sorted(_required(after) - _required(before)):
        declared = name in were or name not in are  # one that is added is judged below
        if declared and not _has_default(Node(are.get(name, True), new.document)):
            found.append(reason("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}"))
    for name in [*were, *(name for name in are if name not in were)]:
        where = f"{path}/properties/{name}"
        if name not in are:
            found += _removed(compares, Node(were[name], old.document), new, name, where)
        elif name not in were:
            found += _added(compares, old, Node(are[name], new.document), name, where)
            found += _required_now(new, Node(are[name], new.document), name, where)
        else:
            found += compares.compare(Node(were[name], old.document), Node(are[name], new.document), where)
    found += _compare_patterns(compares, old, new, path)
    found += _compare_rest(compares, old, new, "additionalProperties", "ADDITIONAL_PROPERTIES", path)
    return found + _compare_dependencies(compares, old, new, path)


def _compare_patterns(compares: Compares, old: Node, new: Node, path: str) -> list[str]:
    """What fell under a pattern, and what falls under one that is new."""
    before, after = _patterns(old), _patterns(new)
    rest_before, rest_after = (
        Node(each.schema.get("additionalProperties", True), each.document) for each in (old, new)
    )
    pairs = [(pattern, was, after.get(pattern, rest_after)) for pattern, was in before.items()]
    for pattern, now in after.items():
        if pattern not in before:
            named = [Node(each, old.document) for name, each in _names(old.schema).items() if _matches(pattern, name)]
            pairs += [(pattern, was, now) for was in (rest_before, *before.values(), *named)]
    return [
        reason(f"ADDITIONAL_PROPERTIES_{'REMOVED' if now.schema is False else 'NARROWED'}", f"{path}/{pattern}")
        for pattern, was, now in pairs
        if compares.compare(was, now, f"{path}/patternProperties/{pattern}")
    ]


def _patterns(node: Node) -> dict[str, Node]:
    return {name: Node(each, node.document) for name, each in node.schema.get("patternProperties", {}).items()}


def _removed(compares: Compares, was: Node, new: Node, name: str, path: str) -> list[str]:
    rest = _schema_for(new, name)
    if rest is None:
        if was.schema is False:
            return []
        return [reason("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)]
    if compares.compare(was, rest, path):
        return [reason("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)]
    return []


def _added(compares: Compares, old: Node, now: Node, name: str, path: str) -> list[str]:
    rest = _schema_for(old, name)
    if rest is None or not compares.compare(rest, now, path):
        return []
    if rest.schema is True:
        return [reason("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path)]
    return [reason("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)]


def _required_now(new: Node, now: Node, name: str, path: str) -> list[str]:
    if name not in _required(new.schema) or _has_default(now):
        return []
    return [reason("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path)]


def _schema_for(node: Node, name: str) -> Node | None:
    """What a property has to be that is not named; None where it can't be there."""
    for pattern, schema in node.schema.get("patternProperties", {}).items():
        if _matches(pattern, name):
            return Node(schema, node.document)
    rest = node.schema.get("additionalProperties", True)
    return None if rest is False else Node(True if rest == {} else rest, node.document)


def _matches(pattern: str, name: str) -> bool:
    """A pattern that could take very long is taken not to match."""
    if "(" in pattern or len(_REPEATS.findall(pattern)) > _MOST_REPEATS or len(name) > _LONGEST_NAME:
        return False
    try:
        return re.search(pattern, name) is not None
    except re.error:  # one of JavaScript's
        return False


def _compare_rest(compares: Compares, old: Node, new: Node, word: str, kind: str, path: str) -> list[str]:
    """What may stand beside what is named."""
    was, now = Node(old.schema.get(word, True), old.document), Node(new.schema.get(word, True), new.document)
    where = f"{path}/{word}"
    if now.schema is False and was.schema is not False:
        return [reason(f"{kind}_REMOVED", where)]
    if was.schema in (True, {}) and compares.compare(was, now, where):
        return [reason(f"{kind}_NARROWED", where)]
    return compares.compare(was, now, where)


def _compare_dependencies(compares: Compares, old: Node, new: Node, path: str) -> list[str]:
    before, after = _dependencies(old.schema), _dependencies(new.schema)
    found = []
    for name, now in after.items():
        was, where = before.get(name), f"{path}/dependencies/{name}"
        if isinstance(now, list):
            if not isinstance(was, list):
                found.append(reason("DEPENDENCY_ARRAY_ADDED", where))
            elif not set(now) <= set(was):
                kind = "EXTENDED" if set(was) < set(now) else "CHANGED"
                found.append(reason(f"DEPENDENCY_ARRAY_{kind}", where))
        elif was is None or isinstance(was, list):
            found.append(reason("DEPENDENCY_SCHEMA_ADDED", where))
        else:
            found += compares.compare(Node(was, old.document), Node(now, new.document), where)
    return found


def _dependencies(schema: dict[str, Json]) -> dict[str, Json]:
    words = ("dependencies", "dependentRequired", "dependentSchemas")
    return {name: value for word in words for name, value in schema.get(word, {}).items()}


def compare_array(compares: Compares, old: Node, new: Node, path: str) -> list[str]:
    (before, rest_before), (after, rest_after) = _items(old), _items(new)
    found = []
    if new.schema.get("uniqueItems") is True and old.schema.get("uniqueItems") is not True:
        found.append(reason("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems"))
    for number in range(max(len(before), len(after))):
        was = before[number] if number < len(before) else rest_before
        now = after[number] if number < len(after) else rest_after
        if compares.compare(was, now, f"{path}/items/{number}"):
            if number >= len(before):
                kind = "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"
            elif number >= len(after):
                kind = "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"
            else:
                found += compares.compare(was, now, f"{path}/items/{number}")
                continue
            found.append(reason(kind, f"{path}/items/{number}"))
    if compares.compare(rest_before, rest_after, f"{path}/items"):
        found += (
            [reason("ADDITIONAL_ITEMS_REMOVED", f"{path}/additionalItems")]
            if rest_after.schema is False
            else compares.compare(rest_before, rest_after, f"{path}/items")
        )
    return found


def _items(node: Node) -> tuple[list[Node], Node]:
    """The schemas of the first items, and that of all others."""
    schema = node.schema
    items = schema.get("items", True)
    first, rest = (items, schema.get("additionalItems", True)) if isinstance(items, list) else ([], items)
    if isinstance(schema.get("prefixItems"), list):
        first = schema["prefixItems"]
    return [Node(each, node.document) for each in first], Node(rest, node.document)


def _names(schema: dict[str, Json]) -> dict[str, Json]:
    found = schema.get("properties", {})
    return found if isinstance(found, dict) else {}


def _required(schema: dict[str, Json]) -> set[str]:
    found = schema.get("required", [])
    return set(found) if isinstance(found, list) else set()


def _has_default(node: Node) -> bool:
    schema = target(node).schema
    return isinstance(schema, dict) and "default" in schema
