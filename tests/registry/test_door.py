"""Who may come in, and what whoever comes is told."""

from __future__ import annotations

import base64
import http.client
from pathlib import Path

import pytest

from pykafka_broker.control.http import Request, Response
from pykafka_broker.registry.door import MAX_BODY_BYTES, RegistryDoor
from pykafka_broker.testing import KafkaBroker
from tests.registry.rest import Rest, of
from tests.server.support import run


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, 400),
        (b"[" * 100_000, 400, 400),
        (b"\xff", 400, 400),
        (b"", 400, 400),
        ([], 400, 400),
        ({}, 422, 42201),
        ({"schema": 3}, 422, 422),
        ({"schema": "{"}, 422, 42201),
        ({"schema": "[" * 50_000}, 422, 42201),
        ({"schema": "\ud800"}, 422, 42201),
        ({"schema": '"int"', "schemaType": "XML"}, 422, 42201),
        ({"schema": '"int"', "colour": "red"}, 422, 422),
        ({"schema": '"int"', "references": [{"name": "x"}]}, 422, 422),
        ({"schema": '"int"', "references": 3}, 422, 422),
        ({"schema": '"int"', "version": "one"}, 422, 422),
        ({"schema": '"int"', "metadata": []}, 422, 422),
    ],
)
def test_a_body_that_makes_no_sense_is_told(rest: Rest, body: object, status: int, code: int) -> None:
    assert rest.refused("POST", "/subjects/bad/versions", body) == (status, code)


def test_paths_and_methods_that_are_not_there_are_told(rest: Rest) -> None:
    assert rest.refused("GET", "/nowhere") == (404, 404)
    assert rest.refused("PUT", "/subjects") == (405, 405)
    assert rest.refused("GET", "/subjects/../../etc/passwd") == (404, 404)
    assert rest.refused("GET", "/subjects/%ff/versions") == (400, 400)
    assert rest.refused("GET", "/subjects/%0a/versions") == (422, 42208)
    assert rest.refused("GET", "/subjects/__GLOBAL/versions") == (422, 42208)
    assert rest.refused("GET", f"/subjects/{'s' * 5000}/versions") == (422, 42208)
    assert rest.refused("GET", "/subjects?deleted=perhaps") == (400, 400)


def test_a_subject_may_have_slashes_and_any_letter(rest: Rest) -> None:
    rest.register("a%2F..%2Fb", "string")
    rest.register("%C3%A9%20%2F%3F", "string")
    assert {"a/../b", "é /?"} <= set(rest.ok("GET", "/subjects"))


def test_types_of_bodies_and_answers_are_those_of_the_api(rest: Rest, broker: KafkaBroker) -> None:
    body = of("string")
    assert rest.ask("POST", "/subjects/typed/versions", body, content_type="text/plain")[0] == 415
    assert rest.ask("POST", "/subjects/typed/versions", body, content_type="application/json")[0] == 200
    connection = http.client.HTTPConnection(broker.schema_registry_url.removeprefix("http://"))
    for accept, told in (("*/*", "application/vnd.schemaregistry.v1+json"), ("application/json", "application/json")):
        connection.request("GET", "/subjects", headers={"accept": accept})
        response = connection.getresponse()
        response.read()
        assert response.headers["content-type"] == told
    connection.close()


def test_a_page_of_a_browser_is_refused(rest: Rest) -> None:
    assert rest.ask("GET", "/subjects", origin="http://evil.example")[0] == 403
    assert rest.ask("GET", "/subjects", host="evil.example")[0] == 403


def test_what_is_larger_than_the_topic_or_the_door_takes_is_refused(broker: KafkaBroker, rest: Rest) -> None:
    doc = {"type": "fixed", "name": "F", "size": 1, "doc": "d" * (2 << 20)}
    assert rest.refused("POST", "/subjects/large/versions", of(doc)) == (422, 42209)
    connection = http.client.HTTPConnection(broker.schema_registry_url.removeprefix("http://"))
    connection.putrequest("POST", "/subjects/large/versions")
    connection.putheader("content-length", str(MAX_BODY_BYTES + 1))
    connection.endheaders()
    connection.send(b" " * (MAX_BODY_BYTES + 1))
    assert connection.getresponse().status == 413
    connection.close()
    assert rest.ok("GET", "/schemas/types")


def test_a_user_is_asked_for_and_nothing_else_then() -> None:
    async def scenario() -> None:
        door = RegistryDoor(None, "me:secret")  # type: ignore[arg-type]  # nothing of the registry is asked for
        get = Request("GET", "/schemas/types", {"host": "elsewhere", "origin": "http://a"}, b"")
        for header in ("", "me:secret", "Basic", "Basic bWU6", "Basic !", "Bearer bWU6c2VjcmV0"):
            response = door.judge(get._replace(headers={"authorization": header}))
            assert isinstance(response, Response)
            assert response.status == 401
            assert ("www-authenticate", "Basic") in response.headers
        known = "Basic " + base64.b64encode(b"me:secret").decode()
        asked = get._replace(headers=get.headers | {"authorization": known})
        assert door.judge(asked) == MAX_BODY_BYTES
        response = await door.serve(asked)
        assert response.status == 200

    run(scenario)


def test_it_says_what_it_is(rest: Rest, broker: KafkaBroker) -> None:
    assert rest.ok("GET", "/") == {}
    assert rest.ok("GET", "/v1/metadata/version")["version"]
    assert rest.ok("GET", "/v1/metadata/deployment") == {"attributes": []}
    scope = rest.ok("GET", "/v1/metadata/id")["scope"]["clusters"]
    assert scope["kafka-cluster"] in Path(broker.data_dir / "meta.properties").read_text()
