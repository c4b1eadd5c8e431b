"""Strategies: what is drawn is valid by second opinions, can be produced, and poison is poison."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import fastavro
import jsonschema
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from pykafka_broker.registry.protobuf import message_class
from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.strategies import (
    MAGIC,
    avro_values,
    headers,
    json_values,
    poison_pills,
    protobuf_messages,
    records,
    registered,
)

FEW = settings(
    max_examples=10,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # finding the smallest example takes long, and nobody reads it here
)
MANY = settings(FEW, max_examples=2000)


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "rank", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "weight", "type": "double"},
        {"name": "size", "type": "float"},
        {"name": "paid", "type": "boolean"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": ["null", "long", "string"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "parent", "type": ["null", "Order"]},
        {"name": "raw", "type": "bytes"},
    ],
}
JSON: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "kind"],
    "properties": {
        "id": {"type": "integer", "minimum": 1, "exclusiveMaximum": 100},
        "kind": {"enum": ["a", "b"]},
        "even": {"type": "integer", "multipleOf": 2},
        "part": {"type": "number", "minimum": 0, "maximum": 1},
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
        "name": {"type": ["string", "null"], "minLength": 1, "maxLength": 5},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        "either": {"oneOf": [{"type": "boolean"}, {"const": "maybe"}]},
        "children": {"type": "array", "items": {"$ref": "#/definitions/child"}},
        "free": {},
    },
    "definitions": {"child": {"properties": {"child": {"$ref": "#/definitions/child"}}, "type": "object"}},
}

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  enum State { NEW = 0; SENT = 7; }
  int64 id = 1;
  State state = 2;
  repeated string tags = 3;
  map<string, Order> parts = 4;
  optional Order parent = 5;
  oneof paid { bool by_card = 6; Coins by_coins = 7; }
  google.protobuf.Timestamp at = 8;
  bytes raw = 9;
  double weight = 10;
  float size = 11;
  uint32 small = 12;
  uint64 great = 13;
  sint32 sign = 14;
}
message Coins { fixed64 count = 1; }
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(schema_registry=True) as broker:
        registry = SchemaRegistryClient(broker.client_config("schema-registry"))
        registry.register_schema("avro-value", Schema(json.dumps(AVRO), "AVRO"))
        registry.register_schema("json-value", Schema(json.dumps(JSON), "JSON"))
        registry.register_schema("proto-value", Schema(PROTO, "PROTOBUF"))
        shared = SchemaReference("shared.proto", "proto-value", 1)
        refers = 'syntax = "proto3"; import "shared.proto"; message A { shop.Coins coins = 1; }'
        registry.register_schema("refers-value", Schema(refers, "PROTOBUF", [shared]))
        yield broker


@FEW
@given(avro_values(AVRO))
def test_values_of_avro_are_valid(value: Any) -> None:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(AVRO), value | {"price": Decimal(0)})


@pytest.mark.parametrize(
    ("of", "logical"), [("int", "timestamp-millis"), ("int", "time-micros"), ("string", "date"), ("bytes", "uuid")]
)
def test_a_logical_type_of_another_type_is_ignored(of: str, logical: str) -> None:
    @settings(FEW, max_examples=100)
    @given(avro_values({"type": of, "logicalType": logical}))
    def draw(value: Any) -> None:
        assert fastavro.validate(value, of, raise_errors=False)

    draw()


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$schema": jsonschema.Draft4Validator.META_SCHEMA["$schema"],
            "type": "integer",
            "minimum": 5,
            "maximum": 7,
            "exclusiveMaximum": True,
        },
        {"type": "array", "prefixItems": [{"type": "integer"}], "items": False},
    ],
)
def test_json_of_an_older_and_a_newer_draft(schema: Any) -> None:
    @FEW
    @given(json_values(schema))
    def draw(value: Any) -> None:
        assert value in (5, 6, []) or isinstance(value[0], int)

    draw()


@FEW
@given(json_values(json.dumps(JSON)))
def test_values_of_json_are_valid(value: Any) -> None:
    jsonschema.validate(value, JSON)


@FEW
@given(protobuf_messages(PROTO))
def test_messages_of_protobuf_are_read_again(message: Any) -> None:
    read = type(message).FromString(message.SerializeToString(deterministic=True))
    assert read == message
    read.at.ToJsonString()  # refuses a time that is none


def test_messages_of_protobuf_reach_every_field() -> None:
    seen: set[str] = set()
    fields = {
        field.name for field in find(protobuf_messages(PROTO), lambda message: True, settings=FEW).DESCRIPTOR.fields
    }

    def has_all(message: Any) -> bool:
        seen.update(field.name for field, _ in message.ListFields())
        return seen >= fields

    find(protobuf_messages(PROTO), has_all, settings=MANY)
    assert find(protobuf_messages(PROTO), lambda message: len(message.parts) > 1, settings=MANY).parts
    assert find(protobuf_messages(PROTO, "Coins"), lambda message: message.count, settings=MANY).count


def test_values_reach_every_property() -> None:
    seen: set[str] = set()

    def has_all(value: Any) -> bool:
        seen.update(value)
        return seen >= set(JSON["properties"])

    find(json_values(JSON), has_all, settings=MANY)
    assert find(avro_values(AVRO), lambda value: value["parent"] is not None, settings=MANY)["parent"]["state"]


def test_registered_values_are_read_by_deserializers(broker: KafkaBroker) -> None:
    registry = SchemaRegistryClient(broker.client_config("schema-registry"))
    context = SerializationContext("any", MessageField.VALUE)
    readers = {"avro": AvroDeserializer(registry), "json": JSONDeserializer(None, schema_registry_client=registry)}

    @FEW
    @given(st.data())
    def read(data: st.DataObject) -> None:
        for kind, reader in readers.items():
            drawn = data.draw(registered(broker.schema_registry_url, f"{kind}-value"))
            assert drawn[:1] == MAGIC
            assert {"id"} <= reader(drawn, context).keys()
        drawn = data.draw(registered(broker.schema_registry_url, "proto-value"))
        type_of = message_class(PROTO, {}, [0])
        read = ProtobufDeserializer(type_of, {"use.deprecated.format": False})(drawn, context)
        assert read is not None
        assert read.DESCRIPTOR.full_name == "shop.Order"

    read()


def test_records_can_be_produced(broker: KafkaBroker) -> None:
    broker.create_topic("drawn")

    @FEW
    @given(st.lists(records(), min_size=1, max_size=3))
    def produce(drawn: list[Any]) -> None:
        written = broker.produce("drawn", drawn)
        found = broker.records("drawn")[written[0][1] :]
        assert [(each.key_bytes, each.value_bytes) for each in found] == [(each.key, each.value) for each in drawn]

    produce()


def test_each_kind_of_poison_is_drawn() -> None:
    def is_text(value: bytes) -> bool:
        try:
            value.decode()
        except UnicodeDecodeError:
            return False
        return True

    pills = poison_pills(huge_bytes=1000)
    kinds: list[Callable[[Any], Any]] = [
        lambda value: value is None,
        lambda value: value == b"",
        lambda value: value and not is_text(value) and value[:1] != MAGIC,
        lambda value: value and len(value) == 1000,
        lambda value: value and value[:1] == MAGIC and 0 < len(value) < 5,
        lambda value: value and value[:1] == MAGIC and len(value) > 5,
        lambda value: value and value.startswith(b"[[[["),
    ]
    for holds in kinds:
        find(pills, holds, settings=MANY)


def test_names_of_headers_come_twice() -> None:
    found = find(headers(), lambda drawn: len(drawn) > len(dict(drawn)), settings=MANY)
    assert len(found) >= 2


def test_what_can_not_be_drawn_is_told(broker: KafkaBroker) -> None:
    with pytest.raises(ValueError, match="refers-value has a schema with references"):
        registered(broker.schema_registry_url, "refers-value")
    with pytest.raises(ValueError, match="the schema has no message Bill; it has Order, Coins"):
        protobuf_messages(PROTO, "Bill")
    with pytest.raises(OSError, match="404"):
        registered(broker.schema_registry_url, "nowhere")
    with pytest.raises(ValueError, match="Missing is no type of Avro"):
        avro_values('{"type": "array", "items": "Missing"}')
    with pytest.raises(ValueError, match=r"other.json is a schema outside"):
        json_values({"$ref": "other.json"})
