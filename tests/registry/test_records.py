"""The topic's records, in Confluent's form."""

from __future__ import annotations

import hashlib
import json
from uuid import UUID

from pykafka_broker.registry import records
from pykafka_broker.registry.contracts import metadata_text, rule_set_text
from pykafka_broker.registry.records import Reference, Schema, Version, guid_of
from tests.registry.rest import Rest, record

PLAIN = Version("s", 1, 4, Schema("AVRO", '"int"'))


def test_keys_and_values_are_those_of_confluents_registry() -> None:
    assert records.schema_key("s", 1) == b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    assert records.subject_key(records.CONFIG, None) == b'{"keytype":"CONFIG","subject":null,"magic":0}'
    assert records.subject_key(records.MODE, "s") == b'{"keytype":"MODE","subject":"s","magic":0}'
    assert records.subject_key(records.DELETE_SUBJECT, "s") == b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'
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


NOBODY = "00000000-0000-0000-0000-000000000000"


def made_of(said: bytes) -> str:
    return str(UUID(bytes=hashlib.md5(said).digest()))


def test_a_guid_is_made_of_the_text_its_references_and_its_contract() -> None:
    assert guid_of(Schema("AVRO", '"int"')) == guid_of(Schema("JSON", '"int"')) == made_of(b'"int"')
    referring = Schema("AVRO", "é", (Reference("n", "s", 258),))
    assert guid_of(referring) == made_of("é".encode() + b"ns\0\0\1\2")
    metadata = metadata_text({"sensitive": ["s"], "properties": {"p": 1}, "tags": {"t": ["b", "a"]}})
    rule = {"name": "r", "type": "CEL", "expr": "e", "tags": ["t"], "params": {"k": "v"}, "disabled": True}
    rules = rule_set_text({"domainRules": [rule]})
    assert guid_of(Schema("AVRO", "x", (), metadata)) == made_of(b"x\1tabp1s")
    assert guid_of(Schema("AVRO", "x", (), "", rules)) == made_of(b"x\1rTRANSFORMWRITEREADCELtkve\1")
    assert guid_of(Schema("AVRO", "x", (), "{}")) == made_of(b"x\1") != guid_of(Schema("AVRO", "x"))


def test_a_schema_is_got_by_its_guid_in_any_context(rest: Rest) -> None:
    schema_id = rest.register("by-guid", record("guid"))
    other = rest.register(":.guids:inner", record("guid"))
    found = rest.extended("GET", "/subjects/by-guid/versions/1")
    guid = found["guid"]
    assert guid == made_of(found["schema"].encode())
    assert rest.ok("GET", f"/schemas/guids/{guid}") == {"guid": guid, "schema": found["schema"]}
    assert rest.extended("GET", f"/schemas/guids/{guid.upper()}")["guid"] == guid
    ids = [{"context": ".", "id": schema_id}, {"context": ".guids", "id": other}]
    assert rest.ok("GET", f"/schemas/guids/{guid}/ids") == ids
    for path in (NOBODY, "x", f"{NOBODY}/ids"):
        assert rest.refused("GET", f"/schemas/guids/{path}") == (404, 40403)


def test_a_guid_goes_with_the_last_version_that_has_it(rest: Rest) -> None:
    rest.register("guid-gone", record("guid_gone"))
    guid = rest.extended("GET", "/subjects/guid-gone/versions/1")["guid"]
    rest.ok("DELETE", "/subjects/guid-gone")
    assert rest.ok("GET", f"/schemas/guids/{guid}")
    rest.ok("DELETE", "/subjects/guid-gone?permanent=true")
    assert rest.refused("GET", f"/schemas/guids/{guid}") == (404, 40403)


def test_only_who_takes_more_properties_is_told_more(rest: Rest) -> None:
    text = json.dumps(record("told"))
    assert list(rest.ok("POST", "/subjects/told/versions", {"schema": text})) == ["id"]
    more = rest.extended("POST", "/subjects/told/versions", {"schema": text})
    assert list(more) == ["id", "version", "guid", "ts"]
    version = {
        "subject": "told",
        "schemaType": "AVRO",
        "schema": rest.ok("GET", f"/schemas/ids/{more['id']}")["schema"],
    }
    assert rest.extended("GET", "/subjects/told/versions/1") == more | version | {"deleted": False}
    assert more["ts"] > 1_500_000_000_000
    assert set(rest.extended("GET", f"/schemas/ids/{more['id']}")) == {"guid", "schemaType", "schema"}
    assert set(rest.ok("GET", "/subjects/told/versions/1")) == {"subject", "version", "id", "guid", "schema"}
