"""The changes of a Protobuf schema that are compatible, and those that are not."""

from __future__ import annotations

import pytest

from pykafka_broker.registry.protobuf import parse


def kinds(new: str, old: str, syntax: str = "proto3") -> list[str]:
    """Return the kinds of the differences that make `new` incompatible with `old`."""
    first = f'syntax = "{syntax}"; '
    found = parse(first + new, {}).differences(parse(first + old, {}))
    return [each.format(new="new", old="old").split('"')[1] for each in found]


def m(fields: str) -> str:
    return f"message M {{ {fields} }}"


@pytest.mark.parametrize(
    ("new", "old", "reasons"),
    [
        (m("int32 a = 1; string b = 2;"), m("int32 a = 1;"), []),
        (m(""), m("int32 a = 1;"), []),
        (m("int32 renamed = 1;"), m("int32 a = 1;"), []),
        (m("uint64 a = 1;"), m("int32 a = 1;"), []),
        (m("string a = 1;"), m("int32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
        (m("sint32 a = 1;"), m("int32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
        (m("bytes a = 1;"), m("string a = 1;"), []),
        (m("repeated string a = 1;"), m("string a = 1;"), []),
        (m("repeated int32 a = 1;"), m("int32 a = 1;"), ["FIELD_NUMERIC_LABEL_CHANGED"]),
        (m("M a = 1;"), m("string a = 1;"), ["FIELD_KIND_CHANGED"]),
        (
            m("message A {} message B {} A a = 1;"),
            m("message A {} message B {} B a = 1;"),
            ["FIELD_NAMED_TYPE_CHANGED"],
        ),
        (m("map<string, int64> a = 1;"), m("map<string, int32> b = 1;"), []),
        (m("map<string, M> a = 1;"), m("map<string, int32> a = 1;"), ["FIELD_KIND_CHANGED"]),
        (m("map<string, int32> a = 1;"), m("int32 a = 1;"), ["FIELD_KIND_CHANGED"]),
        ("message N {}", m(""), ["MESSAGE_REMOVED"]),
        (m(""), m("message In {}"), ["MESSAGE_REMOVED"]),
        ("package q; message M { M m = 1; }", "package p; message M { M m = 1; }", []),
        (m("enum E { Z = 0; } E a = 1;"), m("enum E { Z = 0; Y = 1; } E a = 1;"), []),
        (m("int32 a = 1;"), m("enum E { Z = 0; } E a = 1;"), []),
        (m("oneof o { int32 a = 1; }"), m("int32 a = 1;"), []),
        (
            m("oneof o { int32 a = 1; int32 b = 2; }"),
            m("int32 a = 1; int32 b = 2;"),
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
        ),
        (m("oneof o { int32 a = 1; }"), m("oneof o { int32 a = 1; int32 b = 2; }"), ["ONEOF_FIELD_REMOVED"]),
        (m("oneof o { int32 a = 1; int32 b = 2; }"), m("oneof o { int32 a = 1; }"), []),
        (
            m("oneof o { int32 a = 1; int32 b = 2; }"),
            m("oneof o { int32 a = 1; } int32 b = 2;"),
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        (m("optional int32 a = 1;"), m("int32 a = 1;"), []),
    ],
)
def test_what_the_wire_tells_apart_must_stay(new: str, old: str, reasons: list[str]) -> None:
    assert kinds(new, old) == reasons


def test_what_is_required_can_neither_come_nor_go() -> None:
    with_it, without = m("optional int32 a = 1; required int32 b = 2;"), m("optional int32 a = 1;")
    assert kinds(with_it, without, "proto2") == ["REQUIRED_FIELD_ADDED"]
    assert kinds(without, with_it, "proto2") == ["REQUIRED_FIELD_REMOVED"]
