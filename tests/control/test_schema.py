"""Reading of values by their Python type, and the JSON schema that describes the same type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import LONG_TEXT, ValueLimits, describe, meant, read, read_json, read_text, write


@dataclass
class Record:
    """One record."""

    value: str
    key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (str, "a"),
        (int, 1),
        (float, 1.5),
        (bool, True),
        (int | None, None),
        (str | int, 3),
        (list[int], [1, 2]),
        (dict[str, int], {"a": 1}),
        (Literal["a", "b"], "b"),
        (Any, {"whatever": [1]}),
        (Annotated[int, ValueLimits(minimum=1)], 1),
    ],
)
def test_what_fits_is_taken_as_it_is(kind: Any, value: object) -> None:
    assert read(kind, value, "it") == value


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (str, 1, "it must be a string"),
        (int, True, "it must be an integer"),
        (int, 1.0, "it must be an integer"),
        (bool, 1, "it must be a boolean"),
        (int | None, "a", "it must be an integer"),
        (str | int, [], "it must be a string or an integer"),
        (list[int], [1, "2"], "it[1] must be an integer"),
        (dict[str, int], {"a": None}, "it.a must be an integer"),
        (Literal["a", "b"], "c", "it must be one of a, b"),
        (Annotated[int, ValueLimits(minimum=1)], 0, "it must be at least 1"),
        (
            Annotated[str, ValueLimits(max_length=2, says="a rack")],
            "abc",
            "it must have a length of at most 2 (a rack)",
        ),
        (Annotated[str, ValueLimits(pattern="^[a-z]$")], "A", "it must match ^[a-z]$"),
        (Record, {"key": "k"}, "it.value is missing"),
        (Record, {"value": "v", "kee": "k"}, "it has no kee; it may have value, key, headers"),
        (list[Record], [{"value": 1}], "it[0].value must be a string"),
        (str, "\ud800", "it has half of a surrogate pair, which is no text"),
    ],
)
def test_what_does_not_fit_is_refused_and_named(kind: Any, value: object, says: str) -> None:
    with pytest.raises(Problem) as refused:
        read(kind, value, "it")
    assert refused.value.detail == says
    assert refused.value.status == 400


def test_an_object_gets_its_defaults() -> None:
    assert read(Record, {"value": "v"}, "it") == Record("v", None, {})


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [(int, "-3", -3), (bool, "true", True), (str, "3", "3"), (int | None, "3", 3), (float, "1.5", 1.5)],
)
def test_text_of_a_path_or_query_is_what_it_was_meant_to_be(kind: Any, text: str, value: object) -> None:
    assert read_text(kind, text, "it") == value


@pytest.mark.parametrize(("kind", "text"), [(int, "three"), (int, "1.0"), (bool, "yes"), (int, "\u0663")])
def test_other_text_is_refused(kind: Any, text: str) -> None:
    with pytest.raises(Problem, match="it must be"):
        read_text(kind, text, "it")


def test_an_answer_is_written_with_all_that_it_holds() -> None:
    assert write([Record("v", "k", {"h": "1"})]) == [{"value": "v", "key": "k", "headers": {"h": "1"}}]


def test_a_type_is_described_as_it_is_read() -> None:
    named: dict[str, Any] = {}
    assert describe(list[Record], named) == {"type": "array", "items": {"$ref": "#/components/schemas/Record"}}
    assert named["Record"] == {
        "type": "object",
        "description": "One record.",
        "additionalProperties": False,
        "properties": {
            "value": {"type": "string"},
            "key": {"type": ["string", "null"]},
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["value"],
    }
    assert describe(Annotated[int, ValueLimits(minimum=1, maximum=5)], {}) == {
        "type": "integer",
        "minimum": 1,
        "maximum": 5,
    }
    assert describe(Literal["a"] | None, {}) == {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_null(number: float) -> None:
    assert write({"quotas": [number, 1.5]}) == {"quotas": [None, 1.5]}


@pytest.mark.parametrize("text", ["a\n", "\na", "a\nb"])
def test_a_pattern_is_for_the_whole_text(text: str) -> None:
    kind = Annotated[str, ValueLimits(pattern="^[a-z]+$")]
    assert read(kind, "a", "it") == "a"
    with pytest.raises(Problem, match="it must match"):
        read(kind, text, "it")


@pytest.mark.parametrize("end", ["1.5e3, null, {}", '{"b": 1, "b": 2}', "NaN", "1,,2", '"'])
def test_long_texts_are_read_as_short_ones(end: str) -> None:
    short = f'["ä", {{"a": [-1, true]}}, {end}]'
    found = []
    for text in (short, short + " " * LONG_TEXT):
        try:
            found.append(read_json(text))
        except ValueError as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.parametrize("text", ["NaN", '{"probability": NaN}', "[Infinity]", "-Infinity"])
def test_words_that_json_does_not_have(text: str) -> None:
    with pytest.raises(ValueError, match="is no value of JSON"):
        read_json(text)


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (float, float("inf"), "it is too large"),
        (float, 10**400, "it is too large"),
        (float, -(1 << 1024) + 1, "it is too large"),
        (Annotated[float, ValueLimits(minimum=0, maximum=1)], float("nan"), "it is too large"),
        (dict[str, str], {"\ud800": "a"}, "it has half of a surrogate pair, which is no text"),
    ],
)
def test_what_can_not_be_handed_on(kind: Any, value: object, says: str) -> None:
    with pytest.raises(Problem, match=says):
        read(kind, value, "it")


@pytest.mark.parametrize("text", ['{"n": 0, "n": 5}', '[{"value": {"a": [], "n": 1, "n": 1}}]'])
def test_an_object_has_no_name_twice(text: str) -> None:
    with pytest.raises(ValueError, match="an object has 'n' twice"):
        read_json(text)


def test_a_record_has_no_number_that_json_can_not_tell() -> None:
    with pytest.raises(Problem, match="value has a number that is too large"):
        meant([read_json("1e999")], None, "value")
