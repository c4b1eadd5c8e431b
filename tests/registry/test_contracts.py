"""Data contracts of schemas: metadata and rule sets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykafka_broker.registry import contracts
from tests.registry.rest import Rest, of, record

RULE = {"name": "short", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "size(message.name) < 9"}
OWNED = {"properties": {"owner": "me"}}


def test_two_that_say_the_same_are_one_text() -> None:
    one = {"properties": {"b": "1", "a": True}, "tags": {"t": ["y", "x", "y"]}, "unknown": 3}
    other = {"tags": {"t": ["x", "y"]}, "properties": {"a": "true", "b": 1}, "sensitive": None}
    text = '{"tags":{"t":["x","y"]},"properties":{"a":"true","b":"1"}}'
    assert contracts.metadata_text(one) == contracts.metadata_text(other) == text
    assert contracts.metadata_text(json.loads(text)) == text
    assert (contracts.metadata_text(None), contracts.metadata_text({})) == ("", "{}")
    rules = contracts.rule_set_text({"domainRules": [{"name": "r", "type": "CEL"}], "migrationRules": []})
    told = {"name": "r", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "CEL", "disabled": False}
    assert json.loads(rules) == {"domainRules": [told]}
    assert contracts.rule_set_text(json.loads(rules)) == rules


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": {"tags": {"t": "x"}}},
        {"metadata": {"properties": {"p": []}}},
        {"metadata": {"properties": ["p"]}},
        {"metadata": {"sensitive": [1]}},
        {"ruleSet": {"domainRules": {}}},
        {"ruleSet": {"domainRules": ["r"]}},
        {"ruleSet": {"domainRules": [RULE | {"kind": "MAYBE"}]}},
        {"ruleSet": {"domainRules": [RULE | {"mode": "SOMETIMES"}]}},
        {"ruleSet": {"domainRules": [RULE | {"disabled": "no"}]}},
        {"ruleSet": {"enableAt": "HOME"}},
    ],
)
def test_what_has_another_form_is_refused(rest: Rest, wrong: dict[str, Any]) -> None:
    assert rest.refused("POST", "/subjects/malformed/versions", of(record(), **wrong)) == (422, 422)


@pytest.mark.parametrize(
    "rules",
    [
        {"domainRules": [RULE, RULE]},
        {"domainRules": [RULE | {"mode": "UPGRADE"}]},
        {"migrationRules": [RULE]},
        {"domainRules": [RULE | {"name": "9lives"}]},
        {"domainRules": [RULE | {"name": "a-b"}]},
        {"domainRules": [{"name": "r"}]},
        {"domainRules": [RULE], "encodingRules": [RULE]},
    ],
)
def test_rules_that_no_serializer_could_follow_are_refused(rest: Rest, rules: dict[str, Any]) -> None:
    assert rest.refused("POST", "/subjects/misruled/versions", of(record(), ruleSet=rules)) == (422, 42210)
    assert rest.refused("PUT", "/config/misruled", {"defaultRuleSet": rules}) == (422, 42210)


def test_another_contract_is_another_version_and_without_one_the_last_holds(rest: Rest) -> None:
    plain = rest.register("owned", record("owned"))
    owned = rest.register("owned", record("owned"), metadata=OWNED, ruleSet={"domainRules": [RULE]})
    assert plain != owned
    assert rest.register("owned", record("owned")) == owned
    wider = rest.register("owned", record("owned", {"name": "more", "type": "int", "default": 0}))
    latest = rest.ok("GET", "/subjects/owned/versions/latest")
    assert (latest["id"], latest["version"], latest["metadata"]) == (wider, 3, OWNED)
    assert latest["ruleSet"] == {"domainRules": [RULE | {"disabled": False}]}
    assert rest.ok("GET", f"/schemas/ids/{owned}")["metadata"] == OWNED
    assert rest.ok("POST", "/subjects/owned", of(record("owned")))["id"] == plain


def test_a_lookup_without_a_contract_finds_a_schema_that_has_one(rest: Rest) -> None:
    schema_id = rest.register("contracted", record("contracted"), metadata=OWNED)
    assert rest.ok("POST", "/subjects/contracted", of(record("contracted")))["id"] == schema_id
    other = {"properties": {"owner": "you"}}
    assert rest.refused("POST", "/subjects/contracted", of(record("contracted"), metadata=other)) == (404, 40403)


def test_the_newest_version_with_a_property_is_found(rest: Rest) -> None:
    for major in (1, 2, 2):
        more = {"name": f"f{len(rest.ok('GET', '/subjects'))}", "type": "int", "default": 0}
        rest.register("majors", record("x", more), metadata={"properties": {"major": major, "m n": "x"}})
        rest.register("unrelated", record())
        rest.register("majors", record("x"), metadata={"properties": {"major": major, "by": "me"}})
    path = "/subjects/majors/metadata"
    assert rest.ok("GET", f"{path}?key=major&value=1")["version"] == 2
    assert rest.ok("GET", f"{path}?key=major&value=2&key=m%20n&value=x")["version"] == 3
    assert rest.refused("GET", f"{path}?key=major&value=7") == (404, 40403)
    assert rest.refused("GET", "/subjects/nobody/metadata?key=a&value=b") == (404, 40401)


def test_a_subject_gives_its_schemas_what_is_set_for_it(rest: Rest) -> None:
    default, override = {"properties": {"owner": "team", "cost": "1"}}, {"properties": {"cost": "2"}}
    told = {"compatibility": "NONE", "defaultMetadata": default, "overrideMetadata": override}
    assert rest.ok("PUT", "/config/given", told) == told
    rest.ok("PUT", "/config/given", {"defaultRuleSet": {"domainRules": [RULE]}})
    rest.register("given", record("given"), metadata=OWNED)
    found = rest.ok("GET", "/subjects/given/versions/1")
    assert found["metadata"] == {"properties": {"cost": "2", "owner": "me"}}
    assert [rule["name"] for rule in found["ruleSet"]["domainRules"]] == ["short"]
    assert rest.ok("GET", "/schemas?subjectPrefix=given&ruleType=CEL")
    assert rest.ok("GET", "/schemas?subjectPrefix=given&ruleType=JSONATA") == []
    rest.ok("PUT", "/config/given", {"overrideMetadata": None})
    assert set(rest.ok("GET", "/config/given")) == {"compatibilityLevel", "defaultMetadata", "defaultRuleSet"}


def test_versions_of_other_groups_need_not_be_compatible(rest: Rest) -> None:
    rest.ok("PUT", "/config/grouped", {"compatibilityGroup": "major"})
    assert rest.ok("GET", "/config/grouped") == {"compatibilityGroup": "major"}
    first, second = ({"properties": {"major": str(number)}} for number in (1, 2))
    rest.register("grouped", record("x"), metadata=first)
    broken = record("x", "y")
    assert rest.refused("POST", "/subjects/grouped/versions", of(broken, metadata=first)) == (409, 409)
    rest.register("grouped", broken, metadata=second)
    assert rest.refused("POST", "/subjects/grouped/versions", of(broken, metadata=first)) == (409, 409)
    path = "/compatibility/subjects/grouped/versions"
    third = of(record("x", "y", "z"), metadata={"properties": {"major": "3"}})
    assert rest.ok("POST", path, third)["is_compatible"]
    assert rest.ok("POST", f"{path}/1", third)["is_compatible"]


def _reserving(names: str) -> dict[str, Any]:
    return {"metadata": {"properties": {"confluent:reserved": names}}}


AVRO = {"schema": json.dumps(record("a", "b"))}
JSON = {"schemaType": "JSON", "schema": json.dumps({"properties": {"a": {}, "b": {}}})}
PROTOBUF = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message A {int32 a = 1;} message B {int32 b = 1;}'}


@pytest.mark.parametrize("schema", [AVRO, JSON, PROTOBUF], ids=["avro", "json", "protobuf"])
def test_no_field_has_a_reserved_name_where_fields_are_validated(rest: Rest, schema: dict[str, Any]) -> None:
    subject = f"reserving-{schema.get('schemaType', 'AVRO')}"
    rest.ok("PUT", f"/config/{subject}", {"compatibility": "NONE", "validateFields": True})
    status, answer = rest.ask("POST", f"/subjects/{subject}/versions", schema | _reserving("c, b,"))
    assert (status, answer["error_code"]) == (409, 409)
    assert "details: [The new schema has field that conflicts with the reserved field b.]" in answer["message"]
    rest.ok("POST", f"/subjects/{subject}/versions", schema | _reserving("c, d"))
    for level in ("NONE", "BACKWARD"):
        rest.ok("PUT", f"/config/{subject}", {"compatibility": level})
        path = f"/compatibility/subjects/{subject}/versions/latest"
        told = rest.ok("POST", f"{path}?verbose=true", schema | _reserving("d,e"))
        assert not told["is_compatible"]
        assert told["messages"][0].startswith("The new schema has reserved field c removed from its metadata")
        assert rest.ok("POST", path, schema | _reserving("e,d,c"))["is_compatible"]
        assert rest.ok("POST", path, schema)["is_compatible"], "the reserved names of the version before"
    rest.ok("PUT", f"/config/{subject}", {"validateFields": False})
    rest.ok("POST", f"/subjects/{subject}/versions", schema | _reserving("a"))


def test_later_texts_win_where_two_say_something() -> None:
    first, last = '{"properties":{"a":"1","b":"1"}}', '{"properties":{"b":"2"},"sensitive":["b"]}'
    assert contracts.merged_metadata("", first, last) == '{"properties":{"a":"1","b":"2"},"sensitive":["b"]}'
    assert contracts.merged_metadata("", "") == ""
    one, other = (contracts.rule_set_text({"domainRules": [RULE | {"expr": text}]}) for text in "xy")
    assert contracts.merged_rule_sets(one, "", other) == other
