"""Which values are defaults of which types."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka_broker.registry.avro import Reader, fits
from pykafka_broker.registry.kinds import Effort
from tests.registry.rest import record


@pytest.mark.parametrize(
    ("schema", "value", "is_one"),
    [
        ("null", None, True),
        ("null", 0, False),
        ("boolean", True, True),
        ("int", True, False),
        ("int", 2**31 - 1, True),
        ("int", 2**31, False),
        ("long", 2**31, True),
        ("double", 1, True),
        ("float", "1", False),
        ("bytes", "\u00ff", True),
        ("bytes", "\u0100", True),  # as for the Java library, like the next two
        ("string", "\u0100", True),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", True),
        ({"type": "fixed", "name": "F", "size": 2}, "a", True),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", True),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, 1, False),
        ({"type": "array", "items": "int"}, [1, 2], True),
        ({"type": "array", "items": "int"}, [1, "2"], False),
        ({"type": "map", "values": "int"}, {"a": 1}, True),
        ({"type": "map", "values": "int"}, [], False),
        (["null", "int"], None, True),
        (["null", "int"], "s", False),
        (record("a"), {"a": 1}, True),
        (record("a"), {}, False),
        (record({"name": "a", "type": "int", "default": 1}), {}, True),
        (record("a"), 1, False),
    ],
)
def test_a_default_fits_its_type(schema: Any, value: Any, is_one: bool) -> None:
    assert fits(Reader().read(schema), value, Effort()) is is_one
