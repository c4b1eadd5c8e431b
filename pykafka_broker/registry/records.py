"""Keys and values of the topic, in the form of Confluent's registry.

Rule: a key has always the same bytes, since compaction goes by them. Of a value only what is known here is read.
"""

from __future__ import annotations

import json
from typing import Any

from pykafka_broker.registry.contracts import metadata_text, rule_set_text
from pykafka_broker.registry.stored import AVRO, Reference, Schema, Version

Json = dict[str, Any]
SCHEMA, CONFIG, MODE = "SCHEMA", "CONFIG", "MODE"
DELETE_SUBJECT, CLEAR_SUBJECT, NOOP = "DELETE_SUBJECT", "CLEAR_SUBJECT", "NOOP"
NOOP_KEY = b'{"keytype":"NOOP","magic":0}'


def schema_key(subject: str, version: int) -> bytes:
    return _bytes({"keytype": SCHEMA, "subject": subject, "version": version, "magic": 1})


def schema_value(version: Version) -> bytes:
    schema = version.schema
    value: Json = {"subject": version.subject, "version": version.version, "id": version.id}
    return _bytes(value | with_kind(schema) | {"schema": schema.text, "deleted": version.deleted})


def config_key(subject: str | None) -> bytes:
    return _bytes({"keytype": CONFIG, "subject": subject, "magic": 0})


def mode_key(subject: str | None) -> bytes:
    return _bytes({"keytype": MODE, "subject": subject, "magic": 0})


def delete_subject_key(subject: str) -> bytes:
    return _bytes({"keytype": DELETE_SUBJECT, "subject": subject, "magic": 0})


def delete_subject_value(subject: str, last_version: int) -> bytes:
    return _bytes({"subject": subject, "version": last_version})


def noop_value(node_id: int, port: int) -> bytes:
    """Of a record that changes nothing: which broker leads the topic, and the port of the registry beside it.
    Confluent's registry does not look at it."""
    return _bytes({"node": node_id, "port": port})


def value(fields: Json) -> bytes:
    """Of a config or a mode."""
    return _bytes(fields)


def read_object(data: bytes) -> Json | None:
    """None where the bytes are no JSON object: whoever can write to the topic can write anything."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_version(fields: Json, written_ms: int = 0) -> Version | None:
    """What a schema's value says; None where it says nothing that makes sense. `written_ms` is the record's time."""
    try:
        schema = read_schema(fields)
        subject, version, schema_id = fields["subject"], fields["version"], fields["id"]
        if not (isinstance(subject, str) and type(version) is int and type(schema_id) is int):
            return None
        return Version(subject, version, schema_id, schema, fields.get("deleted") is True, written_ms)
    except (KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_schema(fields: Json) -> Schema:
    """Raises KeyError or TypeError where the fields are not those of a schema."""
    text, kind = fields["schema"], fields.get("schemaType") or AVRO
    if not isinstance(text, str) or not isinstance(kind, str):
        raise TypeError
    references = tuple(_reference(each) for each in fields.get("references") or ())
    return Schema(kind, text, references, metadata_text(fields.get("metadata")), rule_set_text(fields.get("ruleSet")))


def with_kind(schema: Schema, always: bool = False) -> Json:
    """What stands beside a schema's text, where it is there at all; `always` names Avro too."""
    fields: Json = {}
    if always or schema.kind != AVRO:
        fields["schemaType"] = schema.kind
    if schema.references:
        fields["references"] = [each._asdict() for each in schema.references]
    if schema.metadata:
        fields["metadata"] = json.loads(schema.metadata)
    if schema.rule_set:
        fields["ruleSet"] = json.loads(schema.rule_set)
    return fields


def _reference(fields: Json) -> Reference:
    name, subject, version = fields["name"], fields["subject"], fields["version"]
    if not (isinstance(name, str) and isinstance(subject, str) and type(version) is int):
        raise TypeError
    return Reference(name, subject, version)


def _bytes(fields: Json) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
