"""The metrics of replicas and brokers, under Kafka's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka_broker.broker.node import ServerNode
from pykafka_broker.control.api.metrics import of_cluster
from tests.broker.controller_node import ControllerNode
from tests.broker.neighbourhood import Neighbourhood

MANAGER = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"


def told(node: ServerNode) -> dict[str, float]:
    return {sample.name: sample.value for metric in of_cluster(node) for sample in metric.samples}


@pytest.fixture
def nodes(tmp_path: Path) -> Neighbourhood:
    """Node 1 leads both partitions of t, node 2 has replicas of them, and leads u."""
    nodes = Neighbourhood(tmp_path, brokers=2)
    nodes.add("t", 1, 1, replicas=(1, 2), **{"min.insync.replicas": "2"})
    nodes.add("u", 2)
    return nodes


def test_replicas_are_counted(nodes: Neighbourhood) -> None:
    nodes.change("t", 0, isr=[1, 2])
    nodes.change("t", 1, isr=[1])
    found = told(nodes[1].whole.node)
    assert {name: found[MANAGER + name] for name in ("partitioncount", "leadercount", "offlinereplicacount")} == {
        "partitioncount": 2,
        "leadercount": 2,
        "offlinereplicacount": 0,
    }
    assert found[MANAGER + "underreplicatedpartitions"] == 1
    assert found[MANAGER + "underminisrpartitioncount"] == 1
    assert found[MANAGER + "atminisrpartitioncount"] == 1
    assert found[MANAGER + "isrexpands_total"] == found[MANAGER + "isrshrinks_total"] == 0
    assert found["kafka_server_replicafetchermanager_maxlag"] == 0
    other = told(nodes[2].whole.node)
    assert (other[MANAGER + "partitioncount"], other[MANAGER + "leadercount"]) == (3, 1)
    assert other[MANAGER + "underreplicatedpartitions"] == 0


def test_a_replica_that_is_added_is_not_missing(nodes: Neighbourhood) -> None:
    nodes.change("t", 0, isr=[1], replicas=[1, 2], adding_replicas=[2])
    nodes.change("t", 1, isr=[1, 2])
    found = told(nodes[1].whole.node)
    assert found[MANAGER + "reassigningpartitions"] == 1
    assert found[MANAGER + "underreplicatedpartitions"] == 0


def test_a_controller_tells_of_its_brokers(tmp_path: Path) -> None:
    node = ControllerNode(tmp_path)
    node.join(1, 2)
    node.register(3)
    found = told(node.whole.node)
    assert {name.removeprefix(CONTROLLER): value for name, value in found.items()} == {
        "activecontrollercount": 1,
        "activebrokercount": 2,
        "fencedbrokercount": 1,
        "offlinepartitionscount": 0,
        "preferredreplicaimbalancecount": 0,
    }
