"""Which Avro data can be read with which schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykafka_broker.registry.avro import Reader, _Comparison, parse
from pykafka_broker.registry.kinds import Effort
from tests.registry.rest import record

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
WIDER = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}


def kinds(reader: Any, writer: Any) -> list[str]:
    """Return the kinds of the differences that make `new` incompatible with `old`."""
    found = parse(json.dumps(reader), {}).differences(parse(json.dumps(writer), {}))
    return [each.format(new="new", old="old").partition("'")[2].partition("'")[0] for each in found]


@pytest.mark.parametrize(
    ("reader", "writer", "reasons"),
    [
        ("int", "int", []),
        ("long", "int", []),
        ("double", "long", []),
        ("int", "long", ["TYPE_MISMATCH"]),
        ("string", "bytes", []),
        ("bytes", "string", []),
        (["null", "int"], "int", []),
        ("int", ["null", "int"], ["TYPE_MISMATCH"]),
        ("long", ["int", "long"], []),
        (["null", "int"], ["null", "int", "string"], ["MISSING_UNION_BRANCH"]),
        (["null", "string"], "int", ["MISSING_UNION_BRANCH"]),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, []),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, ["TYPE_MISMATCH"]),
        (ENUM, WIDER, ["MISSING_ENUM_SYMBOLS"]),
        (ENUM | {"default": "A"}, WIDER, []),
        (WIDER, ENUM, []),
        ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 8}, ["FIXED_SIZE_MISMATCH"]),
        (record("a", {"name": "b", "type": "int", "default": 0}), record("a"), []),
        (record("a", "b"), record("a"), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
        (record("a"), record("a", "b"), []),
        (record({"name": "b", "type": "int", "aliases": ["a"]}), record("a"), []),
        (record("a", name="S"), record("a"), ["NAME_MISMATCH"]),
        (record("a", name="S", aliases=["R"]), record("a"), []),
        (record("a", namespace="n"), record("a", namespace="m"), []),
        (record({"name": "e", "type": ENUM | {"default": "A"}}), record(), []),
    ],
)
def test_resolution_goes_by_the_specification(reader: Any, writer: Any, reasons: list[str]) -> None:
    assert kinds(reader, writer) == reasons


def test_types_that_hold_themselves_are_compared_to_an_end() -> None:
    tree = record("a", {"name": "next", "type": ["null", "R"]})
    other = record({"name": "a", "type": "string"}, {"name": "next", "type": ["null", "R"]})
    assert kinds(tree, tree) == []
    assert "TYPE_MISMATCH" in kinds(tree, other)


def test_a_reason_has_its_path_and_keeps_braces_that_a_name_has() -> None:
    nested = record({"name": "in", "type": record("a", "b", name="S")})
    found = parse(json.dumps(nested), {}).differences(
        parse(json.dumps(record({"name": "in", "type": record("a", name="S")})), {})
    )
    assert found[0].format(new="new", old="old") == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path '/fields/0/type/fields/1' "
        "in the new schema has no default value and is missing in the old schema', additionalInfo:'b'}"
    )


def test_a_branch_of_a_written_union_is_in_the_path() -> None:
    found = parse('"int"', {}).differences(parse('["long", "int", "string"]', {}))
    assert ["path '/0'" in found[0], "path '/2'" in found[1]] == [True, True]


def test_an_error_is_a_record() -> None:
    assert kinds(record(), {"type": "error", "name": "R", "fields": []}) == []


def test_a_field_that_meets_two_written_fields_is_refused() -> None:
    reader = record({"name": "new", "type": "int", "aliases": ["old"]})
    assert kinds(reader, record("old")) == []
    assert kinds(reader, record("new", "old")) == ["AMBIGUOUS_FIELD"]


def test_very_large_unions_are_compared_by_their_names() -> None:
    branches = [{"type": "fixed", "name": f"F{number}", "size": 1} for number in range(5_000)]
    comparison = _Comparison(Effort())
    types = [Reader().read(each) for each in (branches[::-1], branches)]
    assert comparison.compare(types[0], types[1], "") == []
    assert len(comparison._known) == 5_001, "one for each branch, and the union"
