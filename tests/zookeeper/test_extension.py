"""A broker and a ZooKeeper in memory: the changes that each sees of the other, and the end of a session."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from interop.waiting import eventually
from pykafka_broker.testing import BrokerError, KafkaBroker
from pykafka_broker.zookeeper import extension
from tests.zookeeper.fake import FakeClient, FakeZooKeeper

SETTINGS = {"zookeeper.connect": "host:2181,other:2181/kafka/here", "zookeeper.session.timeout.ms": "1000"}
ROOT = "/kafka/here"


class Tool:
    """An old tool, which reads and writes nodes."""

    def __init__(self, zookeeper: FakeZooKeeper) -> None:
        self.client = zookeeper.client()
        self.client.chroot = ROOT

    def json(self, path: str) -> Any:
        return json.loads(self.client.get(path)[0] or b"null") if self.client.exists(path) else None

    def children(self, path: str) -> list[str]:
        return sorted(self.client.get_children(path))

    def write(self, path: str, content: Any) -> None:
        data = json.dumps(content).encode()
        if self.client.exists(path):
            self.client.set(path, data)
        else:
            self.client.create(path, data)

    def note(self, path: str) -> None:
        data = json.dumps({"version": 2, "entity_path": path}).encode()
        self.client.create("/config/changes/config_change_", data, sequence=True)


@pytest.fixture
def zookeeper(monkeypatch: pytest.MonkeyPatch) -> FakeZooKeeper:
    made = FakeZooKeeper()
    monkeypatch.setattr(extension, "KazooClient", made.client)
    return made


@pytest.fixture
def sessions(zookeeper: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch) -> list[FakeClient]:
    made: list[FakeClient] = []

    def client(hosts: str, timeout: float) -> FakeClient:
        assert (hosts, timeout) == ("host:2181,other:2181", 1.0)
        made.append(zookeeper.client())
        return made[-1]

    monkeypatch.setattr(extension, "KazooClient", client)
    return made


@pytest.fixture
def broker(zookeeper: FakeZooKeeper, sessions: list[FakeClient]) -> Iterator[KafkaBroker]:
    with KafkaBroker(SETTINGS, emulate="2.8", in_process=True) as started:
        yield started


@pytest.fixture
def tool(zookeeper: FakeZooKeeper) -> Tool:
    return Tool(zookeeper)


def names(broker: KafkaBroker) -> Callable[[], list[str]]:
    return lambda: [topic["name"] for topic in broker.topics()]


def test_a_broker_is_there_before_clients_connect_and_gone_when_it_stops(broker: KafkaBroker, tool: Tool) -> None:
    assert tool.json("/brokers/ids/1")["port"] == broker.port
    assert tool.json("/controller")["brokerid"] == 1
    assert tool.json("/controller_epoch") == 1
    assert tool.json("/cluster/id")["id"] == broker.cluster()["cluster_id"]
    broker.stop()
    assert tool.children("/brokers/ids") == []
    assert not tool.client.exists("/controller")


def test_topics_are_shown_and_go(broker: KafkaBroker, tool: Tool) -> None:
    broker.create_topic("made", 2, config={"retention.ms": "1000"})
    eventually(lambda: (tool.json("/brokers/topics/made/partitions/1/state") or {}).get("leader"), 1)
    assert tool.json("/brokers/topics/made")["partitions"] == {"0": [1], "1": [1]}
    assert tool.json("/config/topics/made") == {"version": 1, "config": {"retention.ms": "1000"}}
    broker.alter_config("made", {"retention.ms": None})
    eventually(lambda: tool.children("/config/changes"), ["config_change_0000000000"])
    broker.delete_topic("made")
    eventually(lambda: tool.children("/brokers/topics") + tool.children("/config/topics"), [])


def test_topics_of_a_tool(broker: KafkaBroker, tool: Tool) -> None:
    tool.write("/config/topics/theirs", {"version": 1, "config": {"retention.ms": "1000"}})
    tool.write("/brokers/topics/theirs", {"version": 1, "partitions": {"0": [1]}})
    eventually(names(broker), ["theirs"])
    assert broker.topic("theirs")["config"]["retention.ms"] == "1000"
    eventually(lambda: tool.client.exists("/brokers/topics/theirs/partitions/0/state") is None, False)
    tool.write("/brokers/topics/theirs", {"version": 1, "partitions": {"0": [1], "1": [1]}})
    eventually(lambda: broker.topic("theirs")["partitions"], 2)
    eventually(lambda: tool.json("/brokers/topics/theirs")["version"], 3)  # written by the broker again
    tool.client.create("/admin/delete_topics/theirs")
    eventually(names(broker), [])
    eventually(lambda: tool.children("/admin/delete_topics"), [])


def test_settings_of_a_tool_and_old_notifications(broker: KafkaBroker, zookeeper: FakeZooKeeper, tool: Tool) -> None:
    broker.create_topic("made", config={"retention.ms": "1000"})
    eventually(lambda: tool.json("/config/topics/made") is None, False)
    zookeeper.wall_ms -= 16 * 60 * 1000  # as if the notifications had been there for longer than Kafka keeps them
    tool.write("/config/topics/made", {"version": 1, "config": {"segment.ms": "5"}})
    tool.note("topics/made")
    eventually(lambda: broker.topic("made")["config"].get("segment.ms"), "5")
    assert "retention.ms" not in broker.topic("made")["config"]
    eventually(lambda: tool.children("/config/changes"), [])
    for nonsense in ("topics/unknown", "no/such/thing", "users"):
        tool.note(nonsense)
    eventually(lambda: tool.children("/config/changes"), [])
    assert "a defect" not in broker.log


def test_credentials_stay_where_they_are(broker: KafkaBroker, tool: Tool) -> None:
    scram = {"SCRAM-SHA-256": "salt=eA==,stored_key=eA==,server_key=eA==,iterations=4096"}
    tool.write("/config/users/ann", {"version": 1, "config": {"producer_byte_rate": "1024", **scram}})
    tool.note("users/ann")
    eventually(lambda: len(tool.children("/config/changes")), 1)
    broker.create_topic("later")  # in a later step than the quota
    eventually(lambda: tool.client.exists("/brokers/topics/later/partitions/0/state") is None, False)
    for note in tool.children("/config/changes"):
        tool.client.delete(f"/config/changes/{note}")
    tool.client.delete("/controller")  # everything is shown again
    eventually(lambda: tool.json("/controller_epoch"), 2)
    broker.create_topic("last")
    eventually(lambda: tool.client.exists("/brokers/topics/last/partitions/0/state") is None, False)
    assert tool.json("/config/users/ann")["config"] == {"producer_byte_rate": "1024", **scram}


def test_clients_are_served_while_zookeeper_does_not_answer(
    broker: KafkaBroker, zookeeper: FakeZooKeeper, tool: Tool
) -> None:
    with zookeeper.lock:  # which every call of the broker's thread waits for
        for index in range(3):
            broker.create_topic(f"made{index}")
        broker.produce("made0", ["a value"])
        assert [record.value for record in broker.records("made0")] == ["a value"]
        assert tool.children("/brokers/topics") == []
    eventually(lambda: tool.children("/brokers/topics"), ["made0", "made1", "made2"])


def test_a_session_that_has_expired_comes_back_with_what_was_written_meanwhile(
    broker: KafkaBroker, sessions: list[FakeClient], tool: Tool
) -> None:
    [of_broker] = sessions
    of_broker.renew()
    eventually(lambda: tool.json("/controller_epoch"), 2)
    eventually(lambda: tool.children("/brokers/ids"), ["1"])
    tool.write("/brokers/topics/theirs", {"version": 1, "partitions": {"0": [1]}})
    eventually(names(broker), ["theirs"])


def test_another_controller_is_left_in_peace(zookeeper: FakeZooKeeper, sessions: list[FakeClient], tool: Tool) -> None:
    tool.client.ensure_path("/brokers/topics")
    tool.client.create("/controller", b'{"brokerid":9}', ephemeral=True)
    with KafkaBroker(SETTINGS, emulate="2.8", in_process=True) as broker:
        tool.write("/brokers/topics/theirs", {"version": 1, "partitions": {"0": [1]}})
        broker.create_topic("ours")
        assert tool.children("/brokers/ids") == ["1"]
        assert (tool.children("/brokers/topics"), names(broker)()) == (["theirs"], ["ours"])
        tool.client.delete("/controller")
        eventually(names(broker), ["ours", "theirs"])
        eventually(lambda: tool.client.exists("/brokers/topics/ours/partitions/0/state") is None, False)


def test_elections_and_reassignments(broker: KafkaBroker, tool: Tool) -> None:
    broker.create_topic("made")
    wanted = {"version": 1, "partitions": [{"topic": "made", "partition": 0, "replicas": [1]}]}
    for path in ("/admin/reassign_partitions", "/admin/preferred_replica_election"):
        tool.write(path, wanted)
        eventually(partial(tool.client.exists, path), None)


def test_a_reassignment_that_no_request_can_name_ends(broker: KafkaBroker, tool: Tool) -> None:
    """Tools take the node for a reassignment in progress, and refuse to begin another one."""
    broker.create_topic("made")
    partitions = [{"topic": "made", "partition": 0, "replicas": [1 << 40]}]
    tool.write("/admin/reassign_partitions", {"version": 1, "partitions": partitions})
    eventually(partial(tool.client.exists, "/admin/reassign_partitions"), None)


def test_a_reset_empties_zookeeper_too(broker: KafkaBroker, tool: Tool) -> None:
    broker.create_topic("before")
    eventually(lambda: tool.children("/brokers/topics"), ["before"])
    broker.reset()
    eventually(lambda: tool.children("/brokers/topics"), [])


def test_no_zookeeper_ends_the_start(zookeeper: FakeZooKeeper, sessions: list[FakeClient]) -> None:
    zookeeper.is_reachable = False
    with pytest.raises(BrokerError, match="no ZooKeeper answers within 1000 ms"):
        KafkaBroker(SETTINGS, emulate="2.8", in_process=True).start()


def test_an_id_that_is_taken_ends_the_start(zookeeper: FakeZooKeeper, sessions: list[FakeClient], tool: Tool) -> None:
    tool.client.ensure_path("/brokers/ids")
    tool.client.create("/brokers/ids/1", ephemeral=True)
    with pytest.raises(BrokerError, match="/brokers/ids/1 in ZooKeeper belongs to another broker"):
        KafkaBroker(SETTINGS, emulate="2.8", in_process=True).start()


def test_without_its_library_the_start_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("pykafka_broker.zookeeper")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [each for each in sys.modules if each.partition(".")[0] == "kazoo"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kazoo", None)
    with pytest.raises(BrokerError, match="needs the library kazoo, of the extra zookeeper"):
        KafkaBroker(SETTINGS, in_process=True).start()
