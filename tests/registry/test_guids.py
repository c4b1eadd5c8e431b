"""GUIDs, and who asks for a schema by one."""

from __future__ import annotations

import hashlib
import json
from uuid import UUID

from pykafka_broker.registry.contracts import metadata_text, rule_set_text
from pykafka_broker.registry.guids import guid_of
from pykafka_broker.registry.stored import Reference, Schema
from tests.registry.rest import Rest, record

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
