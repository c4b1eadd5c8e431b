"""A registry beside each broker of a cluster: who takes changes, and what the others do."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from pykafka_broker.testing import KafkaBroker, KafkaCluster
from tests.registry.rest import Rest, of, record


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
        deadline = time.monotonic() + 20
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
