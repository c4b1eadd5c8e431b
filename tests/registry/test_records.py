"""The topic's records, in Confluent's form."""

from __future__ import annotations

import json

from pykafka_broker.registry import records
from pykafka_broker.registry.stored import Reference, Schema, Version

PLAIN = Version("s", 1, 4, Schema("AVRO", '"int"'))


def test_keys_and_values_are_those_of_confluents_registry() -> None:
    assert records.schema_key("s", 1) == b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    assert records.config_key(None) == b'{"keytype":"CONFIG","subject":null,"magic":0}'
    assert records.mode_key("s") == b'{"keytype":"MODE","subject":"s","magic":0}'
    assert records.delete_subject_key("s") == b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'
    assert records.delete_subject_value("s", 3) == b'{"subject":"s","version":3}'
    assert records.schema_value(PLAIN) == b'{"subject":"s","version":1,"id":4,"schema":"\\"int\\"","deleted":false}'


def test_a_version_comes_back_as_it_was_written() -> None:
    schema = Schema("JSON", "{}", (Reference("n", "t", 2),), '{"properties":{"a":"b"}}', '{"enableAt":"ALL"}')
    whole = Version("é", 2, 9, schema, True)
    assert records.read_version(json.loads(records.schema_value(whole))) == whole


def test_what_makes_no_sense_is_nothing() -> None:
    good = json.loads(records.schema_value(PLAIN))
    for wrong in (
        {"id": "4"},
        {"schema": None},
        {"references": [3]},
        {"references": [{"name": "x"}]},
        {"version": True},
    ):
        assert records.read_version(good | wrong) is None
    assert records.read_version({}) is None
    assert records.read_version(good | {"references": {"a": 1}}) is None
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert records.read_version(good | {"metadata": {"tags": {"a": deep}}}) is None
    assert [records.read_object(data) for data in (b"{", b"[]", b"\xff", b"[" * 100_000)] == [None] * 4
