"""What serializers have written, told as JSON by the control API."""

from __future__ import annotations

import json
import struct
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pytest

from pykafka_broker.testing import ControlError, KafkaBroker
from tests.registry.rest import Rest

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
    ],
}
PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Other { string name = 1; }
message Order {
  message Line { string item = 1; int64 count = 2; }
  repeated Line lines = 1;
  google.protobuf.Timestamp at = 2;
}
"""


def framed(schema_id: int, body: bytes) -> bytes:
    return struct.pack(">bi", 0, schema_id) + body


def decoded(broker: KafkaBroker, topic: str, value: bytes, **headers: bytes) -> Any:
    ((partition, offset),) = broker.produce(topic, [{"value": value, "headers": list(headers.items())}])
    path = f"/browse/topics/{topic}/partitions/{partition}/records/{offset}/decoded"
    found = broker.control.call("GET", path)
    return found["schema_type"], json.loads(found["json"])


@pytest.fixture(scope="module", autouse=True)
def topic(broker: KafkaBroker) -> None:
    broker.create_topic("decoded", exist_ok=True)  # other files may come in between


def test_avro(broker: KafkaBroker, rest: Rest) -> None:
    schema_id = rest.register("decoding-avro", ORDER)
    order = {"id": 2**60 + 1, "item": "Äpfel", "raw": b"\xff\x00"}
    body = BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(ORDER), order)
    found = decoded(broker, "decoded", framed(schema_id, body.getvalue()))
    assert found == ("AVRO", {**order, "raw": "\u00ff\u0000"})
    with pytest.raises(ControlError, match="it does not fit the schema"):
        decoded(broker, "decoded", framed(schema_id, body.getvalue()[:-1]))


def test_protobuf_and_which_message_of_a_file_it_is(broker: KafkaBroker, rest: Rest) -> None:
    schema_id = rest.register("decoding-protobuf", PROTO, schemaType="PROTOBUF")
    line = b"\x0a\x06apples\x10\x03"
    assert decoded(broker, "decoded", framed(schema_id, b"\x02\x02\x0a" + bytes([len(line)]) + line)) == (
        "PROTOBUF",
        {"lines": [{"item": "apples", "count": "3"}]},
    )
    assert decoded(broker, "decoded", framed(schema_id, b"\x04\x02\x00" + line))[1] == {"item": "apples", "count": "3"}
    assert decoded(broker, "decoded", framed(schema_id, b"\x00\x0a\x01x"))[1] == {"name": "x"}
    with pytest.raises(ControlError, match="its schema has no such message"):
        decoded(broker, "decoded", framed(schema_id, b"\x02\x08" + line))
    with pytest.raises(ControlError, match="it does not say which message it is"):
        decoded(broker, "decoded", framed(schema_id, b"\x80" * 6))


def test_json(broker: KafkaBroker, rest: Rest) -> None:
    schema_id = rest.register("decoding-json", {"type": "object"}, schemaType="JSON")
    assert decoded(broker, "decoded", framed(schema_id, b'{"a": 1}')) == ("JSON", {"a": 1})


def test_data_that_was_made_to_hurt_is_refused(broker: KafkaBroker, rest: Rest) -> None:
    linked = {"type": "record", "name": "List", "fields": [{"name": "next", "type": ["null", "List"]}]}
    avro = rest.register("decoding-hurt-avro", linked)
    with pytest.raises(ControlError, match="nested deeper") as refused:
        decoded(broker, "decoded", framed(avro, b"\x02" * 500_000))
    assert refused.value.status == 400
    of_json = rest.register("decoding-hurt-json", {"type": "array"}, schemaType="JSON")
    with pytest.raises(ControlError, match="nested too deeply") as refused:
        decoded(broker, "decoded", framed(of_json, b"[" * 500_000))
    assert refused.value.status == 400


def test_an_any_of_an_unknown_type_is_said_to_be_one(broker: KafkaBroker, rest: Rest) -> None:
    proto = 'syntax = "proto3"; import "google/protobuf/any.proto"; message M { google.protobuf.Any a = 1; }'
    schema_id = rest.register("decoding-any", proto, schemaType="PROTOBUF")
    with pytest.raises(ControlError, match="no form in JSON") as refused:
        decoded(broker, "decoded", framed(schema_id, b"\x00\x0a\x08\x0a\x06abcd/x"))
    assert refused.value.status == 400


def test_a_header_may_name_the_schema_by_its_guid(broker: KafkaBroker, rest: Rest) -> None:
    rest.register("decoding-headers", PROTO, schemaType="PROTOBUF")
    guid = UUID(rest.extended("GET", "/subjects/decoding-headers/versions/1")["guid"]).bytes
    found = decoded(broker, "decoded", b"\x0a\x01x", __value_schema_id=b"\x01" + guid + b"\x00")
    assert found == ("PROTOBUF", {"name": "x"})
    assert decoded(broker, "decoded", b"\x01" + guid + b"\x00\x0a\x01x")[1] == {"name": "x"}
    with pytest.raises(ControlError, match="names no schema"):
        decoded(broker, "decoded", b"\x0a\x01x", __key_schema_id=b"\x01" + guid + b"\x00")
    with pytest.raises(ControlError, match="names no schema"):
        decoded(broker, "decoded", b"\x0a\x01x", __value_schema_id=b"\x01" + bytes(16) + b"\x00")


@pytest.mark.parametrize("value", [b"text", b"", b"\x00", framed(99999, b"x"), framed(-1, b"x")])
def test_what_names_no_schema_is_said_to(broker: KafkaBroker, rest: Rest, value: bytes) -> None:
    with pytest.raises(ControlError, match="the value names no schema of the registry") as refused:
        decoded(broker, "decoded", value)
    assert refused.value.status == 404


def test_without_a_registry_there_is_nothing_to_decode_with() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("t")
        with pytest.raises(ControlError, match="this broker knows no schema registry"):
            decoded(broker, "t", framed(1, b"x"))
