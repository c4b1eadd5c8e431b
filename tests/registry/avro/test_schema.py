"""Avro's canonical text, and what is no Avro schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykafka_broker.registry.avro import parse
from pykafka_broker.registry.problems import InvalidSchema
from tests.registry.rest import record


def test_white_space_and_the_way_of_naming_do_not_count() -> None:
    one = parse('{ "type":"record", "name":"a.b.R",\n "fields":[ {"type":{"type":"int"}, "name":"x"} ] }', {})
    two = parse(json.dumps(record("x", namespace="a.b")), {})
    assert one.canonical == two.canonical
    assert one.canonical == '{"type":"record","name":"R","namespace":"a.b","fields":[{"name":"x","type":"int"}]}'


def test_docs_defaults_aliases_and_properties_stay() -> None:
    whole = record(
        {"name": "x", "type": {"type": "int", "logicalType": "date"}, "doc": "d", "default": 1, "aliases": ["y"]},
        doc="of R",
        aliases=["Q"],
        owner="me",
    )
    assert json.loads(parse(json.dumps(whole), {}).canonical) == whole


def test_what_was_defined_is_called_by_its_name() -> None:
    text = json.dumps(
        record({"name": "a", "type": record("x", name="n.S")}, {"name": "b", "type": "n.S"}, namespace="n")
    )
    assert json.loads(parse(text, {}).canonical)["fields"][1]["type"] == "S"


def test_properties_in_another_order_are_the_same_only_when_normalized() -> None:
    one = parse('{"type":"string","a":1,"b":2}', {})
    two = parse('{"b":2,"type":"string","a":1}', {})
    assert one.canonical != two.canonical
    assert one.normalized == two.normalized


def test_a_schema_that_refers_to_others_keeps_their_names() -> None:
    library = {
        "S": json.dumps(record("x", name="n.S")),
        "T": json.dumps(record({"name": "s", "type": "n.S"}, name="T")),
    }
    found = parse(json.dumps(record({"name": "t", "type": "T"})), library)
    assert json.loads(found.canonical)["fields"][0]["type"] == "T"
    assert [each.name for each in found.type.fields[0].type.fields] == ["s"]


@pytest.mark.parametrize("text", ['"string"', "string", '{"type":"string"}', '{"type":"string","doc":"d","size":1}'])
def test_a_primitive_is_one_however_it_is_written(text: str) -> None:
    assert parse(text, {}).canonical == '"string"'


@pytest.mark.parametrize(
    "schema",
    [
        3,
        None,
        {},
        "Unknown",
        [["null"]],
        ["int", "int"],
        {"type": "array"},
        {"type": "map", "values": "Z"},
        {"type": {"type": "string"}},
        {"type": "fixed", "name": "F", "size": 2**31 - 8},
        {"type": "enum", "name": "E", "symbols": ["A", "A"]},
        {"type": "enum", "name": "E", "symbols": ["A-b"]},
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"},
        {"type": "enum", "name": "E"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "fixed", "name": "F", "size": True},
        {"type": "record", "name": "R"},
        {"type": "record", "fields": []},
        record("x", "x"),
        record("a-b"),
        record("x", name="1R"),
        record("x", name="R\u00b2"),
        record("x", name="\U0001d49c"),
        record("x", aliases=["a-b"]),
        record("x", name="int"),
        record({"name": "x"}),
        record({"name": "x", "type": "int", "default": "s"}),
        record({"name": "x", "type": ["null", "int"], "default": "s"}),
        record({"name": "x", "type": "int", "order": "up"}),
        record({"name": "x", "type": "int", "order": None}),
        record({"name": "x", "type": "double", "default": "INF"}),
        record({"name": "x", "type": ["double", "null"], "default": "NaN"}),
        record({"name": "x", "type": "Later"}),
        record({"name": "x", "type": "int", "aliases": "y"}),
        [record("x"), record("y")],
    ],
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidSchema):
        parse(json.dumps(schema), {})


@pytest.mark.parametrize(
    ("schema", "canonical"),  # as Avro 1.12.1 for Java reads and writes them
    [
        (record("x", name="Größe", namespace="日本"), None),
        (record("x", name="A\u0663"), None),
        (record("x", size=1, default=2, order=3), record("x", default=2, order=3)),
        ({"type": "array", "items": "int", "name": "n", "p": 1}, {"type": "array", "items": "int", "p": 1}),
        (
            {"type": "enum", "name": "E", "symbols": ["A"], "default": 1},
            {"type": "enum", "name": "E", "symbols": ["A"]},
        ),
        (
            record({"name": "x", "type": "int", "order": "IGNORE"}),
            record({"name": "x", "type": "int", "order": "ignore"}),
        ),
        (
            record({"name": "x", "type": "float", "default": "1.5"}),
            record({"name": "x", "type": "float", "default": 1.5}),
        ),
        (record({"name": "x", "type": "double", "default": "-Infinity"}), None),
        (
            record({"name": "x", "type": "int", "aliases": ["y", "y"]}),
            record({"name": "x", "type": "int", "aliases": ["y"]}),
        ),
        (
            record({"name": "x", "type": "S"}, {"name": "y", "type": record(name="S")}),
            record({"name": "x", "type": record(name="S")}, {"name": "y", "type": "S"}),
        ),
    ],
)
def test_a_schema_is_read_as_by_the_java_library(schema: Any, canonical: Any) -> None:
    assert json.loads(parse(json.dumps(schema), {}).canonical) == (canonical or schema)


def test_a_default_is_checked_when_its_type_is_known() -> None:
    later = {"name": "y", "type": record("a", name="S")}
    parse(json.dumps(record({"name": "x", "type": "S", "default": {"a": 1}}, later)), {})
    with pytest.raises(InvalidSchema, match="Invalid default for field x"):
        parse(json.dumps(record({"name": "x", "type": "S", "default": {}}, later)), {})


@pytest.mark.parametrize("text", ["", "{", '{"type":"int","type":"int"}', '{"type":"int","x":NaN}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(text, {})
