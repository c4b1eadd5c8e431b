"""Protobuf texts without comments and white space, for comparison."""

from __future__ import annotations

from pykafka_broker.registry.protobuf import formatted


def test_comments_and_white_space_do_not_count() -> None:
    one = 'syntax="proto3";/* of\n M */message M{int32 a=1;// one\n}'
    two = 'syntax = "proto3";\n\n\nmessage M\n{\n\tint32   a = 1 ;\n}\n'
    assert formatted(one) == formatted(two) == 'syntax = "proto3";\nmessage M {\n  int32 a = 1;\n}\n'


def test_what_stands_in_quotes_stays() -> None:
    text = 'option x = "a  //  b";\noption y = \'/* " */\';\n'
    assert formatted(text) == text


def test_words_that_belong_together_stay_together() -> None:
    text = (
        "option (my.opt).field = -1;\nmessage M {\n  map<string, .x.N> m = 1 [deprecated = true];\n"
        "  float f = 2 [default = 1.5e-9];\n  rpc X (A) returns (stream .x.B);\n}\n"
    )
    assert formatted(text) == text
    assert formatted(formatted(text.replace("\n", " "))) == text


def test_braces_that_do_not_match_do_no_harm() -> None:
    assert formatted("}}}{") == "}\n}\n}\n{\n"
