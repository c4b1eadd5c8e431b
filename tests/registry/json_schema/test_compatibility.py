"""The changes of a JSON Schema that are compatible, and those that are not."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from pykafka_broker.registry.json_schema import Comparison, Subschema, parse, target
from pykafka_broker.registry.kinds import Effort
from pykafka_broker.registry.problems import InvalidSchema


def kinds(new: Any, old: Any) -> list[str]:
    """Return the kinds of the differences that make `new` incompatible with `old`."""
    found = parse(json.dumps(new), {}).differences(parse(json.dumps(old), {}))
    return [each.format(new="new", old="old").split('"')[1] for each in found]


def thing(required: tuple[str, ...] = (), rest: Any = None, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object; rest: the schema of its other properties."""
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    return found if rest is None else found | {"additionalProperties": rest}


def patterned(begins_with_a: Any, **properties: Any) -> dict[str, Any]:
    return thing(**properties) | {"patternProperties": {"^a": begins_with_a}}


INT, TEXT = {"type": "integer"}, {"type": "string"}


@pytest.mark.parametrize(
    ("new", "old", "reasons"),
    [
        ({"type": "number"}, INT, []),
        (INT, {"type": "number"}, ["TYPE_NARROWED"]),
        (TEXT, INT, ["TYPE_CHANGED"]),
        ({"type": ["string", "null"]}, TEXT, []),
        (TEXT, {"type": ["string", "null"]}, ["TYPE_NARROWED"]),
        ({}, TEXT, []),
        (TEXT, {}, ["TYPE_CHANGED"]),
        (TEXT, False, []),
        (TEXT | {"title": "new", "description": "d"}, TEXT | {"title": "old"}, []),
        (TEXT | {"maxLength": 5}, TEXT, ["MAX_LENGTH_ADDED"]),
        (TEXT | {"maxLength": 5}, TEXT | {"maxLength": 9}, ["MAX_LENGTH_DECREASED"]),
        (TEXT | {"maxLength": 9}, TEXT | {"maxLength": 5}, []),
        (TEXT | {"minLength": 2}, TEXT | {"minLength": 1}, ["MIN_LENGTH_INCREASED"]),
        (TEXT, TEXT | {"pattern": "a"}, []),
        (TEXT | {"pattern": "b"}, TEXT | {"pattern": "a"}, ["PATTERN_CHANGED"]),
        (INT | {"maximum": 3}, INT | {"maximum": 4}, ["MAXIMUM_DECREASED"]),
        (INT | {"exclusiveMinimum": 3}, INT, ["EXCLUSIVE_MINIMUM_ADDED"]),
        (INT | {"multipleOf": 2}, INT | {"multipleOf": 4}, []),
        (INT | {"multipleOf": 4}, INT | {"multipleOf": 2}, ["MULTIPLE_OF_EXPANDED"]),
        (INT | {"multipleOf": 4}, INT | {"multipleOf": 3}, ["MULTIPLE_OF_CHANGED"]),
        ({"multipleOf": 0.1}, {"multipleOf": 0.3}, []),
        ({"multipleOf": 0.3}, {"multipleOf": 0.1}, ["MULTIPLE_OF_EXPANDED"]),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, []),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_NARROWED"]),
        ({"enum": ["a"]}, {"const": "b"}, ["ENUM_ARRAY_CHANGED"]),
        (TEXT | {"enum": ["a"]}, TEXT, ["ENUM_ARRAY_ADDED"]),
        (TEXT, {"enum": ["a"]}, []),
        (TEXT, TEXT | {"enum": ["a"]}, []),
        (TEXT, {"enum": ["a", 1]}, ["TYPE_NARROWED"]),
        (thing(a=INT, b=INT), thing(a=INT), ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
        (thing(a=INT, b={}), thing(a=INT), []),
        (thing(a=INT), thing(a=INT, b=INT), []),
        (thing(a=INT, b=INT, rest=False), thing(a=INT, rest=False), []),
        (thing(a=INT, rest=False), thing(a=INT, b=INT, rest=False), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
        (
            thing(("b",), False, a=INT, b=INT),
            thing(a=INT, rest=False),
            ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
        ),
        (thing(("b",), False, a=INT, b=INT | {"default": 1}), thing(a=INT, rest=False), []),
        (thing(a=INT, b=INT, rest=INT), thing(a=INT, rest=INT), []),
        (
            thing(a=INT, b=TEXT, rest=INT),
            thing(a=INT, rest=INT),
            ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
        ),
        (
            thing(rest=INT),
            thing(a=TEXT, rest=INT),
            ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
        ),
        (thing(rest=False), thing(), ["ADDITIONAL_PROPERTIES_REMOVED"]),
        (thing(rest=INT), thing(), ["ADDITIONAL_PROPERTIES_NARROWED"]),
        (thing(), thing(rest=False), []),
        (thing(rest=False), thing(rest=False) | {"patternProperties": {"^a": {}}}, []),
        (thing() | {"patternProperties": {"^a": INT}}, thing(), []),
        (patterned(TEXT), patterned(INT), []),
        (patterned(INT, ab=INT), patterned(INT), []),
        (patterned(INT, ab=TEXT), patterned(INT), ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"]),
        (patterned(INT, b=TEXT), patterned(INT), []),
        (patterned(INT), patterned(INT, b=TEXT), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
        (
            patterned(True, ab={}) | {"required": ["ab"]},
            patterned(True),
            ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
        ),
        (thing(("a",), a=INT), thing(a=INT), ["REQUIRED_ATTRIBUTE_ADDED"]),
        (thing(("a",), a=INT | {"default": 1}), thing(a=INT), []),
        (thing(a=INT), thing(("a",), a=INT), []),
        (thing(("b",), a=INT), thing(("a",), a=INT), []),  # declared by neither
        (thing(("b",), a=INT), thing(a=INT, b=INT), []),
        (thing(("b",), a=INT, b={}), thing(a=INT), []),
        (thing(("b",), a=INT, b=INT), thing(a=INT), ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
        (thing(a=thing(b=TEXT)), thing(a=thing(b=INT)), ["TYPE_CHANGED"]),
        (thing() | {"minProperties": 1}, thing(), ["MIN_PROPERTIES_ADDED"]),
        (thing() | {"dependencies": {"a": ["b"]}}, thing(), ["DEPENDENCY_ARRAY_ADDED"]),
        (
            thing() | {"dependencies": {"a": ["b", "c"]}},
            thing() | {"dependencies": {"a": ["b"]}},
            ["DEPENDENCY_ARRAY_EXTENDED"],
        ),
        (thing() | {"dependencies": {"a": thing(("b",))}}, thing(), ["DEPENDENCY_SCHEMA_ADDED"]),
        ({"type": "array", "items": INT}, {"type": "array", "items": TEXT}, ["TYPE_CHANGED"]),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, ["UNIQUE_ITEMS_ADDED"]),
        ({"type": "array", "maxItems": 1}, {"type": "array"}, ["MAX_ITEMS_ADDED"]),
        (
            {"type": "array", "items": [INT, INT]},
            {"type": "array", "items": [INT]},
            ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"],
        ),
        (
            {"type": "array", "items": [INT], "additionalItems": False},
            {"type": "array", "items": [INT, TEXT], "additionalItems": False},
            ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"],
        ),
        ({"anyOf": [TEXT, INT]}, TEXT, []),
        ({"anyOf": [TEXT, INT]}, {"anyOf": [INT, TEXT]}, []),
        ({"anyOf": [TEXT]}, {"anyOf": [TEXT, INT]}, ["SUM_TYPE_NARROWED"]),
        ({"oneOf": [TEXT, {"type": "null"}]}, {"oneOf": [TEXT, INT]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]),
        ({"oneOf": [TEXT, INT]}, {"anyOf": [TEXT, INT]}, ["COMBINED_TYPE_CHANGED"]),
        ({"oneOf": [TEXT, INT]}, {"anyOf": [TEXT]}, []),
        ({"oneOf": [TEXT]}, {"anyOf": [TEXT, INT]}, ["COMBINED_TYPE_CHANGED"]),
        ({"oneOf": [TEXT, INT]}, {"type": "null"}, ["TYPE_CHANGED"]),
        (thing(a=INT), {"allOf": [thing(a=INT)]}, []),
        (thing(a=INT), {"allOf": [thing(b=INT), thing(a=INT)], "description": "both"}, []),
        (thing(a=INT), {"oneOf": [thing(a=INT)]}, []),
        (thing(a=INT), {"anyOf": [thing(a=INT), thing(a=INT, b=INT)]}, []),
        (thing(a=INT), {"allOf": [thing(b=INT)]}, ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
        (
            thing(a=INT),
            {"anyOf": [thing(a=INT), thing(b=INT)]},
            ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "SUM_TYPE_NARROWED"],
        ),
        (TEXT, {"oneOf": [TEXT, INT]}, ["TYPE_NARROWED", "SUM_TYPE_NARROWED"]),
        ({"type": "string", "anyOf": [{}]}, {"anyOf": [{}]}, ["TYPE_NARROWED"]),
        ({"allOf": [thing(a=INT)]}, {"allOf": [thing(a=INT), thing(b=INT)]}, []),
        ({"allOf": [TEXT, {"maxLength": 3}]}, {"allOf": [TEXT]}, ["PRODUCT_TYPE_EXTENDED"]),
        ({"not": INT}, {"not": {"type": "number"}}, []),
        ({"not": INT}, TEXT, ["NOT_TYPE_EXTENDED"]),
    ],
)
def test_keywords_are_compared_one_by_one(new: Any, old: Any, reasons: list[str]) -> None:
    assert kinds(new, old) == reasons


@pytest.mark.parametrize(
    "senseless",
    [
        *({word: 5} for word in ("allOf", "anyOf", "not", "items", "prefixItems", "properties", "required", "enum")),
        *({word: 5} for word in ("dependencies", "dependentRequired", "dependentSchemas", "additionalProperties")),
        *({word: {"a": 5}} for word in ("properties", "dependencies", "dependentRequired", "dependentSchemas")),
        {"dependentRequired": {"a": [{}]}},
        {"prefixItems": [5]},
        {"required": [[]]},
        {"type": [{}]},
        {"multipleOf": 0},
        {"maximum": True},
    ],
    ids=str,
)
def test_a_keyword_with_a_senseless_value_says_nothing(senseless: dict[str, Any]) -> None:
    """A draft checks no keyword that it lacks, and nothing in a place that it does not know."""
    held = {"$ref": "#/$defs/held"}
    for sound in (thing(a=INT), {"type": "array", "items": [INT]}, {"type": "number"}, {"allOf": [INT]}):
        schema = held | {"$defs": {"held": sound}}
        both = held | {"$defs": {"held": sound | senseless}}
        assert kinds(both, both) == []
        kinds(both, schema)
        kinds(schema, both)


def test_schemas_that_hold_themselves_are_compared_to_an_end() -> None:
    def tree(value: Any) -> dict[str, Any]:
        return thing(rest=False, value=value, next={"$ref": "#"})

    assert kinds(tree(INT), tree(INT)) == []
    assert kinds(tree(TEXT), tree(INT)) == ["TYPE_CHANGED"]


def test_a_reason_says_where() -> None:
    found = parse(json.dumps(thing(a=thing(b=TEXT))), {}).differences(parse(json.dumps(thing(a=thing(b=INT))), {}))
    assert "'#//properties/a/properties/b' in the new schema" in found[0].format(new="new", old="old")


def test_sums_with_very_many_parts_are_refused() -> None:
    many = {"anyOf": [{"type": "string", "maxLength": number} for number in range(600)]}
    with pytest.raises(InvalidSchema, match="too many to compare"):
        kinds(many, many | {"title": "other"})


def test_a_pattern_that_could_take_very_long_is_not_tried() -> None:
    def integers(pattern: str, **properties: Any) -> dict[str, Any]:
        return thing(rest=False, **properties) | {"patternProperties": {pattern: INT}}

    name = "a" * 60 + "!"
    closed = ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]
    assert kinds(integers("^a+"), integers("^a+", **{name: INT})) == []
    assert kinds(integers("^(a+)+$"), integers("^(a+)+$", **{name: INT})) == closed
    assert kinds(integers("a*a*a*a*b"), integers("a*a*a*a*b", **{name: INT})) == closed
    assert kinds(integers("[", a=INT), integers("[", a=INT)) == []


@pytest.mark.parametrize("in_order", [True, False])
def test_an_alternative_that_fails_leaves_no_verdict_behind(in_order: bool) -> None:
    """`b` is compatible as long as `a`, which holds it and is held by it, counts as compatible."""

    def schema(kind: str, *others: Any) -> Any:
        a: Any = thing(b={"$ref": "#/definitions/b"}, bad={"type": kind})
        alternatives = [{"$ref": "#/definitions/a"}, *others]
        f = {"anyOf": alternatives if in_order else alternatives[::-1]}
        properties = {"f": f, "g": {"$ref": "#/definitions/b"}}
        definitions = {"a": a, "b": thing(a={"$ref": "#/definitions/a"})}
        return {"type": "object", "properties": properties, "definitions": definitions}

    assert kinds(schema("string", {"type": "object"}), schema("integer")) == ["TYPE_CHANGED"]


class Forgetful(Comparison):
    """A comparison that keeps no verdict: a pair counts as compatible only while it is under comparison."""

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self._open: list[Any] = []

    def compare(self, old: Subschema, new: Subschema, path: str) -> list[str]:
        old, new = target(old), target(new)
        if any(before is old.schema and after is new.schema for before, after in self._open):
            return []
        self._open.append((old.schema, new.schema))
        self._known.clear()
        try:
            return super().compare(old, new, path)
        finally:
            self._open.pop()


def recursive(random: Random) -> Any:
    def part() -> Any:
        reference = {"$ref": f"#/definitions/{random.randrange(3)}"}
        return random.choice([reference, reference, {"type": "integer"}, {"items": reference}])

    definitions = {str(each): thing(rest=False, one=part(), two=part(), three=part()) for each in range(3)}
    return {"$ref": "#/definitions/0", "definitions": definitions}


def changed(random: Random, schema: Any) -> Any:
    """Return the schema with a changed type of one property, and with properties that take any object as well."""
    new = json.loads(json.dumps(schema))
    properties = [each["properties"] for each in new["definitions"].values()]
    for found in properties:
        name = random.choice(list(found))
        found[name] = {"anyOf": [found[name], {"type": "object"}]}
    random.choice(properties)["three"] = {"type": "string"}
    return new


@pytest.mark.whole
def test_verdicts_are_those_of_a_comparison_that_keeps_none() -> None:
    incompatible = 0
    for seed in range(400):
        random = Random(seed)
        old = recursive(random)
        before, after = (parse(json.dumps(each), {}).root for each in (old, changed(random, old)))
        pair = Subschema(before.schema, before), Subschema(after.schema, after)
        verdicts = {bool(each(Effort(100_000)).compare(*pair, "#/")) for each in (Comparison, Forgetful)}
        assert len(verdicts) == 1, seed
        incompatible += verdicts == {True}
    assert 40 < incompatible < 360
