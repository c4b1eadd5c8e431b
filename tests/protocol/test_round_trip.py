"""Hypothesis: what is encoded comes back equal, for any values that a version can carry."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from protocol.generator.schema import Field, Message, StructType
from tests.protocol.golden import golden_names
from tests.protocol.values import BITS, message_class, message_module, messages

EXAMPLES = 12  # of each message; there are 280


def field_values(message: Message, field: Field, version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for any value that the field can hold in this version."""
    one = single_values(message, field, version)
    values = st.lists(one, max_size=3) if field.array else one
    return st.none() | values if version in field.nullable else values


def single_values(message: Message, field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.is_struct:
        return struct_values(message, message.structs[field.type], version)
    if field.type in BITS:
        bits = BITS[field.type]
        signed = field.type.startswith("int")
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)
    simple: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=16, max_size=16),
        "string": st.text(max_size=40),
        "bytes": st.binary(max_size=40),
        "records": st.binary(max_size=40),
    }
    return simple[field.type]


def struct_values(message: Message, struct_type: StructType, version: int) -> st.SearchStrategy[Any]:
    fields = {
        field.python: field_values(message, field, version) for field in struct_type.fields if version in field.versions
    }
    return st.builds(getattr(message_module(message), struct_type.name), **fields)


@pytest.mark.parametrize("name", golden_names())
def test_comes_back_equal(name: str) -> None:
    message = messages()[name]
    of_version = {version: struct_values(message, message.root, version) for version in message.versions}

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data(), st.sampled_from(list(message.versions)))
    def round_trip(data: st.DataObject, version: int) -> None:
        value = data.draw(of_version[version])
        encoded = value.encode(version)
        assert message_class(message).decode(encoded, version) == value
        assert message_class(message).decode(encoded, version).encode(version) == encoded

    round_trip()
