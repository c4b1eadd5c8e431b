"""The text of a descriptor: protoc makes the same of it."""

from __future__ import annotations

import base64

import pytest

from pykafka_broker.registry.protobuf import parse

PROTO3 = """
syntax = "proto3"; package x.y;
import "google/protobuf/timestamp.proto";
option java_package = "a\\"b\\n";
message A {
  int32 a = 1; repeated google.protobuf.Timestamp t = 2 [deprecated = true]; map<string, B> m = 3;
  optional string o = 4; oneof one { string s = 5; B b = 6; }
  message B { double d = 1; }
  enum E { option allow_alias = true; Z = 0; Y = 0 [deprecated = true]; reserved 5 to 7, 10 to max; reserved "Q"; }
  E e = 7; reserved 20 to 30, 40; reserved "foo"; string some_name = 8 [json_name = "zz"];
}
service S { rpc X (A) returns (stream A.B) { option deprecated = true; } }
"""
PROTO2 = """
syntax = "proto2"; package z;
message A {
  required int32 a = 1 [default = -5]; optional bytes b = 2 [default = "\\001x\\"y"];
  optional string s = 3 [default = "q\\n"]; optional float f = 4 [default = 1.5e-9];
  optional group G = 5 { optional int32 x = 1; } extensions 100 to 199, 500 to max;
  repeated int32 p = 9 [packed = true]; extend Q { optional int32 more = 7; }
}
extend A { optional string ext = 100; }
enum E { X = 1; }
message Q { optional E e = 1 [default = X]; extensions 7; }
"""
EDITION = 'edition = "2023"; message A { int32 a = 1 [features.field_presence = IMPLICIT]; }'


@pytest.mark.parametrize("text", [PROTO3, PROTO2, EDITION, "message M { optional int32 a = 1; }"])
def test_a_descriptor_and_its_text_are_one(text: str) -> None:
    whole = parse(text, {})
    assert parse(whole.canonical, {}).identity == whole.identity
    assert parse(whole.normalized, {}).identity == whole.identity
    assert parse(whole.formatted("serialized"), {}).identity == whole.identity


def test_a_serialized_descriptor_is_kept_as_text() -> None:
    found = parse(parse('syntax = "proto3"; message M { M m = 1; }', {}).formatted("serialized"), {})
    assert found.canonical == 'syntax = "proto3";\nmessage M {\n  .M m = 1;\n}\n'
    assert base64.b64decode(found.formatted("serialized"))
