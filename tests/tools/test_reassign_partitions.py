"""`reassign-partitions` as JSON, and files that make no sense."""

import json
from pathlib import Path

import pytest

from pykafka_broker.testing import KafkaBroker, KafkaCluster
from pykafka_broker.tools.frame import main
from tests.tools.asking import Asked

NOBODY = ["--bootstrap-server", "127.0.0.1:1"]


def plan(folder: Path, *partitions: dict[str, object]) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps({"partitions": partitions, "version": 1}))
    return str(path)


def test_the_state_of_partitions_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with KafkaBroker(in_process=True) as broker:
        broker.create_topic("a", 2)
        asked = Asked(broker, capsys)
        assert asked("reassign-partitions", "--list") == []
        there = {"topic": "a", "partition": 0, "replicas": [1]}
        file = plan(tmp_path, there)
        assert asked("reassign-partitions", "--execute", "--reassignment-json-file", file) == [there]
        (verified,) = asked("reassign-partitions", "--verify", "--reassignment-json-file", file)
        assert verified == there | {"completed": True, "in_progress": False}
        assert asked("reassign-partitions", "--cancel", "--reassignment-json-file", file) == []
        topics = tmp_path / "topics.json"
        topics.write_text('{"topics": [{"topic": "a"}]}')
        proposed = asked(
            "reassign-partitions", "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1"
        )
        assert proposed == [there, there | {"partition": 1}]


@pytest.mark.parametrize(
    ("partitions", "says"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([{"topic": "a", "partition": 0, "replicas": []}], "Partition replica list cannot be empty"),
        ([{"topic": "a", "partition": 0, "replicas": [1, 1]}], "a-0 contains multiple entries for 1"),
        ([{"topic": "a", "partition": "x", "replicas": [1]}], "Expected `Integer` value"),
        ([{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["any", "any"]}], "is different from size"),
        ([{"topic": "a", "partition": 0, "replicas": [1]}] * 2, "contains duplicate topic partitions: a-0"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_before_anybody_is_asked(
    partitions: list[dict[str, object]], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = plan(tmp_path, *partitions)
    assert main("reassign-partitions", [*NOBODY, "--execute", "--reassignment-json-file", file]) == 1
    assert says in capsys.readouterr().out


@pytest.mark.parametrize("broker", ["x", "\N{SUPERSCRIPT TWO}"])
def test_a_broker_that_is_no_number_is_refused(broker: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = plan(tmp_path)
    arguments = ["--generate", "--topics-to-move-json-file", file, "--broker-list", f"1,{broker}"]
    assert main("reassign-partitions", [*NOBODY, *arguments]) == 1
    assert f'For input string: "{broker}"' in capsys.readouterr().out


def test_throttles_are_set_while_replicas_move_and_cleared_when_they_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with KafkaCluster(2, in_process=True) as cluster:
        where = ["--bootstrap-server", cluster.bootstrap_servers]
        assert main("topics", [*where, "--create", "--topic", "a", "--replica-assignment", "1"]) == 0
        file = plan(tmp_path, {"topic": "a", "partition": 0, "replicas": [2]})
        capsys.readouterr()
        moving = [*where, "--reassignment-json-file", file]
        assert main("reassign-partitions", [*moving, "--execute", "--throttle", "1000000"]) == 0
        assert "The inter-broker throttle limit was set to 1000000 B/s" in capsys.readouterr().out
        cluster.wait_for_metadata()
        named = _configs(where, "topics", "a", capsys)
        assert "leader.replication.throttled.replicas=0:1" in named
        assert "follower.replication.throttled.replicas=" in named  # also where no replica is added
        assert "leader.replication.throttled.rate=1000000" in _configs(where, "brokers", "1", capsys)
        while "is completed" not in capsys.readouterr().out:
            assert main("reassign-partitions", [*moving, "--verify"]) == 0
        cluster.wait_for_metadata()
        assert "throttled.replicas" not in _configs(where, "topics", "a", capsys)
        assert "throttled.rate=" not in _configs(where, "brokers", "1", capsys)


def _configs(where: list[str], kind: str, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main("configs", [*where, "--describe", "--entity-type", kind, "--entity-name", name]) == 0
    return capsys.readouterr().out
