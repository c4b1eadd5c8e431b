"""The GUID of a schema, which serializers put into a header in the place of its id.

Rule: it is made of what the schema says and of nothing else, as Confluent's clients make it; so it is the same in every
registry and every context, and nothing of it is in the topic.
"""

from __future__ import annotations

from hashlib import md5
from uuid import UUID

from pykafka_broker.registry.contracts import words_of_metadata, words_of_rule_set
from pykafka_broker.registry.stored import Schema


def guid_of(schema: Schema) -> str:
    digest = md5(_bytes(schema.text), usedforsecurity=False)
    for each in schema.references:
        digest.update(_bytes(each.name) + _bytes(each.subject) + (each.version & 0xFFFFFFFF).to_bytes(4, "big"))
    if schema.metadata:
        digest.update(b"\x01" + b"".join(map(_bytes, words_of_metadata(schema.metadata))))
    if schema.rule_set:
        digest.update(b"\x01" + b"".join(map(_bytes, words_of_rule_set(schema.rule_set))))
    return str(UUID(bytes=digest.digest()))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
