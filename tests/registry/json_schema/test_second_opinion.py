"""The check of compatibility against jsonschema: a compatible schema accepts whatever the other one accepts.

`required` and `patternProperties` are missing here: Confluent's rules for them, which are followed, let too much pass.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from pykafka_broker.registry.json_schema import parse

NAMES = st.sampled_from("ab")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "bb", 1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
SMALL = st.integers(0, 3)


def _optional(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=keywords)


PLAIN = (
    st.booleans()
    | _optional(type=TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True))
    | _optional(type=st.just("string"), minLength=SMALL, maxLength=SMALL, pattern=st.sampled_from(["a", "b"]))
    | _optional(type=st.just("integer"), minimum=SMALL, maximum=SMALL, exclusiveMaximum=SMALL, multipleOf=st.just(2))
    | _optional(enum=st.lists(VALUES, min_size=1, max_size=3), const=VALUES)
)


def _wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = st.lists(inner, min_size=1, max_size=2)
    return (
        _optional(
            type=st.just("object"),
            properties=st.dictionaries(NAMES, inner, max_size=2),
            additionalProperties=inner,
            minProperties=SMALL,
            dependencies=st.dictionaries(NAMES, st.lists(NAMES, max_size=1, unique=True) | inner, max_size=1),
        )
        | _optional(
            type=st.just("array"),
            items=inner.filter(lambda each: isinstance(each, dict)) | parts,  # jsonschema fails on others
            additionalItems=inner,
            maxItems=SMALL,
            uniqueItems=st.booleans(),
        )
        | _optional(anyOf=parts)
        | _optional(allOf=parts, type=TYPES)
        | _optional(**{"not": inner})
    )


SCHEMAS = st.recursive(PLAIN, _wider, max_leaves=4)


def _changed(schema: Any, other: Any, kept: set[int]) -> Any:
    """Return `schema` with its keywords taken from `other`, except those whose number is in `kept`."""
    if isinstance(schema, bool) or isinstance(other, bool):
        return other
    words = sorted({*schema, *other})
    sources = [(word, schema if number in kept else other) for number, word in enumerate(words)]
    return {word: source[word] for word, source in sources if word in source}


@pytest.mark.whole
@settings(max_examples=200, deadline=None, derandomize=True)
@given(SCHEMAS, SCHEMAS, st.sets(st.integers(0, 5)), st.lists(VALUES, max_size=12))
def test_what_is_called_compatible_takes_what_was_valid(
    old: Any, other: Any, kept: set[int], values: list[Any]
) -> None:
    new = _changed(old, other, kept)
    if parse(json.dumps(new), {}).differences(parse(json.dumps(old), {})):
        return
    before, after = Draft7Validator(old), Draft7Validator(new)
    for value in values:
        assert after.is_valid(value) or not before.is_valid(value), value


@given(SCHEMAS)
def test_a_schema_is_compatible_with_itself(schema: Any) -> None:
    assert parse(json.dumps(schema), {}).differences(parse(json.dumps(schema), {})) == []
