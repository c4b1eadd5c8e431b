"""The files that protoc may read, and its messages."""

from __future__ import annotations

import pytest

from pykafka_broker.registry.problems import InvalidSchema
from pykafka_broker.registry.protobuf import descriptor_of


def test_imports_are_those_that_are_given_and_googles() -> None:
    text = """syntax = "proto3"; import "a/part.proto"; import "google/protobuf/timestamp.proto";
        message M { Part part = 1; google.protobuf.Timestamp at = 2; }"""
    found = descriptor_of(text, {"a/part.proto": 'syntax = "proto3"; message Part {}'})
    assert [each.type_name for each in found.message_type[0].field] == [".Part", ".google.protobuf.Timestamp"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("message M {", "Reached end of input"),
        ('syntax = "proto3"; message M { Nowhere a = 1; }', '"Nowhere" is not defined'),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "Field number 1 has already been used"),
        ('syntax = "proto3"; import "/etc/passwd";', "not found"),
        ('syntax = "proto3"; import "../../etc/passwd";', "not allowed"),
        ("\0", "Invalid control characters"),
    ],
)
def test_what_it_does_not_take_is_told(text: str, says: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidSchema, match=says):
        descriptor_of(text, {})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "name", ["", "/a.proto", "../a.proto", "a/../b.proto", "a//b.proto", "a\\b", "a\0b", "x" * 300, "D:a.proto"]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidSchema, match="can't be the name of a file"):
        descriptor_of('syntax = "proto3";', {name: 'syntax = "proto3";'})


def test_a_reference_may_have_any_name() -> None:
    part = 'syntax = "proto3"; message Part {}'
    text = 'syntax = "proto3"; import "schema.proto"; message M { Part part = 1; }'
    assert descriptor_of(text, {"schema.proto": part}).dependency == ["schema.proto"]
