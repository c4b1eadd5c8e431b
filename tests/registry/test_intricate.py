"""Schemas of a few thousand characters that ask for work without end: each is refused, or done, in few steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pykafka_broker.registry import protobuf
from pykafka_broker.registry.kinds import Effort, Parsed, parse
from pykafka_broker.registry.problems import InvalidSchema
from tests.registry.rest import record

HUNDREDS = 300


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the steps of all schemas so far."""
    counted = [0]

    def spend(effort: Effort, steps: int = 1) -> None:
        counted[0] += steps
        spends(effort, steps)

    spends = Effort.spend
    monkeypatch.setattr(Effort, "spend", spend)
    return counted


def avro(schema: Any) -> Parsed:
    return parse("AVRO", json.dumps(schema), {})


def json_schema(schema: Any) -> Parsed:
    return parse("JSON", json.dumps(schema), {})


def test_a_default_of_records_that_hold_each_other(steps: list[int]) -> None:
    kind: Any = ["A", {"type": "record", "name": "B", "fields": [{"name": "f", "type": ["A", "B"]}]}]
    default: Any = 5
    for _ in range(60):
        default = {"f": default}
    holder = record({"name": "f", "type": kind}, name="A")
    with pytest.raises(InvalidSchema, match="Invalid default"):
        avro(record({"name": "x", "type": [holder, "B"], "default": default}))
    assert steps[0] < 1_000


def layers(letter: str) -> Any:
    """Return a record of ten records of ten records, ten layers deep, with a field of the letter's name at the end."""
    kind: Any = record(letter, name="R0")
    for number in range(1, 10):
        fields = [{"name": "f0", "type": kind}]
        fields += [{"name": f"f{each}", "type": f"R{number - 1}"} for each in range(1, 10)]
        kind = {"type": "record", "name": f"R{number}", "fields": fields}
    return kind


def nested(most: int) -> Any:
    """Return a schema of ten properties of ten properties, ten layers deep."""
    defined: Any = {"d0": {"type": "string", "maxLength": most}}
    for number in range(1, 10):
        reference = {"$ref": f"#/definitions/d{number - 1}"}
        defined[f"d{number}"] = {"type": "object", "properties": {f"f{each}": reference for each in range(10)}}
    return {"$ref": "#/definitions/d9", "definitions": defined}


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (lambda: avro(layers("a")), lambda: avro(layers("b"))),
        (lambda: json_schema(nested(4)), lambda: json_schema(nested(5))),
    ],
)
def test_one_difference_that_is_met_in_very_many_places(new: Callable[[], Parsed], old: Callable[[], Parsed]) -> None:
    with pytest.raises(InvalidSchema, match="too intricate"):
        new().differences(old())


def test_long_chains_of_references_are_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from pykafka_broker.registry.json_schema import SchemaDocument

    def chain(most: int) -> Parsed:
        places: dict[str, Any] = {f"a{number}": {"$ref": f"#/definitions/a{number + 1}"} for number in range(HUNDREDS)}
        places[f"a{HUNDREDS}"] = {"maxLength": most}
        properties = {f"x{number}": {"$ref": "#/definitions/a0"} for number in range(HUNDREDS)}
        return json_schema({"properties": properties, "definitions": places})

    def follow(document: SchemaDocument, reference: str) -> Any:
        followed.append(reference)
        return follows(document, reference)

    new, old = chain(4), chain(5)
    followed: list[str] = []
    follows = SchemaDocument.follow
    monkeypatch.setattr(SchemaDocument, "follow", follow)
    assert len(new.differences(old)) == 1
    assert len(followed) == 2 * (HUNDREDS + 1)


@pytest.mark.whole
def test_parts_are_paired_in_few_steps(steps: list[int]) -> None:
    parts: list[Any] = [{"const": number} for number in range(HUNDREDS)]
    old, same, equal = ({"anyOf": each} for each in (parts, parts[::-1], [{"maxLength": 5}] * HUNDREDS))
    assert json_schema(same).differences(json_schema(old)) == []
    assert json_schema(equal).differences(json_schema(equal | {"title": "other"})) == []
    lacking = {"anyOf": [{"const": -1}, *parts[1:]]}
    assert len(json_schema(lacking).differences(json_schema(old))) == 1
    assert steps[0] < 20 * HUNDREDS**2
    wider = {"anyOf": [{"maxLength": 5 + number} for number in range(HUNDREDS)]}
    narrower = {"anyOf": [{"maxLength": 3}, *wider["anyOf"][1:]]}
    # each part of the old one may take many new ones
    assert len(json_schema(narrower).differences(json_schema(wider))) == 1
    assert steps[0] < 40 * HUNDREDS**2


@pytest.mark.whole
def test_patterns_are_compiled_once_and_slow_ones_count() -> None:
    names = {f"{'a' * 490}{number}": {"maxLength": 4} for number in range(HUNDREDS)}
    patterns = {f".*.*{letter}z": {"maxLength": 4} for letter in map(str, range(20))}
    new = json_schema({"patternProperties": patterns, "additionalProperties": {"maxLength": 5}})
    with pytest.raises(InvalidSchema, match="too intricate"):
        new.differences(json_schema({"properties": names}))
    optional = {"a?" * 40 + "b": {"maxLength": 4}}
    old = json_schema({"properties": {"a" * 40: {"maxLength": 4}}})
    assert json_schema({"patternProperties": optional}).differences(old)


def test_protoc_has_a_process_of_its_own_for_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "_SMALL_CHARACTERS", 0)
    text = 'syntax = "proto3"; import "other.proto"; message M { Other a = 1; }'
    library = {"other.proto": 'syntax = "proto3"; message Other {}'}
    assert protobuf.descriptor_of(text, library).message_type[0].name == "M"
    with pytest.raises(InvalidSchema, match='"Nowhere" is not defined'):
        protobuf.descriptor_of(text.replace("Other a", "Nowhere a"), library)
    monkeypatch.setattr(protobuf, "_PROTOC_S", 0)
    with pytest.raises(InvalidSchema, match="takes too long"):
        protobuf.descriptor_of(text + "\n", library)


@pytest.mark.parametrize("word", ["oneOf", "allOf"])
def test_very_many_parts_are_not_compared(word: str) -> None:
    old, new = ({word: [{"type": "string", "maxLength": each} for each in range(count)]} for count in (500, 501))
    with pytest.raises(InvalidSchema, match=r"parts against 50[01] are too many to compare"):
        json_schema(new).differences(json_schema(old))
