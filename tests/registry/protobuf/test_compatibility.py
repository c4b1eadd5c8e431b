"""The changes of a Protobuf schema that are compatible, and those that are not."""

from __future__ import annotations

import pytest

from pykafka_broker.registry.protobuf import parse


def kinds(new: str, old: str, syntax: str = "proto3", parts: tuple[str, str] = ("", "")) -> list[str]:
    """Return the kinds of the differences that make `new` incompatible with `old`.

    parts: the text that the new schema imports as `part`, and that of the old schema.
    """
    first = f'syntax = "{syntax}"; '
    libraries = [{"part": first + part} if part else {} for part in parts]
    found = parse(first + new, libraries[0]).differences(parse(first + old, libraries[1]))
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
        (m("enum F { Z = 0; } F a = 1;"), m("enum E { Z = 0; } E a = 1;"), []),
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
        (
            m("oneof o { int32 a = 1; int32 b = 2; int32 c = 3; }"),
            m("oneof o { int32 a = 1; } int32 b = 2; int32 c = 3;"),
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
        ),
        (
            m("oneof renamed { int32 a = 1; int32 b = 2; }"),
            m("oneof o { int32 a = 1; } int32 b = 2;"),
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        (m("oneof renamed { int32 a = 1; }"), m("oneof o { int32 a = 1; }"), []),
        (m("optional int32 a = 1;"), m("int32 a = 1;"), []),
    ],
)
def test_what_the_wire_tells_apart_must_stay(new: str, old: str, reasons: list[str]) -> None:
    assert kinds(new, old) == reasons


def test_what_is_required_can_neither_come_nor_go() -> None:
    with_it, without = m("optional int32 a = 1; required int32 b = 2;"), m("optional int32 a = 1;")
    assert kinds(with_it, without, "proto2") == ["REQUIRED_FIELD_ADDED"]
    assert kinds(without, with_it, "proto2") == ["REQUIRED_FIELD_REMOVED"]


@pytest.mark.parametrize(
    ("new", "old", "reasons"),
    [
        ("message P { int32 a = 1; }", "message P { int32 a = 1; }", []),
        ("message P { int64 a = 1; int32 b = 2; }", "message P { int32 a = 1; }", []),
        (
            "message P { string a = 1; }",
            "message P { int32 a = 1; }",
            ["FIELD_SCALAR_KIND_CHANGED"],
        ),
        (
            "message P { Q q = 1; P p = 2; } message Q { string a = 1; }",
            "message P { Q q = 1; P p = 2; } message Q { int32 a = 1; }",
            ["FIELD_SCALAR_KIND_CHANGED"],
        ),
        ("message P {} message Unused { string a = 1; }", "message P {} message Unused { int32 a = 1; }", []),
        ("message P {}", "message P {} message Unused {}", []),
        ("package q; message P { int32 a = 1; }", "package p; message P { int32 a = 1; }", []),
    ],
)
def test_imported_messages_are_compared_where_they_are_used(new: str, old: str, reasons: list[str]) -> None:
    def whole(part: str) -> str:
        package = "q." if "package q" in part else "p." if "package p" in part else ""
        return f'import "part"; message M {{ map<string, {package}P> all = 1; {package}P p = 2; }}'

    assert kinds(whole(new), whole(old), parts=(new, old)) == reasons


def test_a_message_that_is_imported_now_is_compared_with_the_own_one() -> None:
    imported, own = 'import "part"; message M { P p = 1; }', "message M { P p = 1; } message P { int32 a = 1; }"
    assert kinds(imported, own, parts=("message P { int32 a = 1; }", "")) == ["MESSAGE_REMOVED"]
    assert kinds(own, imported, parts=("", "message P { int32 a = 1; }")) == []
    assert kinds(own, imported, parts=("", "message P { string a = 1; }")) == ["FIELD_SCALAR_KIND_CHANGED"]


def test_imported_messages_may_be_a_long_chain() -> None:
    def chain(last: str) -> str:
        links = " ".join(f"message P{number} {{ P{number + 1} next = 1; }}" for number in range(1500))
        return f"{links} message P1500 {{ {last} a = 1; }}"

    whole = 'import "part"; message M { P0 p = 1; }'
    assert kinds(whole, whole, parts=(chain("int64"), chain("int32"))) == []
    assert kinds(whole, whole, parts=(chain("string"), chain("int32"))) == ["FIELD_SCALAR_KIND_CHANGED"]
