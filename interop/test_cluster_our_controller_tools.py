"""Kafka's own tools with our controller and with Kafka's, asked on its listener and through brokers of both kinds.

Rule: the tools print the same for both controllers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.java_tools import JavaTools, Outcome
from interop.kafka_cluster import OURS, THEIRS, KafkaCluster
from interop.tools.tables.acls import without_trace
from interop.waiting import eventually
from pykafka_broker.cluster.features import METADATA_VERSION, METADATA_VERSIONS, SUPPORTED
from pykafka_broker.tools.frame import main as our_tool

pytestmark = pytest.mark.java


class Asked:
    """A cluster and the tools. K@ stands for the addresses of its controllers, B@ for those of its brokers."""

    def __init__(self, cluster: KafkaCluster, tools: JavaTools) -> None:
        self.cluster = cluster
        self._tools = tools

    def run(self, *arguments: str) -> Outcome:
        words = {"K@": self.cluster.bootstrap_controllers, "B@": self.cluster.bootstrap_servers}
        return self._tools.run(*(words.get(each, each) for each in arguments))

    def lines(self, *arguments: str) -> list[str]:
        """Run a tool that has to succeed; return its lines with single blanks."""
        outcome = self.run(*arguments)
        assert outcome.status == 0, outcome
        return [" ".join(line.split()) for line in outcome.lines]


@pytest.fixture(scope="module", params=[OURS, THEIRS], ids=["ours", "theirs"])
def asked(request: pytest.FixtureRequest, java: JavaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    directory = tmp_path_factory.mktemp("cluster") / "nodes"
    with KafkaCluster(directory, controllers=[request.param], brokers=[THEIRS, OURS]) as cluster:
        known = Asked(cluster, java)
        eventually(lambda: sum("unfenced" in line for line in known.lines(*ENDPOINTS)), 2)
        yield known


SET = "configs --bootstrap-controller K@ --entity-type brokers --alter"
REMOVE = "metadata-quorum --bootstrap-controller K@ remove-controller"
NONE = "A" * 21 + "g"
ENDPOINTS = ("kafka-cluster", "list-endpoints", "--bootstrap-server", "B@")


@pytest.mark.parametrize("door", [("--bootstrap-controller", "K@"), ("--bootstrap-server", "B@")])
def test_the_quorum_is_described(asked: Asked, door: tuple[str, str]) -> None:
    lines = asked.lines("kafka-metadata-quorum", *door, "describe", "--status")
    told = dict(line.split(": ", 1) for line in lines)
    assert (told["LeaderId"], told["LeaderEpoch"]) == ("101", "1")
    voters, observers = json.loads(told["CurrentVoters"]), json.loads(told["CurrentObservers"])
    endpoint = f"CONTROLLER://{asked.cluster.bootstrap_controllers}"
    assert voters == [{"id": 101, "endpoints": [endpoint]}]
    assert sorted(each["id"] for each in observers) == [1, 2]
    replication = asked.lines("kafka-metadata-quorum", *door, "describe", "--replication")
    assert sorted((line.split()[0], line.split()[-1]) for line in replication[1:]) == [
        ("1", "Observer"),
        ("101", "Leader"),
        ("2", "Observer"),
    ]


@pytest.mark.parametrize(
    "words",
    [
        "metadata-quorum --bootstrap-controller K@ describe --status",
        "metadata-quorum --bootstrap-controller K@ describe --replication",
        "features --bootstrap-controller K@ describe",
        "cluster cluster-id --bootstrap-controller K@",
        "cluster list-endpoints --bootstrap-controller K@",
        "cluster api-versions --bootstrap-controller K@",
        "cluster unregister --bootstrap-controller K@ --id 9",
        "cluster unregister-controller --bootstrap-controller K@ --id 9",
        "cluster unregister-controller --bootstrap-controller K@ --id 101",
        "acls --bootstrap-controller K@ --list",
        "reassign-partitions --bootstrap-controller K@ --list",
        "configs --bootstrap-controller K@ --entity-type brokers --describe",
        f"{SET} --entity-name 1 --add-config log.cleaner.threads=1",
        f"{SET} --entity-name 7 --add-config log.cleaner.threads=1",
        f"{REMOVE} --controller-id 9 --controller-directory-id {NONE}",
    ],
)
def test_ours_say_the_same_at_the_controller(asked: Asked, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, *arguments = words.split()
    theirs = asked.run(f"kafka-{name}", *arguments)
    capsys.readouterr()
    status = our_tool(name, [asked.cluster.bootstrap_controllers if each == "K@" else each for each in arguments])
    out = capsys.readouterr().out
    assert (status, _told(out)) == (theirs.status, _told(theirs.out))


def _told(out: str) -> list[str]:
    """Return the lines of an output sorted, with every number replaced, since figures grow."""
    lines = (" ".join(re.sub(r"\d+", "N", line).split()) for line in without_trace(out).splitlines())
    return sorted(filter(None, lines))


def test_the_controller_says_who_it_is(asked: Asked) -> None:
    assert asked.lines("kafka-cluster", "cluster-id", "--bootstrap-controller", "K@")[0].startswith("Cluster ID: ")
    (_, controller) = asked.lines("kafka-cluster", "list-endpoints", "--bootstrap-controller", "K@")
    assert re.fullmatch(r"101 127\.0\.0\.1 \d+ null controller", controller)


def test_features_are_seen_and_changed_at_the_controller(asked: Asked) -> None:
    newest = METADATA_VERSIONS[SUPPORTED[METADATA_VERSION][1]]
    features = asked.lines("kafka-features", "--bootstrap-controller", "K@", "describe")
    assert any(
        line.startswith(
            f"Feature: metadata.version SupportedMinVersion: 3.3-IV3 SupportedMaxVersion: {newest} "
            f"FinalizedVersionLevel: {newest}"
        )
        for line in features
    )
    change = ("kafka-features", "--bootstrap-controller", "K@", "downgrade", "--feature", "share.version=0")
    assert asked.lines(*change) == ["share.version was downgraded to 0."]


def test_configs_of_brokers_are_set_at_the_controller(asked: Asked) -> None:
    alter = ("kafka-configs", "--bootstrap-controller", "K@", "--entity-type", "brokers", "--alter", "--add-config")
    assert asked.lines(*alter, "log.cleaner.threads=2", "--entity-name", "1") == [
        "Completed updating config for broker 1."
    ]
    refused = asked.run(*alter, "log.cleaner.threads=2", "--entity-name", "7")
    assert refused.status == 1
    assert "BrokerIdNotRegisteredException: No node with id 7 found." in refused.out + refused.err
    describe = ("kafka-configs", "--bootstrap-server", "B@", "--entity-type", "brokers", "--entity-name", "1")
    eventually(lambda: any("log.cleaner.threads=2" in line for line in asked.lines(*describe, "--describe")), True)


def test_leadership_is_given_back(asked: Asked, tmp_path: Path) -> None:
    create = ("kafka-topics", "--bootstrap-server", "B@", "--create", "--topic", "t", "--replica-assignment", "1:2,2:1")
    assert asked.lines(*create) == ["Created topic t."]

    def of_partition_1() -> str:
        outcome = asked.run("kafka-topics", "--bootstrap-server", "B@", "--describe", "--topic", "t")
        return next((" ".join(line.split()) for line in outcome.lines if "Partition: 1" in line), outcome.err)

    asked.cluster.broker(2).kill()
    eventually(lambda: "Leader: 1 Replicas: 2,1 Isr: 1 " in of_partition_1(), True)
    asked.cluster.broker(2).start()
    eventually(lambda: "Leader: 1 Replicas: 2,1 Isr: 1,2 " in of_partition_1(), True)
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]}))
    elect = ("kafka-leader-election", "--bootstrap-server", "B@", "--election-type", "preferred")
    assert asked.lines(*elect, "--path-to-json-file", str(wanted)) == [
        "Successfully completed leader election (PREFERRED) for partitions t-1",
        "Valid replica already elected for partitions t-0",
    ]
    eventually(lambda: "Leader: 2 Replicas: 2,1" in of_partition_1(), True)


def test_a_broker_is_unregistered(asked: Asked) -> None:
    unknown = asked.run("kafka-cluster", "unregister", "--bootstrap-controller", "K@", "--id", "9")
    assert (unknown.status, "Broker ID 9 is not currently registered" in unknown.out + unknown.err) == (1, True)
    asked.cluster.broker(2).kill()
    assert asked.lines("kafka-cluster", "unregister", "--bootstrap-server", "B@", "--id", "2") == [
        "Broker 2 is no longer registered."
    ]
    eventually(lambda: sum("broker" in line for line in asked.lines(*ENDPOINTS)), 1)
    asked.cluster.broker(2).start()
    eventually(lambda: sum("unfenced" in line for line in asked.lines(*ENDPOINTS)), 2)
