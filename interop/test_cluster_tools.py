"""Apache Kafka's command-line tools against three brokers of ours and their controller, as an operator types them.

Rule: a tool is told all brokers, or the controller; what it prints is what it prints of a Kafka cluster in that state.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from interop.java_tools import JavaTools, Outcome
from interop.waiting import eventually
from pykafka_broker.testing import KafkaCluster

pytestmark = [pytest.mark.java, pytest.mark.ours_only]

PATIENCE_S = 60.0
CONTROLLER_ID = 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {"min.insync.replicas": 2, "offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}
    with KafkaCluster(brokers=3, racks=["a", "b", "c"], config=config) as running:
        yield running


@pytest.fixture(autouse=True)
def whole_again(cluster: KafkaCluster) -> Iterator[None]:
    yield
    cluster.heal_network()
    for node in cluster.nodes.values():
        if not node.running:
            node.start()


class Shell:
    """A shell for tools that have to succeed.

    A tool starts once every running broker knows what the controller has decided: the tool asks any of the brokers.
    `at`: the options with the cluster's addresses. Most tools want them before the other arguments, kafka-cluster wants
    them behind.
    """

    def __init__(self, java: JavaTools, cluster: KafkaCluster, at: Sequence[str]) -> None:
        self.jvm, self.at, self._cluster = java, at, cluster

    def attempt(self, tool: str, *arguments: str, stdin: str = "") -> Outcome:
        self._cluster.wait_for_metadata(PATIENCE_S)
        behind = tool == "kafka-cluster"
        return self.jvm.run(tool, *(() if behind else self.at), *arguments, *(self.at if behind else ()), stdin=stdin)

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> Outcome:
        outcome = self.attempt(tool, *arguments, stdin=stdin)
        assert outcome.status == 0, f"{tool}: {outcome.out}{outcome.err}"
        return outcome


@pytest.fixture(scope="module")
def sh(java: JavaTools, cluster: KafkaCluster) -> Shell:
    return Shell(java, cluster, ("--bootstrap-server", cluster.bootstrap_servers))


@pytest.fixture(scope="module")
def at_controller(java: JavaTools, cluster: KafkaCluster) -> Shell:
    return Shell(java, cluster, ("--bootstrap-controller", cluster.controller.bootstrap_servers))


def make(sh: Shell, topic: str, assignment: str) -> None:
    sh("kafka-topics", "--create", "--topic", topic, "--replica-assignment", assignment)
    # the broker that is asked may not have heard of the topic yet
    eventually(lambda: _led(sh.attempt("kafka-topics", "--describe", "--topic", topic)), True, PATIENCE_S)


def _led(described: Outcome) -> bool:
    return described.status == 0 and "Leader: none" not in described.out


def row(sh: Shell, topic: str, partition: int = 0) -> tuple[str, str, list[str]]:
    """Return a partition's leader, replicas and in-sync replicas, as kafka-topics prints them."""
    text = sh("kafka-topics", "--describe", "--topic", topic).out
    pattern = rf"Partition: {partition}\tLeader: (\S+)\tReplicas: (\S*)\tIsr: (\S*)\t"
    [(leader, replicas, isr)] = re.findall(pattern, text)
    return leader, replicas, sorted(isr.split(","))


def test_topics_have_replicas(sh: Shell) -> None:
    sh("kafka-topics", "--create", "--topic", "wide", "--partitions", "3", "--replication-factor", "3")
    eventually(lambda: {row(sh, "wide", each)[0] for each in range(3)}, {"1", "2", "3"}, PATIENCE_S)
    assert all(row(sh, "wide", each)[2] == ["1", "2", "3"] for each in range(3))
    too_many = sh.attempt("kafka-topics", "--create", "--topic", "wider", "--replication-factor", "4")
    assert too_many.status == 1
    assert "replication factor of 4 cannot be reached because only 3 broker(s) are registered" in too_many.out


def test_a_dead_broker_shows_in_what_is_described(sh: Shell, cluster: KafkaCluster) -> None:
    make(sh, "whole", "3:1:2")
    make(sh, "alone", "3")
    by_state = ("kafka-topics", "--describe", "--exclude-internal")
    assert sh(*by_state, "--under-replicated-partitions").out.strip() == ""
    cluster.broker(3).kill()
    eventually(lambda: row(sh, "whole"), ("1", "3,1,2", ["1", "2"]), PATIENCE_S)
    assert re.search(r"Topic: whole\tPartition: 0\tLeader: 1\t", sh(*by_state, "--under-replicated-partitions").out)
    [unavailable] = sh(*by_state, "--unavailable-partitions").out.strip().splitlines()
    assert "Topic: alone\tPartition: 0\tLeader: none\tReplicas: 3\tIsr: \tElr: 3\tLastKnownElr: 3" in unavailable
    assert "Topic: alone" in sh(*by_state, "--under-min-isr-partitions").out
    assert "Topic: whole" in sh(*by_state, "--at-min-isr-partitions").out
    states = endpoints(sh, "--include-fenced-brokers")
    assert states == {"1": "unfenced", "2": "unfenced", "3": "fenced"}
    assert set(endpoints(sh)) == {"1", "2"}
    cluster.broker(3).start()
    eventually(lambda: sh(*by_state, "--under-replicated-partitions").out.strip(), "", PATIENCE_S)


def endpoints(sh: Shell, *options: str) -> dict[str, str]:
    lines = [line.split() for line in sh("kafka-cluster", "list-endpoints", *options).lines]
    return {line[0]: line[4] for line in lines if line[0].isdigit()}


def test_leaders_are_elected(sh: Shell, cluster: KafkaCluster) -> None:
    make(sh, "elected", "2:1:3")
    one = ("--topic", "elected", "--partition", "0")
    preferred = ("kafka-leader-election", "--election-type", "preferred")
    assert "Valid replica already elected for partitions elected-0" in sh(*preferred, *one).out
    cluster.move_leader("elected", 1)
    assert "Successfully completed leader election (PREFERRED) for partitions elected-0" in sh(*preferred, *one).out
    eventually(lambda: row(sh, "elected")[0], "2", PATIENCE_S)
    unclean = ("kafka-leader-election", "--election-type", "unclean")
    assert "Valid replica already elected for partitions elected-0" in sh(*unclean, *one).out
    assert sh(*preferred, "--all-topic-partitions").status == 0


def test_an_unclean_leader_is_elected_by_hand(sh: Shell, cluster: KafkaCluster) -> None:
    sh(
        "kafka-topics",
        "--create",
        "--topic",
        "lossy",
        "--replica-assignment",
        "2:3",
        "--config",
        "min.insync.replicas=1",
    )
    eventually(lambda: row(sh, "lossy"), ("2", "2,3", ["2", "3"]), PATIENCE_S)
    cluster.broker(3).kill()
    eventually(lambda: row(sh, "lossy"), ("2", "2,3", ["2"]), PATIENCE_S)
    cluster.broker(2).kill()
    eventually(lambda: row(sh, "lossy")[0], "none", PATIENCE_S)
    one = ("kafka-leader-election", "--topic", "lossy", "--partition", "0", "--election-type")
    refused = sh.attempt(*one, "unclean")
    assert refused.status == 1
    assert "EligibleLeadersNotAvailableException" in refused.out
    cluster.broker(3).start()
    sh(*one, "unclean")
    eventually(lambda: row(sh, "lossy"), ("3", "2,3", ["3"]), PATIENCE_S)
    cluster.broker(2).start()
    eventually(lambda: row(sh, "lossy"), ("3", "2,3", ["2", "3"]), PATIENCE_S)


def planned(directory: Path, topic: str, *replicas: list[int]) -> tuple[str, ...]:
    """Return the command kafka-reassign-partitions with a plan for these replicas of each partition."""
    moves = [{"topic": topic, "partition": number, "replicas": homes} for number, homes in enumerate(replicas)]
    plan = directory / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    return "kafka-reassign-partitions", "--reassignment-json-file", str(plan)


def test_a_reassignment_from_its_plan_to_its_end(sh: Shell, tmp_path: Path) -> None:
    make(sh, "moved", "1:2,2:3")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moved"}]}))
    generate = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3")
    present, proposed = re.findall(r"^\{.*\}$", sh("kafka-reassign-partitions", *generate).out, re.MULTILINE)
    assert [each["replicas"] for each in json.loads(present)["partitions"]] == [[1, 2], [2, 3]]
    assert all(len(each["replicas"]) == 2 for each in json.loads(proposed)["partitions"])
    plan = planned(tmp_path, "moved", [3, 2], [1, 3])
    said = sh(*plan, "--execute", "--throttle", "10000000").out
    assert "Successfully started partition reassignments for moved-0,moved-1" in said
    eventually(lambda: sh(*plan, "--verify", "--preserve-throttles").out.count("is completed."), 2, PATIENCE_S)
    throttled = ("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "moved")
    assert "follower.replication.throttled.replicas=0:3,1:1 " in sh(*throttled).out
    assert "leader.replication.throttled.replicas=0:1,0:2,1:2,1:3 " in sh(*throttled).out
    assert "Clearing topic-level throttles on topic moved" in sh(*plan, "--verify").out
    eventually(lambda: "throttled" in sh(*throttled).out, False, PATIENCE_S)
    assert row(sh, "moved", 0)[1:] == ("3,2", ["2", "3"])
    assert row(sh, "moved", 1)[1:] == ("1,3", ["1", "3"])
    assert "No partition reassignments found." in sh("kafka-reassign-partitions", "--list").out


def test_a_reassignment_that_is_cancelled(sh: Shell, cluster: KafkaCluster, tmp_path: Path) -> None:
    make(sh, "stays", "1:2")
    cluster.partition_network({1}, {3})  # so that broker 3 gets none of it
    plan = planned(tmp_path, "stays", [3, 2])
    sh(*plan, "--execute")
    assert "stays-0: replicas: 3,2,1. adding: 3. removing: 1." in sh("kafka-reassign-partitions", "--list").out
    assert "Reassignment of partition stays-0 is still in progress." in sh(*plan, "--verify").out
    again = sh.attempt(*plan, "--execute")
    assert again.status == 1
    assert "there is an existing partition assignment" in again.out
    cancelled = sh(*plan, "--cancel", "--preserve-throttles").out
    assert "Successfully cancelled partition reassignment for: stays-0" in cancelled
    eventually(lambda: sorted(row(sh, "stays")[1].split(",")), ["1", "2"], PATIENCE_S)
    assert "None of the specified partition reassignments are active." in sh(*plan, "--cancel").out


def fill(cluster: KafkaCluster, topic: str, records: int) -> None:
    """Write records of a kilobyte to the first partition of a topic."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for _ in range(records):
        producer.produce(topic, bytes(1000), partition=0)
    assert producer.flush(PATIENCE_S) == 0


def test_a_throttled_reassignment_takes_its_time(sh: Shell, cluster: KafkaCluster, tmp_path: Path) -> None:
    make(sh, "slow", "1:2")
    fill(cluster, "slow", 3000)
    plan = planned(tmp_path, "slow", [1, 3])
    begun = time.monotonic()
    sh(*plan, "--execute", "--throttle", "300000")
    rate = ("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "3")
    assert "follower.replication.throttled.rate=300000 " in sh(*rate).out
    eventually(lambda: row(sh, "slow"), ("1", "1,3", ["1", "3"]), PATIENCE_S)
    assert time.monotonic() - begun > 3  # ten seconds, but for what Kafka lets through at once
    assert "Clearing broker-level throttles on brokers 1,2,3" in sh(*plan, "--verify").out
    eventually(lambda: "throttled" in sh(*rate).out, False, PATIENCE_S)


def test_a_throttle_may_be_raised_meanwhile(sh: Shell, cluster: KafkaCluster, tmp_path: Path) -> None:
    make(sh, "raised", "1:3")
    fill(cluster, "raised", 3000)
    plan = planned(tmp_path, "raised", [1, 2])
    sh(*plan, "--execute", "--throttle", "1000")
    assert "Reassignment of partition raised-0 is still in progress." in sh(*plan, "--verify").out
    assert "raised-0: replicas: 1,2,3. adding: 2. removing: 3." in sh("kafka-reassign-partitions", "--list").out
    sh(*plan, "--execute", "--additional", "--throttle", "100000000")
    eventually(lambda: row(sh, "raised"), ("1", "1,2", ["1", "2"]), PATIENCE_S)
    sh(*plan, "--verify")


def test_reassignments_that_can_not_be(sh: Shell, tmp_path: Path) -> None:
    make(sh, "fixed", "1:2")
    unknown = sh.attempt(*planned(tmp_path, "fixed", [3, 9]), "--execute")
    assert "Unknown broker id 9" in unknown.out
    no_topic = sh.attempt(*planned(tmp_path, "nowhere", [3, 1]), "--execute")
    assert "Topic nowhere not found" in no_topic.out
    assert (unknown.status, no_topic.status) == (1, 1)


@pytest.mark.parametrize("asked", ["sh", "at_controller"])
def test_the_quorum_has_observers(asked: str, request: pytest.FixtureRequest) -> None:
    shell: Shell = request.getfixturevalue(asked)
    status = dict(re.findall(r"(\w+):\s+(.*)", shell("kafka-metadata-quorum", "describe", "--status").out))
    assert status["LeaderId"] == str(CONTROLLER_ID)
    assert f'"id": {CONTROLLER_ID}' in status["CurrentVoters"]
    assert sorted(each["id"] for each in json.loads(status["CurrentObservers"])) == [1, 2, 3]
    lines = [line.split() for line in shell("kafka-metadata-quorum", "describe", "--replication").lines[1:]]
    assert sorted((line[0], line[-1]) for line in lines if line) == [
        ("1", "Observer"), ("100", "Leader"), ("2", "Observer"), ("3", "Observer"),
    ]  # fmt: skip


def test_endpoints_of_brokers_and_of_the_controller(sh: Shell, at_controller: Shell) -> None:
    assert endpoints(sh) == {"1": "unfenced", "2": "unfenced", "3": "unfenced"}
    [line] = [line.split() for line in at_controller("kafka-cluster", "list-endpoints").lines if line[:1].isdigit()]
    assert (line[0], line[-1]) == (str(CONTROLLER_ID), "controller")
    told = sh("kafka-cluster", "cluster-id").out
    assert told == at_controller("kafka-cluster", "cluster-id").out != ""


def test_a_broker_is_unregistered(sh: Shell, cluster: KafkaCluster) -> None:
    cluster.broker(3).stop()
    assert "Broker 3 is no longer registered." in sh("kafka-cluster", "unregister", "--id", "3").out
    eventually(lambda: set(endpoints(sh, "--include-fenced-brokers")), {"1", "2"}, PATIENCE_S)
    unknown = sh.attempt("kafka-cluster", "unregister", "--id", "9")
    assert "Broker ID 9 is not currently registered" in unknown.out + unknown.err
    cluster.broker(3).start()
    eventually(lambda: set(endpoints(sh)), {"1", "2", "3"}, PATIENCE_S)


def test_features(sh: Shell, at_controller: Shell) -> None:
    def level(shell: Shell) -> str:
        told = re.search(r"streams\.version\s.*FinalizedVersionLevel: (\d)", shell("kafka-features", "describe").out)
        return "" if told is None else told[1]

    assert at_controller("kafka-features", "downgrade", "--feature", "streams.version=0").status == 0
    eventually(lambda: (level(sh), level(at_controller)), ("0", "0"), PATIENCE_S)
    sh("kafka-features", "upgrade", "--feature", "streams.version=1")
    eventually(lambda: (level(sh), level(at_controller)), ("1", "1"), PATIENCE_S)


def test_log_dirs_of_all_brokers(sh: Shell) -> None:
    make(sh, "dirs", "1:2:3")
    answer = json.loads(sh("kafka-log-dirs", "--describe", "--topic-list", "dirs").lines[-1])
    found = {
        each["broker"]: [one["partition"] for one in each["logDirs"][0]["partitions"]] for each in answer["brokers"]
    }
    assert found == {1: ["dirs-0"], 2: ["dirs-0"], 3: ["dirs-0"]}


def test_configs_of_one_broker_and_of_all(sh: Shell, at_controller: Shell) -> None:
    one, every = ("--entity-type", "brokers", "--entity-name", "2"), ("--entity-type", "brokers", "--entity-default")
    sh("kafka-configs", "--alter", *one, "--add-config", "log.cleaner.threads=2")
    sh("kafka-configs", "--alter", *every, "--add-config", "log.retention.ms=99999999")
    describe = "kafka-configs", "--describe"
    eventually(lambda: "log.cleaner.threads=2 " in sh(*describe, *one).out, True, PATIENCE_S)
    assert "log.cleaner.threads" not in sh(*describe, "--entity-type", "brokers", "--entity-name", "1").out
    for broker in "123":
        told = (*describe, "--entity-type", "brokers", "--entity-name", broker, "--all")
        eventually(
            lambda told=told: "{DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=99999999" in sh(*told).out,  # type: ignore[misc]
            True,
            PATIENCE_S,
        )
    at_controller("kafka-configs", "--alter", *every, "--add-config", "log.retention.ms=88888888")
    eventually(lambda: "log.retention.ms=88888888" in sh(*describe, *every).out, True, PATIENCE_S)
    static = at_controller(*describe, "--entity-type", "brokers", "--entity-name", str(CONTROLLER_ID), "--all").out
    assert f"node.id={CONTROLLER_ID} " in static
    sh("kafka-configs", "--alter", *one, "--delete-config", "log.cleaner.threads")
    sh("kafka-configs", "--alter", *every, "--delete-config", "log.retention.ms")


@pytest.mark.parametrize("change", ["log.cleaner.threads=nine", "node.id=7", "num.io.threads=1000"])
@pytest.mark.parametrize("entity", [("--entity-name", "2"), ("--entity-default",)])
def test_a_broker_refuses_what_it_could_not_live_with(sh: Shell, entity: tuple[str, ...], change: str) -> None:
    refused = sh.attempt("kafka-configs", "--alter", "--entity-type", "brokers", *entity, "--add-config", change)
    assert refused.status == 1
    assert change.partition("=")[0] in refused.out + refused.err


def test_versions_of_every_broker(sh: Shell) -> None:
    told = re.findall(r"\(id: (\d+) rack: (\w) isFenced: false\) -> \(", sh("kafka-broker-api-versions").out)
    assert sorted(told) == [("1", "a"), ("2", "b"), ("3", "c")]


def test_offsets_of_partitions_anywhere(sh: Shell) -> None:
    make(sh, "offsets", "1:2:3,2:3:1,3:1:2")
    sh("kafka-console-producer", "--topic", "offsets", stdin="a\nb\nc\n")
    lines = sh("kafka-get-offsets", "--topic", "offsets").lines
    assert [line.rpartition(":")[0] for line in lines] == ["offsets:0", "offsets:1", "offsets:2"]
    assert sum(int(line.rpartition(":")[2]) for line in lines) == 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_every_coordinator(sh: Shell, protocol: str) -> None:
    topic = f"read-{protocol}"
    make(sh, topic, "1:2:3")
    sh("kafka-console-producer", "--topic", topic, stdin="a\nb\nc\n")
    groups = [f"{protocol}-{number}" for number in range(3)]
    for group in groups:
        read = sh(
            "kafka-console-consumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3",
            "--command-property", f"group.protocol={protocol}",
        )  # fmt: skip
        assert read.lines == ["a", "b", "c"]
    assert set(groups) <= set(sh("kafka-consumer-groups", "--list").lines)
    for group in groups:
        [line] = [
            line.split() for line in sh("kafka-consumer-groups", "--describe", "--group", group).lines if topic in line
        ]
        assert line[:6] == [group, topic, "0", "3", "3", "0"]
    states = sh("kafka-consumer-groups", "--describe", "--all-groups", "--state").out
    assert all(re.search(rf"^{group} ", states, re.MULTILINE) for group in groups)
    to_start = ("--reset-offsets", "--to-earliest", "--execute", "--topic", topic, "--group", groups[0])
    assert sh("kafka-consumer-groups", *to_start).status == 0
    deleted = [part for group in groups for part in ("--group", group)]
    sh("kafka-consumer-groups", "--delete", *deleted)
    assert not set(groups) & set(sh("kafka-consumer-groups", "--list").lines)


def test_transactions_of_every_coordinator(sh: Shell, cluster: KafkaCluster) -> None:
    make(sh, "bought", "1:2:3")
    producers = []
    for number in range(3):
        settings = {"transactional.id": f"till-{number}", "transaction.timeout.ms": 600_000, "log_level": 0}
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("bought", b"x", partition=0)
        producer.flush()
        producers.append(producer)
    listed = sh("kafka-transactions", "list").out
    assert sorted(re.findall(r"^(till-\d)\s+\d+\s+\d+\s+Ongoing", listed, re.MULTILINE)) == [
        "till-0",
        "till-1",
        "till-2",
    ]
    described = sh("kafka-transactions", "describe", "--transactional-id", "till-1").out
    assert re.search(r"till-1\s.*Ongoing.*bought-0", described)
    for broker in "123":
        told = sh(
            "kafka-transactions", "describe-producers", "--topic", "bought", "--partition", "0", "--broker-id", broker
        )
        assert len(told.lines) == 4
        assert (
            sh("kafka-transactions", "find-hanging", "--broker-id", broker, "--max-transaction-timeout", "15").status
            == 0
        )
    for producer in producers:
        producer.commit_transaction(PATIENCE_S)
    assert "Ongoing" not in sh("kafka-transactions", "list").out
