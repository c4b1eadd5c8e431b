"""JSON Schemas: their canonical text, where references lead, and what is none."""

from __future__ import annotations

import json

import pytest

from pykafka_broker.registry.json_schema import parse
from pykafka_broker.registry.problems import InvalidSchema

SELF = {"$id": "http://me/root", "definitions": {"name": {"$anchor": "called", "type": "string"}}}


def test_white_space_does_not_count_and_order_only_when_normalized() -> None:
    one, two = parse('{ "type" : "object",\n "title":"é" }', {}), parse('{"title":"é","type":"object"}', {})
    assert one.canonical == '{"type":"object","title":"é"}'
    assert one.canonical != two.canonical
    assert one.normalized == two.normalized


@pytest.mark.parametrize(
    "reference",
    [
        *("#", "#/definitions/name", "#called", "http://me/root#/definitions/name", "root#/definitions/name"),
        *("other.json", "other.json#/properties/a", "http://other/id", "http://json-schema.org/draft-07/schema#"),
    ],
)
def test_a_reference_leads_into_the_schema_or_to_one_by_name(reference: str) -> None:
    other = json.dumps({"$id": "http://other/id", "properties": {"a": {"type": "integer"}}})
    parse(json.dumps(SELF | {"properties": {"x": {"$ref": reference}}}), {"other.json": other})


@pytest.mark.parametrize(
    "reference",
    [
        "#/nowhere",
        "#nowhere",
        "other.json",
        "http://me/other",
        "file:///etc/passwd",
        f"#/allOf/{'9' * 5000}",
        "#/allOf/1",
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(reference: str) -> None:
    with pytest.raises(InvalidSchema, match="leads nowhere"):
        parse(json.dumps(SELF | {"allOf": [{}], "properties": {"x": {"$ref": reference}}}), {})


def test_what_another_schema_says_counts() -> None:
    text = json.dumps({"properties": {"x": {"$ref": "other.json"}}})
    whole, text_one = (
        parse(text, {"other.json": '{"type":"integer"}'}),
        parse(text, {"other.json": '{"type":"string"}'}),
    )
    assert whole.differences(whole) == []
    assert "TYPE_CHANGED" in text_one.differences(whole)[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"type":"text"}',
        '{"required":"a"}',
        '{"minimum":1e999}',
        '{"a":1,"a":2}',
        '{"maxLength":-1}',
        '{"$schema":5}',
        '{"$schema":"http://[x"}',
        '{"$id":"http://[x","properties":{"a":{"$ref":"b"}}}',
        '{"properties":{"a":{"$ref":"http://[x"}}}',
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(text, {})


@pytest.mark.parametrize("reference", ["#/type", "#/required", "#/maxProperties"])
def test_a_reference_to_what_is_no_schema_is_refused(reference: str) -> None:
    schema = {"type": "object", "required": ["a"], "maxProperties": 5, "properties": {"a": {"$ref": reference}}}
    with pytest.raises(InvalidSchema, match="leads to no schema"):
        parse(json.dumps(schema), {})


def test_true_is_a_schema() -> None:
    assert parse("true", {}).canonical == "true"


@pytest.mark.parametrize("name", ["default", "enum", "const", "examples"])
def test_a_property_may_have_the_name_of_a_word(name: str) -> None:
    for word in ("properties", "patternProperties", "definitions", "$defs"):
        with pytest.raises(InvalidSchema, match="leads nowhere"):
            parse(json.dumps({word: {name: {"$ref": "#/definitions/missing"}}}), {})
    parse(json.dumps({name: {"$ref": "#/definitions/missing"}} if name in ("default", "const") else {}), {})
    anchored = {"properties": {name: {"$anchor": "here"}, "other": {"$ref": "#here"}}}
    assert parse(json.dumps(anchored), {}).canonical == json.dumps(anchored, separators=(",", ":"))
