"""confluent-kafka's serializers against the schema registry: Avro, JSON Schema, Protobuf, with references, as schemas
change, and across a restart.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from interop import toolchains
from interop.processes import cpu_seconds
from pykafka_broker.testing import KafkaBroker

USER = {"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
AGED = USER | {"fields": [*USER["fields"], {"name": "age", "type": ["null", "int"], "default": None}]}
OLD_BY_FORCE = USER | {"fields": [*USER["fields"], {"name": "age", "type": "int"}]}


@pytest.fixture(scope="module")
def registry_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(schema_registry=True) as broker:
        yield broker


@pytest.fixture
def client(registry_broker: KafkaBroker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(registry_broker.client_config("schema-registry")) as client:
        yield client


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def sent(broker: KafkaBroker, topic: str, data: bytes) -> bytes:
    """Produce the bytes; return the value that a consumer reads."""
    producer = Producer(broker.client_config("confluent"))
    producer.produce(topic, value=data)
    assert producer.flush(60) == 0
    consumer = Consumer(broker.client_config("confluent") | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    assert message.error() is None, message.error()
    value = message.value()
    assert isinstance(value, bytes)
    return value


def test_avro_goes_through_a_topic_and_a_newer_reader(
    registry_broker: KafkaBroker, client: SchemaRegistryClient
) -> None:
    write = AvroSerializer(client, json.dumps(USER))
    data = sent(registry_broker, "avro", write({"name": "Ada"}, value_of("avro")))
    assert AvroDeserializer(client)(data, value_of("avro")) == {"name": "Ada"}
    newer = AvroDeserializer(client, json.dumps(AGED))
    assert newer(data, value_of("avro")) == {"name": "Ada", "age": None}
    assert "avro-value" in client.get_subjects()


def test_a_change_that_readers_could_not_follow_is_refused(client: SchemaRegistryClient) -> None:
    client.register_schema("evolved-value", Schema(json.dumps(USER), "AVRO"))
    assert client.test_compatibility("evolved-value", Schema(json.dumps(AGED), "AVRO"))
    assert not client.test_compatibility("evolved-value", Schema(json.dumps(OLD_BY_FORCE), "AVRO"))
    refused = AvroSerializer(client, json.dumps(OLD_BY_FORCE))
    with pytest.raises(SchemaRegistryError, match="READER_FIELD_MISSING_DEFAULT_VALUE") as error:
        refused({"name": "Ada", "age": 3}, value_of("evolved"))
    assert (error.value.http_status_code, error.value.error_code) == (409, 409)
    client.set_compatibility("evolved-value", "NONE")
    assert refused({"name": "Ada", "age": 3}, value_of("evolved"))
    assert client.get_versions("evolved-value") == [1, 2]


def test_avro_refers_to_a_schema_of_another_subject(client: SchemaRegistryClient) -> None:
    client.register_schema("user", Schema(json.dumps(USER), "AVRO"))
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "by", "type": "shop.User"}]}
    reference = SchemaReference("shop.User", "user", 1)
    write = AvroSerializer(client, Schema(json.dumps(order), "AVRO", [reference]))
    data = write({"by": {"name": "Ada"}}, value_of("orders"))
    assert AvroDeserializer(client)(data, value_of("orders")) == {"by": {"name": "Ada"}}
    with pytest.raises(SchemaRegistryError, match="One or more references exist"):
        client.delete_version("user", 1)


def test_json_schemas_are_checked_with_what_they_refer_to(client: SchemaRegistryClient) -> None:
    name = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string", "minLength": 1}
    client.register_schema("name", Schema(json.dumps(name), "JSON"))
    user = {"title": "User", "type": "object", "properties": {"name": {"$ref": "name.json"}}, "required": ["name"]}
    schema = Schema(json.dumps(user), "JSON", [SchemaReference("name.json", "name", 1)])
    write = JSONSerializer(schema, client)
    data = write({"name": "Ada"}, value_of("users"))
    assert JSONDeserializer(schema, schema_registry_client=client)(data, value_of("users")) == {"name": "Ada"}
    assert client.get_latest_version("users-value").schema.references == schema.references
    closed = user | {"properties": {"name": {"$ref": "name.json"}, "age": {"type": "integer"}}}
    told = client.test_compatibility("users-value", Schema(json.dumps(closed), "JSON", schema.references))
    assert not told, "a property that is added to an open content model is not compatible"


def messages(**extra: int) -> dict[str, type[Message]]:
    """Return message classes of two Protobuf files, the second importing the first; extra: more int32 fields in it."""
    pool = descriptor_pool.DescriptorPool()
    user = descriptor_pb2.FileDescriptorProto(name="user.proto", package="shop", syntax="proto3")
    user.message_type.add(name="User").field.add(name="name", number=1, type=9, label=1)
    order = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=["user.proto"]
    )
    message = order.message_type.add(name="Order")
    message.field.add(name="by", number=1, type=11, type_name=".shop.User", label=1)
    for field, number in extra.items():
        message.field.add(name=field, number=number, type=5, label=1)
    pool.Add(user)
    pool.Add(order)
    found = (pool.FindMessageTypeByName(f"shop.{name}") for name in ("User", "Order"))
    return {each.name: message_factory.GetMessageClass(each) for each in found}


def test_protobuf_registers_its_imports_as_references(client: SchemaRegistryClient) -> None:
    kinds = messages()
    user, order = kinds["User"], kinds["Order"]
    write = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    data = write(order(by=user(name="Ada")), value_of("proto"))
    read = ProtobufDeserializer(order, {"use.deprecated.format": False}, client)
    found: Any = read(data, value_of("proto"))
    assert found.by.name == "Ada"
    text = client.get_latest_version("proto-value").schema
    assert text.references == [SchemaReference("user.proto", "user.proto", 1)]
    assert (text.schema_str or "").startswith(
        'syntax = "proto3";\npackage shop;\nimport "user.proto";\nmessage Order {'
    )
    more = messages(count=2)
    newer = ProtobufSerializer(more["Order"], client, {"use.deprecated.format": False})
    assert newer(more["Order"](count=3), value_of("proto"))
    assert client.get_versions("proto-value") == [1, 2]
    wrong = Schema('syntax = "proto3"; message Order { int32 by = 1; }', "PROTOBUF")
    assert not client.test_compatibility("proto-value", wrong)


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_the_schema_may_be_named_in_a_header(
    client: SchemaRegistryClient, kind: str, registry_broker: KafkaBroker
) -> None:
    user: Any = {"name": "Ada Lovelace"}
    named = {"schema.id.serializer": header_schema_id_serializer}
    topic = f"headers-{kind}"
    headers: list[tuple[str, str | bytes | None]] = []
    context = SerializationContext(topic, MessageField.VALUE, headers)
    with SchemaRegistryClient(registry_broker.client_config("schema-registry")) as other:  # which has nothing cached
        if kind == "avro":
            data, read = AvroSerializer(client, json.dumps(USER), conf=named)(user, context), AvroDeserializer(other)
        elif kind == "json":
            schema = json.dumps({"title": "User", "type": "object", "properties": {"name": {"type": "string"}}})
            data = JSONSerializer(schema, client, conf=named)(user, context)
            read = JSONDeserializer(None, schema_registry_client=other)
        else:
            message = messages()["User"]
            user = message(name="Ada Lovelace")
            data = ProtobufSerializer(message, client, named | {"use.deprecated.format": False})(user, context)
            read = ProtobufDeserializer(message, {"use.deprecated.format": False}, other)
        assert [name for name, _ in headers] == ["__value_schema_id"]
        assert b"Ada Lovelace" in data
        assert read(data, context) == user


def test_a_contract_goes_with_its_schema(client: SchemaRegistryClient) -> None:
    rule = Rule(
        "short", None, RuleKind.CONDITION, RuleMode.WRITE, "CEL", None, None, "size(message.name) < 9", None, None, None
    )
    contract = Metadata(None, MetadataProperties({"major": "1"}), None), RuleSet(None, [rule])
    for schema in (Schema(json.dumps(USER), "AVRO", [], *contract), Schema(json.dumps(AGED), "AVRO")):
        client.register_schema("contract-value", schema)
    latest = client.get_latest_with_metadata("contract-value", {"major": "1"})
    assert latest.version == 2
    assert latest.schema.metadata is not None
    assert latest.schema.metadata.properties == MetadataProperties({"major": "1"})
    assert latest.schema.rule_set is not None
    assert [each.expr for each in latest.schema.rule_set.domain_rules or ()] == [rule.expr]
    assert json.loads(client.get_schema_by_guid(latest.guid or "").schema_str or "") == AGED
    config = ServerConfig(
        compatibility=ConfigCompatibilityLevel.NONE, compatibility_group="major", default_metadata=contract[0]
    )
    client.set_config("contract-value", config)
    assert client.get_config("contract-value").compatibility_group == "major"
    assert client.get_contexts() == ["."]
    assert client.update_mode("contract-value", "READONLY") == "READONLY"
    assert client.delete_mode("contract-value") == "READONLY"
    assert client.get_schema_versions(latest.schema_id or 0)[0].version == 2


def test_what_was_written_is_read_after_a_restart(registry_broker: KafkaBroker) -> None:
    conf = registry_broker.client_config("schema-registry")
    with SchemaRegistryClient(conf) as client:
        data = AvroSerializer(client, json.dumps(USER))({"name": "Ada"}, value_of("kept"))
    registry_broker.restart()
    with SchemaRegistryClient(conf) as client:
        assert AvroDeserializer(client)(data, value_of("kept")) == {"name": "Ada"}
        latest = client.get_latest_version("kept-value")
        assert latest.schema is not None
        assert client.lookup_schema("kept-value", latest.schema).version == latest.version


@pytest.mark.parametrize("many", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_very_many_schemas_are_there_soon_after_a_start(registry_broker: KafkaBroker, many: int) -> None:
    def key(number: int) -> str:
        return f'{{"keytype":"SCHEMA","subject":"many-{number}","version":1,"magic":1}}'

    def value(number: int) -> str:
        schema = json.dumps(USER | {"name": f"User{number}"}, separators=(",", ":"))
        return json.dumps({"subject": f"many-{number}", "version": 1, "id": 100 + number, "schema": schema})

    for first in range(0, many, 1_000):
        records = [{"key": key(number), "value": value(number)} for number in range(first, first + 1_000)]
        registry_broker.produce("_schemas", records)
    registry_broker.restart()
    with SchemaRegistryClient(registry_broker.client_config("schema-registry")) as client:
        process = psutil.Process(registry_broker.pid)
        began = cpu_seconds(process.pid)
        assert sum(name.startswith("many-") for name in client.get_subjects()) == many
        assert cpu_seconds(process.pid) - began < 3, "the topic was read anew"
        began = cpu_seconds(process.pid)
        for number in range(0, many, many // 100):
            assert client.get_latest_version(f"many-{number}").schema_id == 100 + number
        assert cpu_seconds(process.pid) - began < 3


@pytest.mark.slow
def test_franz_gos_client_registers_looks_up_and_deletes(registry_broker: KafkaBroker) -> None:
    program = [*toolchains.go("registry"), registry_broker.schema_registry_url]
    ran = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.splitlines() == [
        "types: [AVRO PROTOBUF JSON]",
        "versions: 1 2 true [1 2]",
        "lookup: 1 true",
        "refused: 409 false",
        "references: 42206 1 true",
        "settings: NONE NONE READONLY 42205",
        "deletion: [1] [1] 40401",
        "data: Ada true",
    ]
