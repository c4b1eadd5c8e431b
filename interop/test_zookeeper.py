"""A broker in a real ZooKeeper: its nodes beside those of old releases, and their tools and consumers.

The short form asks with the tools of 2.8.2 alone, and writes as the older ones do; `--slow` runs these.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from interop.raw import RawClient
from interop.test_old_releases import folder_of
from interop.waiting import eventually
from interop.zookeeper import Tree, mirror_maker, old_tool, real_zookeeper
from interop.zookeeper_record import RECORDED, named, number
from pykafka_broker.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from pykafka_broker.testing import BrokerError, KafkaBroker, KafkaCluster

pytestmark = pytest.mark.ours_only

NODES: dict[str, dict[str, Any]] = json.loads(RECORDED.read_bytes())
TOPICS, CONFIGS = "kafka.admin.TopicCommand", "kafka.admin.ConfigCommand"
NUMBER = count()
NewBroker = Callable[..., KafkaBroker]


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[str]:
    with real_zookeeper() as address:
        yield address


@pytest.fixture
def tree(zookeeper: str) -> Iterator[Tree]:
    with Tree(zookeeper, f"/test/{next(NUMBER)}") as tree:
        yield tree


@pytest.fixture
def new_broker(tree: Tree) -> Iterator[NewBroker]:
    with contextlib.ExitStack() as running:

        def start(emulate: str = "2.8", **config: str) -> KafkaBroker:
            settings = {"zookeeper.connect": tree.connect, **config}
            return running.enter_context(KafkaBroker(settings, emulate=emulate))

        yield start


def write(tree: Tree, path: str, content: Any) -> None:
    """Create or change a node in ZooKeeper, as tools do."""
    data = json.dumps(content).encode()
    if not tree.has(path):
        tree.client.create(path, data, makepath=True)
    else:
        tree.client.set(path, data)


def write_topic(tree: Tree, name: str, assignment: dict[str, list[int]], **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    write(tree, f"/config/topics/{name}", {"version": 1, "config": settings})
    tree.client.create(f"/brokers/topics/{name}", json.dumps({"version": 1, "partitions": assignment}).encode())


def write_config(tree: Tree, path: str, config: dict[str, str], release: str) -> None:
    write(tree, f"/config/{path}", {"version": 1, "config": config})
    kind, _, name = path.partition("/")
    since_0_9 = {"version": 1, "entity_type": kind, "entity_name": name}
    note: Any = {"version": 2, "entity_path": path} if number(release) >= (0, 10, 1) else since_0_9
    tree.client.create("/config/changes/config_change_", json.dumps(note).encode(), sequence=True)


@pytest.mark.parametrize("release", NODES)
def test_nodes_are_those_of_the_release(release: str, tree: Tree, new_broker: NewBroker) -> None:
    broker = new_broker(release)
    write_topic(tree, "made", {"0": [1], "1": [1]}, retention_ms="1000")
    for path in ("clients/app", "clients/an%20app"):
        if f"/config/{path}" in NODES[release]:
            write_config(tree, path, {"producer_byte_rate": "1024"}, release)
    if number(release) >= (0, 10, 1):
        write_config(tree, "users/ann/clients/<default>", {"consumer_byte_rate": "2048"}, release)
    eventually(lambda: named(tree.all(), str(broker.port)), NODES[release])


def test_topics_by_the_tools_of_a_release(tree: Tree, new_broker: NewBroker) -> None:
    tools_of_topics("2.8.2", "2.8", tree, new_broker)


@pytest.mark.slow
@pytest.mark.parametrize(("release", "emulate"), [("1.1.1", "1.1"), ("0.10.2.2", "0.10.2"), ("0.8.2.2", "0.8")])
def test_topics_by_the_tools_of_older_releases(release: str, emulate: str, tree: Tree, new_broker: NewBroker) -> None:
    tools_of_topics(release, emulate, tree, new_broker)


def tools_of_topics(release: str, emulate: str, tree: Tree, new_broker: NewBroker) -> None:
    broker = new_broker(emulate, **{"delete.topic.enable": "true"})  # before 1.0 nothing was deleted by default

    def tool(*arguments: str) -> str:
        return old_tool(release, TOPICS, "--zookeeper", tree.connect, *arguments)

    broker.create_topic("ours", 2)
    eventually(lambda: tree.has("/brokers/topics/ours/partitions/1/state"), True)
    assert tool("--list").split() == ["ours"]
    described = tool("--describe", "--topic", "ours")
    assert "Partition: 1\tLeader: 1\tReplicas: 1\tIsr: 1" in described

    config = ("--config", "retention.ms=1000")
    tool("--create", "--topic", "theirs", "--partitions", "2", "--replication-factor", "1", *config)
    eventually(lambda: [topic["name"] for topic in broker.topics()], ["ours", "theirs"])
    assert broker.topic("theirs")["config"]["retention.ms"] == "1000"

    tool("--alter", "--topic", "theirs", "--partitions", "3")
    eventually(lambda: broker.topic("theirs")["partitions"], 3)
    eventually(lambda: tree.children("/brokers/topics/theirs/partitions"), ["0", "1", "2"])

    tool("--delete", "--topic", "theirs")
    eventually(lambda: [topic["name"] for topic in broker.topics()], ["ours"])
    for path in ("/brokers/topics/theirs", "/config/topics/theirs", "/admin/delete_topics/theirs"):
        eventually(partial(tree.has, path), False)


def test_what_the_broker_changes_is_shown(tree: Tree, new_broker: NewBroker) -> None:
    broker = new_broker()
    broker.create_topic("made", config={"retention.ms": "1000"})
    eventually(lambda: tree.json("/config/topics/made"), {"version": 1, "config": {"retention.ms": "1000"}})
    assert tree.children("/config/changes") == []
    broker.alter_config("made", {"retention.ms": "2000"})
    eventually(lambda: tree.json("/config/topics/made"), {"version": 1, "config": {"retention.ms": "2000"}})
    note = {"version": 2, "entity_path": "topics/made"}
    eventually(lambda: tree.json("/config/changes/config_change_0000000000"), note)
    broker.add_partitions("made", total=2)
    eventually(lambda: tree.json("/brokers/topics/made")["partitions"], {"0": [1], "1": [1]})
    broker.delete_topic("made")
    eventually(lambda: tree.has("/brokers/topics/made"), False)
    eventually(lambda: tree.has("/config/topics/made"), False)
    broker.create_topic("before.the.reset")
    eventually(lambda: tree.children("/brokers/topics"), ["before.the.reset"])
    broker.reset()
    eventually(lambda: tree.children("/brokers/topics"), [])
    broker.create_topic("after")
    eventually(lambda: tree.has("/brokers/topics/after/partitions/0/state"), True)


def test_nodes_go_with_the_session_and_topics_stay(tree: Tree, new_broker: NewBroker) -> None:
    broker = new_broker(**{"zookeeper.session.timeout.ms": "1500"})  # it may end once before, where a machine stalls
    broker.create_topic("kept", 2, config={"retention.ms": "1000"})
    eventually(lambda: tree.has("/brokers/topics/kept/partitions/1/state"), True)
    broker.kill()
    eventually(lambda: tree.children("/brokers/ids"), [])
    eventually(lambda: tree.has("/controller"), False)
    epoch = tree.json("/controller_epoch")
    assert tree.has("/brokers/topics/kept")
    # Another broker, whose disk is empty: as with Kafka, the topics are those in ZooKeeper.
    with KafkaBroker({"zookeeper.connect": tree.connect}, emulate="2.8") as another:
        eventually(lambda: [topic["name"] for topic in another.topics()], ["kept"])
        assert another.topic("kept")["config"]["retention.ms"] == "1000"
        assert another.topic("kept")["partitions"] == 2
        assert tree.json("/controller_epoch") == epoch + 1
    assert tree.children("/brokers/ids") == []  # a broker that stops leaves ZooKeeper at once


def test_a_session_that_has_expired_is_followed_by_another(tree: Tree, new_broker: NewBroker) -> None:
    broker = new_broker(**{"zookeeper.session.timeout.ms": "3000"})  # no stall of the machine ends it a second time
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        eventually(lambda: tree.has("/brokers/ids/1"), False)
        write_topic(tree, "meanwhile", {"0": [1]})
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    eventually(lambda: tree.children("/brokers/ids"), ["1"])
    eventually(lambda: [topic["name"] for topic in broker.topics()], ["meanwhile"])
    assert tree.json("/controller_epoch") == 2
    tree.client.delete("/controller")  # operators do so to force an election
    eventually(lambda: tree.json("/controller_epoch"), 3)
    assert tree.json("/controller")["brokerid"] == 1


def test_configs_by_the_tool(tree: Tree, new_broker: NewBroker) -> None:
    tools_of_configs("2.8.2", tree, new_broker)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["1.1.1", "0.10.2.2"])
def test_configs_by_older_tools(release: str, tree: Tree, new_broker: NewBroker) -> None:
    tools_of_configs(release, tree, new_broker)


def tools_of_configs(release: str, tree: Tree, new_broker: NewBroker) -> None:
    broker = new_broker("2.8")
    broker.create_topic("made", config={"retention.ms": "1000", "segment.ms": "5000"})
    eventually(lambda: tree.json("/config/topics/made") is None, False)

    def tool(*arguments: str) -> str:
        return old_tool(release, CONFIGS, "--zookeeper", tree.connect, *arguments)

    on_topic = ("--entity-type", "topics", "--entity-name", "made")
    tool("--alter", *on_topic, "--add-config", "retention.ms=2000", "--delete-config", "segment.ms")
    eventually(lambda: broker.topic("made")["config"].get("retention.ms"), "2000")
    assert "segment.ms" not in broker.topic("made")["config"]
    with RawClient(broker.bootstrap_servers) as client:

        def quotas() -> Any:
            asked = DescribeClientQuotasRequest([ComponentData("user", 0, "a b")])
            entries = client.call(asked, 0).entries or []
            return {value.key: value.value for entry in entries for value in entry.values}

        on_user = ("--entity-type", "users", "--entity-name", "a b")
        tool("--alter", *on_user, "--add-config", "producer_byte_rate=1024")
        eventually(quotas, {"producer_byte_rate": 1024.0})
        tool("--alter", *on_user, "--delete-config", "producer_byte_rate")
        eventually(quotas, {})


def test_reassignment_and_election(tree: Tree) -> None:
    with KafkaCluster(3, config={"zookeeper.connect": tree.connect}, emulate="2.8") as cluster:
        eventually(lambda: tree.children("/brokers/ids"), ["1", "2", "3"])
        write_topic(tree, "made", {"0": [1, 2]})
        state = "/brokers/topics/made/partitions/0/state"
        eventually(lambda: (tree.json(state) or {}).get("isr"), [1, 2])
        moved = {"topic": "made", "partition": 0, "replicas": [3, 1]}
        write(tree, "/admin/reassign_partitions", {"version": 1, "partitions": [moved]})
        eventually(lambda: tree.json("/brokers/topics/made")["partitions"], {"0": [3, 1]})
        eventually(lambda: tree.has("/admin/reassign_partitions"), False)
        eventually(lambda: sorted(tree.json(state)["isr"]), [1, 3])
        cluster.move_leader("made", 1)
        eventually(lambda: tree.json(state)["leader"], 1)
        write(
            tree, "/admin/preferred_replica_election", {"version": 1, "partitions": [{"topic": "made", "partition": 0}]}
        )
        eventually(lambda: tree.json(state)["leader"], 3)
        eventually(lambda: tree.has("/admin/preferred_replica_election"), False)
        # Another broker is the controller once this one has gone.
        first = tree.json("/controller")["brokerid"]
        cluster.brokers[first - 1].stop()
        eventually(lambda: (tree.json("/controller") or {}).get("brokerid") in {1, 2, 3} - {first}, True)
        eventually(lambda: tree.json("/controller_epoch"), 2)
        write_topic(tree, "after", {"0": [max({1, 2, 3} - {first})]})
        eventually(lambda: tree.has("/brokers/topics/after/partitions/0/state"), True)


@pytest.mark.slow
@pytest.mark.parametrize("release", ["2.8.2", "1.1.1", "0.10.2.2", "0.8.2.2"])
def test_reassignment_and_election_by_tools(release: str, tree: Tree, tmp_path: Path) -> None:
    state, plan, elected = "/brokers/topics/made/partitions/0/state", tmp_path / "plan.json", tmp_path / "elected.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "made", "partition": 0, "replicas": [3, 1]}]}')
    elected.write_text('{"partitions": [{"topic": "made", "partition": 0}]}')

    def reassign(action: str) -> str:
        where = ("--zookeeper", tree.connect, "--reassignment-json-file", str(plan))
        return old_tool(release, "kafka.admin.ReassignPartitionsCommand", *where, action).lower()

    with KafkaCluster(3, config={"zookeeper.connect": tree.connect}, emulate="2.8") as cluster:
        eventually(lambda: tree.children("/brokers/ids"), ["1", "2", "3"])
        write_topic(tree, "made", {"0": [1, 2]})
        eventually(lambda: (tree.json(state) or {}).get("isr"), [1, 2])
        assert "successfully started" in reassign("--execute")
        eventually(lambda: tree.json("/brokers/topics/made")["partitions"], {"0": [3, 1]})
        eventually(lambda: tree.has("/admin/reassign_partitions"), False)
        verified = reassign("--verify")
        assert (
            "made-0 is complete" in verified
            or "[made,0] completed successfully" in verified
            or ("made-0 completed successfully" in verified)
        ), verified
        cluster.move_leader("made", 1)
        eventually(lambda: tree.json(state)["leader"], 1)
        where = ("--zookeeper", tree.connect, "--path-to-json-file", str(elected))
        old_tool(release, "kafka.admin.PreferredReplicaLeaderElectionCommand", *where)
        eventually(lambda: tree.json(state)["leader"], 3)
        eventually(lambda: tree.has("/admin/preferred_replica_election"), False)


def test_what_is_refused_is_logged_and_taken_away(tree: Tree, new_broker: NewBroker) -> None:
    broker = new_broker(**{"delete.topic.enable": "false"})
    broker.create_topic("made")
    eventually(lambda: tree.has("/brokers/topics/made"), True)
    tree.client.create("/admin/delete_topics/made", b"")
    tree.client.create("/admin/delete_topics/unknown", b"")
    write(
        tree,
        "/admin/reassign_partitions",
        {"version": 1, "partitions": [{"topic": "made", "partition": 0, "replicas": [9]}]},
    )
    write_topic(tree, "nowhere", {"0": [7]})
    tree.client.create("/brokers/topics/rubbish", b"no JSON")
    for path in ("/admin/delete_topics/made", "/admin/delete_topics/unknown", "/admin/reassign_partitions"):
        eventually(partial(tree.has, path), False)
    eventually(lambda: "/brokers/topics/nowhere in ZooKeeper is refused" in broker.log, True)
    assert [topic["name"] for topic in broker.topics()] == ["made"]
    assert "a defect" not in broker.log


def test_no_zookeeper_ends_the_start() -> None:
    settings = {"zookeeper.connect": "127.0.0.1:1/kafka", "zookeeper.connection.timeout.ms": "500"}
    with pytest.raises(BrokerError, match="no ZooKeeper answers within 500 ms"):
        KafkaBroker(settings).start()


def test_a_broker_with_the_same_id_is_refused(tree: Tree, new_broker: NewBroker) -> None:
    new_broker()
    times = {"zookeeper.connection.timeout.ms": "30000", "zookeeper.session.timeout.ms": "1000"}
    with pytest.raises(BrokerError, match="/brokers/ids/1 in ZooKeeper belongs to another broker"):
        KafkaBroker({"zookeeper.connect": tree.connect, **times}, emulate="2.8").start()


# -- consumers with their groups in ZooKeeper

VALUES = [f"value {index}" for index in range(20)]


def broker_with_records(new_broker: NewBroker, emulate: str) -> KafkaBroker:
    broker = new_broker(emulate)
    broker.create_topic("made", 2)
    broker.produce("made", [{"value": value, "partition": index % 2} for index, value in enumerate(VALUES)])
    return broker


@pytest.mark.slow
@pytest.mark.parametrize("emulate", ["0.8", "2.8"])
def test_the_scala_consumer_of_0_8(emulate: str, tree: Tree, new_broker: NewBroker, tmp_path: Path) -> None:
    broker_with_records(new_broker, emulate)
    eventually(lambda: tree.has("/brokers/topics/made/partitions/1/state"), True)
    config = tmp_path / "consumer.properties"
    config.write_text("group.id=scala\n")  # a consumer without a group of its own deletes its nodes
    where = ("--zookeeper", tree.connect, "--topic", "made", "--consumer.config", str(config), "--from-beginning")
    printed = old_tool("0.8.2.2", "kafka.tools.ConsoleConsumer", *where, "--max-messages", str(len(VALUES)))
    assert sorted(line for line in printed.splitlines() if line.startswith("value")) == sorted(VALUES)
    offsets = {index: tree.json(f"/consumers/scala/offsets/made/{index}") for index in ("0", "1")}
    assert offsets == {"0": 10, "1": 10}


@pytest.mark.slow
def test_mirror_maker_1(tree: Tree, new_broker: NewBroker) -> None:
    source = broker_with_records(new_broker, "0.8")
    eventually(lambda: tree.has("/brokers/topics/made/partitions/1/state"), True)
    with (
        KafkaBroker(emulate="0.8") as target,
        mirror_maker("0.8.2.2", tree, "mirror", target.bootstrap_servers, "made"),
    ):
        eventually(lambda: sorted(record.value for record in copied(target)), sorted(VALUES), 60)
        source.produce("made", [{"value": "later", "partition": 0}])
        eventually(lambda: "later" in [record.value for record in copied(target)], True, 60)
    assert tree.json("/consumers/mirror/offsets/made/0") == 11


def copied(broker: KafkaBroker) -> list[Any]:
    return broker.records("made") if any(topic["name"] == "made" for topic in broker.topics()) else []


BALANCED = """
import sys
from pykafka import KafkaClient
from pykafka.common import OffsetType
bootstrap, zookeeper = sys.argv[1:]
client = KafkaClient(hosts=bootstrap)
topic = client.topics[b"made"]
settings = {"consumer_group": b"balanced", "auto_offset_reset": OffsetType.EARLIEST, "consumer_timeout_ms": 20_000}
consumer = topic.get_balanced_consumer(zookeeper_connect=zookeeper, **settings)
values = sorted(consumer.consume().value.decode() for _ in range(20))
assert sorted(consumer.held_offsets) == [0, 1], consumer.held_offsets
assert values == sorted("value %d" % index for index in range(20)), values
consumer.stop()
"""


@pytest.mark.slow
def test_the_balanced_consumer_of_pykafka(tree: Tree, new_broker: NewBroker) -> None:
    broker = broker_with_records(new_broker, "2.8")
    eventually(lambda: tree.has("/brokers/topics/made/partitions/1/state"), True)
    command = [sys.executable, "-W", "ignore", "-c", BALANCED, broker.bootstrap_servers, tree.connect]
    environment = {**os.environ, "PYTHONPATH": str(folder_of("pykafka", "2.8.0"))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert tree.children("/consumers/balanced/owners/made") == []  # the consumer gives its partitions back at its end
