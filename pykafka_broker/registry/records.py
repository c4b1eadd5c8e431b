"""Schemas, and the records of the topic, in the form of Confluent's registry.

Rule: a key always has the same bytes, since compaction compares bytes; of a value only known fields are read. The GUID
of a schema, which serializers put into a header in the place of its id, is made of the schema's content alone, as
Confluent's clients make it: so it is the same in every registry and every context, and the topic does not contain it.
"""

from __future__ import annotations

import json
from hashlib import md5
from typing import NamedTuple
from uuid import UUID

from pykafka_broker.registry.contracts import Json, metadata_text, rule_set_text, words_of_metadata, words_of_rule_set
from pykafka_broker.registry.kinds import write_json

# -- schemas and versions


AVRO = "AVRO"


class Reference(NamedTuple):
    """A reference to another schema: the name in the referring schema, and the registered version."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """A schema. Two schemas with equal fields are the same, with the same id."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str = ""  # JSON, or nothing
    rule_set: str = ""  # the same


class Version(NamedTuple):
    """A schema under a subject."""

    subject: str
    version: int
    id: int
    schema: Schema
    deleted: bool = False
    written_ms: int = 0  # the time of the record


# -- keys and values


SCHEMA, CONFIG, MODE = "SCHEMA", "CONFIG", "MODE"
DELETE_SUBJECT, CLEAR_SUBJECT, NOOP = "DELETE_SUBJECT", "CLEAR_SUBJECT", "NOOP"
NOOP_KEY = b'{"keytype":"NOOP","magic":0}'


def schema_key(subject: str, version: int) -> bytes:
    return json_bytes({"keytype": SCHEMA, "subject": subject, "version": version, "magic": 1})


def schema_value(version: Version) -> bytes:
    schema = version.schema
    value: Json = {"subject": version.subject, "version": version.version, "id": version.id}
    return json_bytes(value | with_kind(schema) | {"schema": schema.text, "deleted": version.deleted})


def subject_key(kind: str, subject: str | None) -> bytes:
    """Return the key of a config, a mode or a deletion. kind: the `keytype`. The subject None is all subjects."""
    return json_bytes({"keytype": kind, "subject": subject, "magic": 0})


def delete_subject_value(subject: str, last_version: int) -> bytes:
    return json_bytes({"subject": subject, "version": last_version})


def clear_subject_value(subject: str | None) -> bytes:
    """Return the value of a record that forgets the softly deleted versions of a scope."""
    return json_bytes({"subject": subject})


def noop_value(node_id: int, port: int) -> bytes:
    """Return the value of a record without a change: the topic's leader and the port of the leader's registry.

    Confluent's registry ignores the value.
    """
    return json_bytes({"node": node_id, "port": port})


def read_object(data: bytes) -> Json | None:
    """Read a JSON object, None for other bytes: any client may write to the topic."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_version(fields: Json, written_ms: int = 0) -> Version | None:
    """Read a schema's value, None for a senseless value. written_ms: the record's time."""
    try:
        schema = read_schema(fields)
        subject, version, schema_id = fields["subject"], fields["version"], fields["id"]
        if not (isinstance(subject, str) and type(version) is int and type(schema_id) is int):
            return None
        return Version(subject, version, schema_id, schema, fields.get("deleted") is True, written_ms)
    except (KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_schema(fields: Json) -> Schema:
    """Read the fields of a schema. Raises KeyError or TypeError for other fields."""
    text, kind = fields["schema"], fields.get("schemaType") or AVRO
    if not isinstance(text, str) or not isinstance(kind, str):
        raise TypeError
    references = tuple(_reference(each) for each in fields.get("references") or ())
    return Schema(kind, text, references, metadata_text(fields.get("metadata")), rule_set_text(fields.get("ruleSet")))


def with_kind(schema: Schema, always: bool = False) -> Json:
    """Return the fields beside a schema's text, without empty fields. always: name Avro too."""
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


def json_bytes(fields: Json) -> bytes:
    return _text_bytes(write_json(fields))


# -- GUIDs


def guid_of(schema: Schema) -> str:
    digest = md5(_text_bytes(schema.text), usedforsecurity=False)
    for each in schema.references:
        digest.update(
            _text_bytes(each.name) + _text_bytes(each.subject) + (each.version & 0xFFFFFFFF).to_bytes(4, "big")
        )
    if schema.metadata:
        digest.update(b"\x01" + b"".join(map(_text_bytes, words_of_metadata(schema.metadata))))
    if schema.rule_set:
        digest.update(b"\x01" + b"".join(map(_text_bytes, words_of_rule_set(schema.rule_set))))
    return str(UUID(bytes=digest.digest()))


def _text_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
