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
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from pykafka_broker.testing import KafkaBroker
from pykafka_broker.testing.strategies import (
    MAGIC,
    avro_values,
    headers,
    json_values,
    poison_pills,
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


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(schema_registry=True) as broker:
        registry = SchemaRegistryClient(broker.client_config("schema-registry"))
        registry.register_schema("avro-value", Schema(json.dumps(AVRO), "AVRO"))
        registry.register_schema("json-value", Schema(json.dumps(JSON), "JSON"))
        registry.register_schema("proto-value", Schema('syntax = "proto3"; message A { int32 a = 1; }', "PROTOBUF"))
        yield broker


@FEW
@given(avro_values(AVRO))
def test_values_of_avro_are_valid(value: Any) -> None:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(AVRO), value | {"price": Decimal(0)})


@FEW
@given(json_values(json.dumps(JSON)))
def test_values_of_json_are_valid(value: Any) -> None:
    jsonschema.validate(value, JSON)


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
    with pytest.raises(ValueError, match="proto-value has a schema of PROTOBUF"):
        registered(broker.schema_registry_url, "proto-value")
    with pytest.raises(OSError, match="404"):
        registered(broker.schema_registry_url, "nowhere")
    with pytest.raises(ValueError, match="Missing is no type of Avro"):
        avro_values('{"type": "array", "items": "Missing"}')
    with pytest.raises(ValueError, match=r"other.json is a schema outside"):
        json_values({"$ref": "other.json"})
