"""Access to the schema registry's API and its answers to bad requests."""

from __future__ import annotations

import base64
import http.client
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from pykafka_broker.control.http import Request, Response
from pykafka_broker.registry.api import MAX_BODY_BYTES, RegistryServer
from pykafka_broker.testing import KafkaBroker, KafkaCluster
from tests.registry.rest import Rest, of, record
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
        door = RegistryServer(None, "me:secret")  # type: ignore[arg-type]  # nothing of the registry is asked for
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


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=4, schema_registry=True) as cluster:
        tried = [rest_of(each).ask("POST", "/subjects/first/versions", of("string"))[0] for each in cluster.brokers]
        assert sorted(tried) == [200, 200, 200, 500]  # one has no replica
        yield cluster


def with_a_replica(cluster: KafkaCluster) -> list[KafkaBroker]:
    return [cluster.broker(node_id) for node_id in cluster.partition("_schemas")["replicas"]]


def rest_of(broker: KafkaBroker) -> Rest:
    return Rest(broker.schema_registry_url)


def test_every_node_takes_changes_and_knows_them_at_once(cluster: KafkaCluster) -> None:
    nodes = [rest_of(broker) for broker in with_a_replica(cluster)]
    ids: list[int] = []
    for number in range(9):
        node = nodes[number % 3]
        node.ok("PUT", "/config/spread", {"compatibility": "NONE"})
        ids.append(node.register("spread", record(f"f{number}", name="N")))
        assert node.ok("GET", "/subjects/spread/versions/latest")["id"] == ids[-1]
        for other in nodes:
            assert other.ok("GET", f"/schemas/ids/{ids[-1]}")["schema"]
    assert len(set(ids)) == 9
    cluster.wait_for_isr("_schemas", size=3)
    for node in nodes:
        assert node.refused("POST", "/subjects/spread/versions", of("no schema")) == (422, 42201)
        assert node.refused("GET", "/schemas/ids/777") == (404, 40403)
        node.close()


def test_a_node_without_a_replica_says_who_has_it(cluster: KafkaCluster) -> None:
    replicas = cluster.partition("_schemas")["replicas"]
    (without,) = [rest_of(each) for node_id, each in cluster.nodes.items() if node_id not in (*replicas, 100)]
    for asked in (("GET", "/subjects"), ("POST", "/subjects/s/versions", of("string"))):
        status, answer = without.ask(*asked)
        assert (status, answer["error_code"]) == (500, 50003)
        assert f"broker {cluster.leader_of('_schemas')} leads _schemas" in answer["message"]
    without.close()


def test_another_node_takes_over_and_gives_no_id_twice(cluster: KafkaCluster) -> None:
    with SchemaRegistryClient({"url": cluster.schema_registry_url}) as client:
        before = client.register_schema("survives", Schema('"string"', "AVRO"))
        leader = cluster.leader_of("_schemas")
        left = [rest_of(each) for each in with_a_replica(cluster) if each is not cluster.broker(leader)]
        cluster.broker(leader).kill()
        deadline = time.monotonic() + 120
        while left[0].ask("POST", "/subjects/survives/versions", of("long"))[0] == 500:  # nobody leads the topic yet
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert left[1].ok("GET", f"/schemas/ids/{before}")["schema"] == '"string"'
        left[1].ok("PUT", "/config/survives", {"compatibility": "NONE"})
        after = [node.register("survives", record(f"g{number}")) for number, node in enumerate(left)]
        assert len({before, *after}) == 3
        assert min(after) > before
        assert client.get_versions("survives") == left[0].ok("GET", "/subjects/survives/versions")
    for node in left:
        node.close()
    cluster.broker(leader).start()  # as the other tests want it
    cluster.wait_for_isr("_schemas", size=3)


@pytest.mark.whole
def test_very_many_schemas_are_listed_while_they_are_sent(rest: Rest) -> None:
    for number in range(3):
        rest.register(f"listed{number}", record(f"field{number}"))
    found = rest.ok("GET", "/schemas?subjectPrefix=listed")
    assert [each["subject"] for each in found] == ["listed0", "listed1", "listed2"]
    assert rest.ok("GET", "/schemas?subjectPrefix=listed&offset=1&limit=1") == found[1:2]
    assert rest.ok("GET", "/schemas?subjectPrefix=nowhere") == []
