"""Schemas, subjects and versions over HTTP."""

from __future__ import annotations

import json
import threading

import pytest

from pykafka_broker.testing import BrokerError, KafkaBroker
from tests.registry.rest import Rest, of, record

X = record("x")
XY = record("x", {"name": "y", "type": "int", "default": 0})
XZ = record("x", "z")


def test_one_schema_has_one_id_in_all_subjects(rest: Rest) -> None:
    assert rest.register("one", X) == rest.register("two", json.dumps(X, indent=3))
    assert rest.register("one", XY) != rest.register("one", X)
    assert rest.ok("GET", "/subjects/one/versions") == [1, 2]


def test_a_version_is_found_by_number_and_as_the_latest(rest: Rest) -> None:
    schema_id = rest.register("numbered", X)
    text = rest.ok("GET", f"/schemas/ids/{schema_id}")["schema"]
    version = {"subject": "numbered", "version": 1, "id": schema_id, "schema": text}
    version["guid"] = rest.ok("GET", f"/schemas/ids/{schema_id}")["guid"]
    for number in ("1", "latest", "LATEST", "%20latest", "-1"):
        assert rest.ok("GET", f"/subjects/numbered/versions/{number}") == version
    assert rest.ok("GET", "/subjects/numbered/versions/1/schema") == json.loads(text)
    assert rest.ok("GET", f"/schemas/ids/{schema_id}/schema") == json.loads(text)
    assert rest.refused("GET", "/subjects/numbered/versions/2") == (404, 40402)
    for wrong in ("zwei", "0", "2147483648", "00000000019", f"0000000001{'9' * 5000}"):
        assert rest.refused("GET", f"/subjects/numbered/versions/{wrong}") == (422, 42202)
    assert rest.refused("GET", "/subjects/none/versions/1") == (404, 40401)
    assert rest.refused("GET", "/schemas/ids/99999") == (404, 40403)
    assert rest.refused("GET", "/schemas/ids/one") == (404, 404)


def test_a_schema_is_looked_up_without_being_registered(rest: Rest) -> None:
    schema_id = rest.register("known", X)
    assert rest.ok("POST", "/subjects/known", of(X))["id"] == schema_id
    assert rest.refused("POST", "/subjects/known", of(XZ)) == (404, 40403)
    assert rest.refused("POST", "/subjects/unknown", of(X)) == (404, 40401)


def test_what_readers_could_not_read_is_refused_and_told(rest: Rest) -> None:
    rest.register("strict", X)
    status, answer = rest.ask("POST", "/subjects/strict/versions", of(XZ))
    assert (status, answer["error_code"]) == (409, 409)
    assert answer["message"].startswith(
        'Schema being registered is incompatible with an earlier schema for subject "str'
    )
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in answer["message"]
    path = "/compatibility/subjects/strict/versions"
    assert rest.ok("POST", path, of(XZ)) == {"is_compatible": False}
    told = rest.ok("POST", f"{path}/latest?verbose=true", of(XZ))
    assert "'/fields/1'" in told["messages"][0]
    assert "{compatibility: 'BACKWARD'}" in told["messages"]
    assert rest.ok("POST", f"{path}?verbose=true", of(XY)) == {"is_compatible": True, "messages": []}
    assert rest.ok("POST", "/compatibility/subjects/nobody/versions/latest", of(XZ)) == {"is_compatible": True}
    assert rest.refused("POST", f"{path}/7", of(XZ)) == (404, 40402)
    assert rest.refused("POST", "/compatibility/subjects/nobody/versions/1", of(XZ)) == (404, 40402)


@pytest.mark.parametrize("path", ["/versions", "/versions/latest"])
@pytest.mark.parametrize("subject", ["nobody", "somebody"])
def test_no_invalid_schema_is_compatible(rest: Rest, subject: str, path: str) -> None:
    rest.register("somebody", X)
    path = f"/compatibility/subjects/{subject}{path}"
    assert rest.refused("POST", path, of({"type": "record"})) == (422, 42201)
    told = rest.ok("POST", f"{path}?verbose=true", of({"type": "record"}))
    assert not told["is_compatible"]
    assert told["messages"][0].startswith("Invalid schema of type AVRO")


def test_a_transitive_level_looks_at_all_versions(rest: Rest) -> None:
    rest.register("levels", record("a"))
    rest.register("levels", record())
    third = record({"name": "a", "type": "string", "default": ""})
    path = "/compatibility/subjects/levels/versions"
    assert rest.ok("POST", path, of(third))["is_compatible"]
    rest.ok("PUT", "/config/levels", {"compatibility": "backward_transitive"})
    assert not rest.ok("POST", path, of(third))["is_compatible"]
    rest.ok("PUT", "/config/levels", {"compatibility": "NONE"})
    assert rest.ok("POST", path, of("int"))["is_compatible"]
    rest.ok("PUT", "/config/levels", {"compatibility": "FULL"})
    assert not rest.ok("POST", path, of(record({"name": "b", "type": "int"})))["is_compatible"]
    rest.ok("PUT", "/config/levels", {"compatibility": "FORWARD"})
    assert rest.ok("POST", path, of(record({"name": "b", "type": "int"})))["is_compatible"]


def test_a_version_is_deleted_softly_and_then_for_good(rest: Rest) -> None:
    schema_id = rest.register("gone", XY)
    rest.register("gone", X)
    assert rest.refused("DELETE", "/subjects/gone/versions/1?permanent=true") == (404, 40407)
    assert rest.ok("DELETE", "/subjects/gone/versions/1") == 1
    assert rest.refused("DELETE", "/subjects/gone/versions/1") == (404, 40406)
    assert rest.ok("GET", "/subjects/gone/versions") == [2]
    assert rest.ok("GET", "/subjects/gone/versions?deleted=true") == [1, 2]
    assert rest.ok("GET", "/subjects/gone/versions?deletedOnly=true") == [1]
    assert rest.refused("GET", "/subjects/gone/versions/1") == (404, 40402)
    assert rest.ok("GET", "/subjects/gone/versions/1?deleted=true")["id"] == schema_id
    assert rest.ok("DELETE", "/subjects/gone/versions/1?permanent=true") == 1
    assert rest.ok("GET", "/subjects/gone/versions?deleted=true") == [2]
    assert rest.ok("DELETE", "/subjects/gone/versions/latest") == 2
    assert rest.refused("GET", "/subjects/gone/versions") == (404, 40401)


def test_a_subject_is_deleted_softly_and_then_for_good(rest: Rest) -> None:
    only = record("only_here")
    schema_id = rest.register("away", only)
    assert rest.refused("DELETE", "/subjects/away?permanent=true") == (404, 40405)
    assert rest.ok("DELETE", "/subjects/away") == [1]
    assert rest.refused("DELETE", "/subjects/away") == (404, 40404)
    assert "away" not in rest.ok("GET", "/subjects")
    assert "away" in rest.ok("GET", "/subjects?deleted=true")
    assert rest.ok("GET", "/subjects?deletedOnly=true&subjectPrefix=aw") == ["away"]
    assert rest.ok("GET", f"/schemas/ids/{schema_id}")
    assert rest.ok("GET", f"/schemas/ids/{schema_id}/subjects") == []
    assert rest.register("away", only) == schema_id
    assert rest.ok("GET", "/subjects/away/versions") == [2]
    assert rest.ok("DELETE", "/subjects/away") == [2]
    assert rest.ok("DELETE", "/subjects/away?permanent=true") == [2]
    assert rest.refused("GET", f"/schemas/ids/{schema_id}") == (404, 40403)
    assert rest.refused("DELETE", "/subjects/away") == (404, 40401)


def test_a_schema_that_comes_again_takes_the_place_of_its_deleted_version(rest: Rest) -> None:
    again = record({"name": "again", "type": "int", "default": 0})
    schema_id = rest.register("back", again)
    rest.register("back", record())
    rest.ok("DELETE", "/subjects/back/versions/1")
    assert rest.register("back", again) == schema_id
    assert rest.ok("GET", "/subjects/back/versions?deleted=true") == [2, 3]
    assert rest.ok("GET", f"/schemas/ids/{schema_id}/versions?deleted=true&subject=back") == [
        {"subject": "back", "version": 3}
    ]


def test_a_deleted_version_that_others_refer_to_keeps_its_place(rest: Rest) -> None:
    part = record("x", name="kept.Part")
    rest.register("kept-part", part)
    rest.ok("DELETE", "/subjects/kept-part/versions/1")
    whole = record({"name": "part", "type": "kept.Part"}, name="KeptWhole")
    rest.register("kept-whole", whole, references=[{"name": "kept.Part", "subject": "kept-part", "version": 1}])
    rest.register("kept-part", part)
    assert rest.ok("GET", "/subjects/kept-part/versions?deleted=true") == [1, 2]
    assert rest.ok("DELETE", "/subjects/kept-part") == [2]  # nobody refers to the version that goes
    assert rest.refused("DELETE", "/subjects/kept-part?permanent=true") == (422, 42206)


def test_the_last_version_takes_the_settings_of_its_subject_along(rest: Rest) -> None:
    rest.register("settled", X)
    rest.register("settled", XY)
    rest.ok("PUT", "/config/settled", {"compatibility": "FULL"})
    rest.ok("PUT", "/mode/settled", {"mode": "READWRITE"})
    for version in (1, 2):
        rest.ok("DELETE", f"/subjects/settled/versions/{version}")
        assert rest.ok("GET", "/config/settled") == {"compatibilityLevel": "FULL"}
        rest.ok("DELETE", f"/subjects/settled/versions/{version}?permanent=true")
    assert rest.refused("GET", "/config/settled") == (404, 40408)
    assert rest.refused("GET", "/mode/settled") == (404, 40409)


def test_what_others_refer_to_stays(rest: Rest) -> None:
    rest.register("part", record("x", name="n.Part"))
    whole = record({"name": "part", "type": "n.Part"}, name="Whole")
    references = [{"name": "n.Part", "subject": "part", "version": 1}]
    schema_id = rest.register("whole", whole, references=references)
    assert rest.ok("GET", f"/schemas/ids/{schema_id}")["references"] == references
    assert rest.ok("GET", "/subjects/part/versions/1/referencedby") == [schema_id]
    assert rest.refused("DELETE", "/subjects/part/versions/1") == (422, 42206)
    assert rest.refused("DELETE", "/subjects/part") == (422, 42206)
    newest = [{"name": "n.Part", "subject": "part", "version": -1}]
    assert rest.register("whole", whole, references=newest) == schema_id
    rest.ok("DELETE", "/subjects/whole")
    assert rest.ok("GET", "/subjects/part/versions/1/referencedby") == []
    assert rest.ok("GET", "/subjects/part/versions/1/referencedby?deleted=true") == [schema_id]
    assert rest.ok("DELETE", "/subjects/part") == [1]
    assert rest.ok("GET", "/subjects/part/versions/1/referencedby?deleted=true") == [schema_id]
    assert rest.refused("POST", "/subjects/new/versions", of(whole, references=references[:0])) == (422, 42201)
    nowhere = [{"name": "n.Part", "subject": "nowhere", "version": 1}]
    assert rest.refused("POST", "/subjects/new/versions", of(whole, references=nowhere)) == (422, 42201)


def test_schemas_are_listed_by_prefix_and_page(rest: Rest) -> None:
    for number in range(3):
        rest.register(f"list-{number}", XY)
        rest.register(f"list-{number}", X)
    names = [each["subject"] for each in rest.ok("GET", "/schemas?subjectPrefix=list-&latestOnly=true")]
    assert names == ["list-0", "list-1", "list-2"]
    page = rest.ok("GET", "/schemas?subjectPrefix=list-&offset=1&limit=2")
    assert [(each["subject"], each["version"]) for each in page] == [("list-0", 2), ("list-1", 1)]
    uses = rest.ok("GET", f"/schemas/ids/{rest.register('list-0', X)}/versions")
    assert {"subject": "list-2", "version": 2} in uses
    only = rest.ok("GET", f"/schemas/ids/{rest.register('list-0', X)}/versions?subject=list-1")
    assert only == [{"subject": "list-1", "version": 2}]
    assert rest.refused("GET", "/schemas?limit=some") == (400, 400)


def test_contexts_have_ids_of_their_own(rest: Rest) -> None:
    first = rest.register("first", record("of_the_default_context"))
    rest.register("plain", record("in_all"))
    assert rest.register(":.ctx:inner", record("in_all")) == 1
    inner = rest.ok("GET", "/subjects/:.ctx:inner/versions/1/schema")
    assert rest.ok("GET", "/schemas/ids/1/schema?subject=:.ctx:") == inner
    assert rest.ok("GET", f"/schemas/ids/{first}/schema") != inner
    assert ".ctx" in rest.ok("GET", "/contexts")
    assert rest.ok("GET", "/contexts?contextPrefix=.ct") == [".ctx"]
    assert rest.ok("GET", "/subjects?subjectPrefix=:.ctx:") == [":.ctx:inner"]
    assert rest.register(":.:plain", record("in_all")) == rest.register("plain", record("in_all"))


@pytest.mark.parametrize("context", ["url", ".url", ":.url:", "%3A.url%3A"])
def test_a_context_in_the_address_has_all_subjects_of_a_client(rest: Rest, context: str) -> None:
    base = f"/contexts/{context}"
    part, whole = record("p", name="Part"), record({"name": "part", "type": "Part"})
    body = of(whole, references=[{"name": "Part", "subject": "part", "version": 1}])
    schema_ids = [rest.ok("POST", f"{base}/subjects/part/versions", of(part))["id"]]
    schema_ids.append(rest.ok("POST", f"{base}/subjects/:.url:whole/versions", body)["id"])
    assert schema_ids == [1, 2]
    assert rest.ok("GET", f"{base}/subjects") == [":.url:part", ":.url:whole"]
    assert rest.ok("GET", f"{base}/subjects?subjectPrefix=w") == [":.url:whole"]
    assert [each["subject"] for each in rest.ok("GET", f"{base}/schemas")] == [":.url:part", ":.url:whole"]
    assert rest.ok("GET", f"{base}/subjects/part/versions/latest")["subject"] == ":.url:part"
    assert rest.ok("GET", f"{base}/schemas/ids/2/schema") == whole
    assert rest.ok("GET", f"{base}/schemas/ids/2/versions?subject=whole") == [{"subject": ":.url:whole", "version": 1}]
    assert rest.ok("POST", f"{base}/compatibility/subjects/whole/versions/latest", body) == {"is_compatible": True}
    rest.ok("PUT", f"{base}/config", {"compatibility": "FULL"})
    assert rest.ok("DELETE", "/config/:.url:") == {"compatibilityLevel": "FULL"}
    rest.ok("PUT", f"{base}/mode/part", {"mode": "READONLY"})
    assert rest.ok("DELETE", "/mode/:.url:part") == {"mode": "READONLY"}
    assert rest.ok("GET", "/contexts/:.:/mode") == {"mode": "READWRITE"}
    assert rest.refused("GET", f"{base}/nothing") == (404, 404)


def test_many_at_once_get_one_id(broker: KafkaBroker) -> None:
    ids: list[int] = []

    def register() -> None:
        rest = Rest(broker.schema_registry_url)
        ids.extend(rest.register(f"race-{number}", record("contended")) for number in range(5))
        rest.close()

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 40
    assert len(set(ids)) == 1


def test_what_somebody_else_writes_to_the_topic_counts(broker: KafkaBroker, rest: Rest) -> None:
    key = '{"keytype":"SCHEMA","subject":"foreign","version":1,"magic":1}'
    value = '{"subject":"foreign","version":1,"id":7000,"schema":"\\"string\\"","deleted":false}'
    noise = [{"key": "no json", "value": "x"}, {"key": '{"keytype":"SCHEMA"}', "value": "[]"}, {"key": "[1]"}]
    broker.produce("_schemas", [*noise, {"key": key, "value": value}, {"key": '{"keytype":"NOOP","magic":0}'}])
    assert rest.ok("GET", "/subjects/foreign/versions/1")["id"] == 7000
    assert rest.register("foreign-next", record("after_7000")) == 7001


def test_a_restart_keeps_all_and_a_reset_nothing() -> None:
    with KafkaBroker(schema_registry=True) as broker:
        url = broker.schema_registry_url
        rest = Rest(url)
        rest.register("kept", X)
        rest.register("kept", XY)
        rest.ok("DELETE", "/subjects/kept/versions/1")
        rest.ok("PUT", "/config/kept", {"compatibility": "FULL"})
        before = rest.ok("GET", "/schemas?deleted=true")
        broker.restart()
        assert broker.schema_registry_url == url
        rest = Rest(url)
        assert rest.ok("GET", "/schemas?deleted=true") == before
        assert rest.ok("GET", "/config/kept") == {"compatibilityLevel": "FULL"}
        broker.snapshot("s")
        rest.register("kept", X)
        broker.restore("s")
        assert rest.ok("GET", "/schemas?deleted=true") == before
        broker.reset()
        assert rest.ok("GET", "/subjects?deleted=true") == []
        assert rest.register("fresh", X) == 1
        rest.close()


def test_a_broker_without_one_says_how_to_have_it() -> None:
    broker = KafkaBroker()
    with pytest.raises(BrokerError, match="make the broker with schema_registry=True"):
        broker.client_config("schema-registry")
    broker.close()


@pytest.mark.kafka(schema_registry=True)
def test_the_marker_gives_the_fixtures_broker_one(kafka_broker: KafkaBroker) -> None:
    rest = Rest(kafka_broker.schema_registry_url)
    assert rest.register("marked", X) == 1
    rest.close()
