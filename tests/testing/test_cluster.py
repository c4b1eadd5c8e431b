"""A cluster for tests: what it is made of. What it does is in interop/test_cluster.py."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykafka_broker.platform import KILL
from pykafka_broker.testing import BrokerError, ControlError, KafkaBroker, KafkaCluster, WaitTimeout
from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster
from pykafka_broker.testing.cluster import cluster_id_in, format_directories, new_cluster_id
from pykafka_broker.testing.cluster_traffic import ClusterTraffic
from pykafka_broker.testing.data import NotReached, poll
from tests.testing.test_process import wait_until_gone


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"brokers": 0}, "at least one broker"),
        ({"controllers": 3}, "controllers must be 1, or 0 for a controller on broker 1, not 3"),
        ({"brokers": 3, "racks": ["a", "b"]}, "2 racks for 3 brokers"),
        ({"brokers": 2, "configs": {3: {"num.partitions": 3}}}, "there is no node 3: 1, 2, 100"),
    ],
)
def test_what_can_t_be_made_is_refused(wish: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        KafkaCluster(**wish)  # type: ignore[arg-type]


def test_a_cluster_that_was_not_started_has_no_node() -> None:
    cluster = KafkaCluster(brokers=2)
    with pytest.raises(ValueError, match="there is no broker 3: 1, 2"):
        cluster.broker(3)
    assert cluster.brokers == []
    cluster.close()


@pytest.mark.parametrize(
    ("sides", "says"),
    [
        (({1}, {9}), "there is no node 9: 1, 2, 100"),
        (({1, 2}, {2}), "node 2 is on two sides"),
        (({1},), "there must be two sides at least"),
        ((set(), {1}), "a side has no nodes"),
        ((), "there must be two sides at least"),
    ],
)
def test_a_network_that_would_not_be_cut_is_refused(sides: tuple[set[int], ...], says: str) -> None:
    cluster = KafkaCluster(brokers=2)
    with pytest.raises(ValueError, match=says):
        cluster.partition_network(*sides)
    cluster.close()


@pytest.mark.parametrize(
    "use",
    [
        lambda cluster: cluster.bootstrap_servers,
        lambda cluster: cluster.schema_registry_url,
        lambda cluster: cluster.client_config("confluent"),
        lambda cluster: cluster.controller,
        lambda cluster: cluster.broker(1),
        lambda cluster: cluster.partition_network({1}, {2}),
        lambda cluster: cluster.trouble(),
        lambda cluster: cluster.befall("kill", 1),
        lambda cluster: cluster.reset(),
        lambda cluster: cluster.snapshot("s"),
        lambda cluster: cluster.create_topic("orders"),
    ],
)
def test_a_cluster_that_is_not_started_says_so(use: Callable[[KafkaCluster], object]) -> None:
    cluster = KafkaCluster(brokers=2)
    assert repr(cluster) == "<KafkaCluster of 2 brokers at no address yet>"
    with pytest.raises(BrokerError, match=r"^the cluster is not started: use `with`, or start\(\)$"):
        use(cluster)
    cluster.close()


def test_what_did_not_come_says_how_it_is_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KafkaCluster(brokers=2)
    state = {"leader": 1, "leader_epoch": 0, "replicas": [1, 2], "isr": [1]}
    monkeypatch.setattr(cluster, "partition", lambda topic, partition: state)
    with pytest.raises(
        WaitTimeout, match=r"after 0 s of replicas \[1, 2\] of orders-0 \[1\] are in sync, expected all of them"
    ):
        cluster.wait_for_isr("orders", timeout=0)
    with pytest.raises(WaitTimeout, match="after 0 s the leader of orders-0 is still 1"):
        cluster.wait_for_leader("orders", other_than=1, timeout=0)
    for wrong in ("1", cluster, 9):  # every leader is another one
        with pytest.raises(ValueError, match=f"^there is no node {re.escape(repr(wrong))}: 1, 2, 100$"):
            cluster.wait_for_leader("orders", other_than=cast("Any", wrong))
        with pytest.raises(ValueError, match="there is no node"):
            cluster.wait_for_isr("orders", nodes=[cast("Any", wrong)])
    assert cluster.wait_for_leader("orders", other_than=-1) == 1
    cluster.close()


def test_what_the_leader_has_not_heard_of_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KafkaCluster(brokers=2)
    told = {"leader": 1, "leader_epoch": 3, "replicas": [1, 2], "isr": [1]}
    known = [told | {"isr": [1, 2]}, told | {"leader_epoch": 2}, told | {"isr": [2, 1]}, told]
    leader = SimpleNamespace(running=True, partition=lambda topic, partition: known.pop(0))
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "partition", lambda topic, partition: told)
        patched.setattr(cluster, "isr", lambda topic, partition: told["isr"])
        patched.setitem(cluster._nodes, 1, cast(KafkaBroker, leader))
        assert cluster.wait_for_isr("orders", nodes=[1]) == [1]
        assert known == []
        known += [told | {"leader_epoch": 2}, told]
        patched.setattr(cluster, "leader_of", lambda topic, partition: 1)
        assert cluster.wait_for_leader("orders") == 1
        assert known == []
        patched.setitem(cluster._nodes, 1, cast(KafkaBroker, SimpleNamespace(running=False)))
        with pytest.raises(WaitTimeout, match=r"\[1\] are in sync, expected 1 of them"):
            cluster.wait_for_isr("orders", size=1, timeout=0)
        told["leader"] = -1  # the last replica in sync stays in the ISR
        assert cluster.wait_for_isr("orders", size=1) == [1]
    cluster.close()


def test_a_killed_broker_is_not_in_sync_though_the_controller_is_yet_to_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KafkaCluster(brokers=2)
    state = {"leader": 1, "leader_epoch": 3, "replicas": [1, 2], "isr": [1, 2]}
    leader = SimpleNamespace(running=True, partition=lambda topic, partition: state)
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "partition", lambda topic, partition: state)
        patched.setitem(cluster._nodes, 1, cast(KafkaBroker, leader))
        patched.setitem(cluster._nodes, 2, cast(KafkaBroker, SimpleNamespace(running=False)))
        for wanted in (None, 2):
            with pytest.raises(WaitTimeout, match=r"\[1, 2\] are in sync"):
                cluster.wait_for_isr("orders", size=wanted, timeout=0)
        patched.setitem(cluster._nodes, 2, cast(KafkaBroker, SimpleNamespace(running=True)))
        assert cluster.wait_for_isr("orders") == [1, 2]
    cluster.close()


def test_a_node_that_ends_while_it_is_asked_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KafkaCluster(brokers=1, controllers=0)

    def asked(topic: str, partition: int) -> object:
        raise ConnectionResetError

    monkeypatch.setattr(cluster, "partition", asked)
    with pytest.raises(WaitTimeout, match="is unknown"):
        cluster.wait_for_leader("orders", timeout=0)
    cluster.close()


@pytest.mark.linux("/proc tells when a process is gone")
@pytest.mark.parametrize("number", [signal.SIGTERM, KILL])
def test_nothing_stays_of_a_cluster_whose_test_run_is_killed(tmp_path: Path, number: int) -> None:
    code = """if True:
        from pykafka_broker.testing import KafkaCluster
        with KafkaCluster(brokers=1, controllers=0) as cluster:
            print(cluster.broker(1).pid, flush=True)
            input()
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert list(tmp_path.iterdir())
        parent.send_signal(number)
    wait_until_gone(pid)
    assert list(tmp_path.iterdir()) == []


def test_all_nodes_end_whatever_one_of_them_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KafkaCluster(1, in_process=True).start()
    broker, controller = cluster.broker(1), cluster.controller

    def stop(timeout: float = 30) -> None:
        KafkaBroker.stop(broker)
        raise BrokerError("as if it had not ended in time")

    monkeypatch.setattr(broker, "stop", stop)
    with pytest.raises(BrokerError, match="as if it had not ended"):
        cluster.close()
    assert not controller.running
    assert not any(node._cleanup.alive for node in (broker, controller))


def test_a_closed_cluster_says_so_like_a_closed_broker() -> None:
    cluster = KafkaCluster()
    cluster._make_nodes()
    cluster.close()
    for begin in (cluster.start, cluster.__enter__):
        with pytest.raises(BrokerError, match="the cluster is closed"):
            begin()
    with pytest.raises(BrokerError, match="the cluster is closed"):
        asyncio.run(AsyncKafkaCluster.of(cluster).__aenter__())


def test_a_start_without_its_port_leaves_no_port_reserved() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cluster = KafkaCluster(1, port=taken.getsockname()[1] - 1)  # the controller has the next one
        with pytest.raises(OSError, match="in use"):
            cluster.start()
    assert [each.fileno() for each in cluster._reserved] == [-1]


def test_a_given_directory_has_a_folder_for_each_node(tmp_path: Path) -> None:
    with KafkaCluster(brokers=1, data_dir=tmp_path) as cluster:
        cluster_id = cluster.cluster_id
    assert sorted(each.name for each in tmp_path.iterdir()) == ["node-1", "node-100"]
    assert KafkaCluster(brokers=1, data_dir=tmp_path).cluster_id == cluster_id


def test_a_directory_of_another_layout_is_refused(tmp_path: Path) -> None:
    with KafkaCluster(brokers=1, controllers=0, data_dir=tmp_path) as cluster:
        cluster.create_topic("kept")
    with pytest.raises(ValueError, match="has the data of a cluster with its controller on broker 1"):
        KafkaCluster(brokers=1, data_dir=tmp_path)
    (tmp_path / "node-100" / "__cluster_metadata-0").mkdir(parents=True)
    with pytest.raises(ValueError, match="with its controller in a process of its own"):
        KafkaCluster(brokers=1, controllers=0, data_dir=tmp_path)
    (tmp_path / "node-3" / "__cluster_metadata-0").mkdir(parents=True)
    with pytest.raises(ValueError, match="it has the data of 3 brokers, which is more than 2"):
        KafkaCluster(brokers=2, data_dir=tmp_path)
    KafkaCluster(brokers=4, data_dir=tmp_path)
    with pytest.raises(ValueError, match=r"a comma separates directories in log\.dirs"):
        KafkaCluster(brokers=1, data_dir=tmp_path / "a,b")


def test_a_directory_that_can_t_be_formatted_is_named(tmp_path: Path) -> None:
    (tmp_path / "node-1").write_text("no directory")
    with pytest.raises(BrokerError, match=r"node-1: No available log directories to format\."):
        KafkaCluster(brokers=1, data_dir=tmp_path).start()


def test_a_list_is_a_setting_of_a_cluster_too() -> None:
    with KafkaCluster(brokers=1, controllers=0, config={"log.cleanup.policy": ["compact", "delete"]}) as cluster:
        assert cluster.broker(1).config["log.cleanup.policy"] == "compact,delete"


def test_the_broker_that_has_the_records_is_named() -> None:
    with KafkaCluster(brokers=2) as cluster:
        cluster.create_topic("orders")
        leader = cluster.leader_of("orders")
        other = cluster.broker(3 - leader)
        cluster.broker(leader).produce("orders", ["1"])
        for ask in (lambda: other.produce("orders", ["2"]), lambda: other.records("orders")):
            with pytest.raises(
                ControlError, match=f"broker {leader} leads orders-0: ask broker {leader}, or the cluster"
            ):
                ask()


def test_each_directory_of_a_node_is_formatted_once(tmp_path: Path) -> None:
    config = {"node.id": "2", "process.roles": "broker", "log.dirs": f"{tmp_path}/a, {tmp_path}/b"}
    cluster_id = new_cluster_id()
    format_directories(config, cluster_id)
    first = {name: (tmp_path / name / "meta.properties").read_text() for name in "ab"}
    for text in first.values():
        assert f"cluster.id={cluster_id}" in text
        assert "node.id=2" in text
    assert first["a"] != first["b"]  # each has an id of its own
    format_directories(config, cluster_id)
    assert {name: (tmp_path / name / "meta.properties").read_text() for name in "ab"} == first
    assert cluster_id_in(tmp_path) == cluster_id
    assert cluster_id_in(tmp_path / "nowhere") is None


def test_a_leader_that_is_not_running_is_none() -> None:
    """The controller takes a killed broker for the leader until its session is over."""
    with KafkaCluster(3, in_process=True) as cluster:
        cluster.create_topic("orders")
        leader = cluster.leader_of("orders")
        cluster.clock.freeze()
        cluster.broker(leader).kill()
        assert cluster.leader_of("orders") == leader
        with pytest.raises(WaitTimeout, match=f"the leader of orders-0 is still {leader}, which has ended$"):
            cluster.wait_for_leader("orders", timeout=0)
        cluster.clock.resume()
        assert cluster.wait_for_leader("orders") != leader


def test_the_clock_moves_while_the_network_is_partitioned() -> None:
    """A broker on a side without the controller is fenced, and no other one."""
    with KafkaCluster(3, in_process=True) as cluster:
        cluster.create_topic("orders")
        leader = cluster.leader_of("orders")
        cluster.partition_network({leader}, {*cluster.nodes} - {leader})
        cluster.clock.advance(seconds=10)
        assert [each["node_id"] for each in cluster.controller.cluster()["brokers"] if each["fenced"]] == [leader]
        cluster.wait_for_leader("orders", other_than=leader)
        cluster.clock.advance(hours=1)  # at once
        assert cluster.leader_of("orders") != leader
        assert {*cluster.isr("orders")} == {1, 2, 3} - {leader}
        cluster.heal_network()
        cluster.wait_for_isr("orders", size=3)
        cluster.clock.advance(seconds=10)
        assert not any(each["fenced"] for each in cluster.controller.cluster()["brokers"])


def test_a_node_that_starts_again_is_still_cut_off() -> None:
    def wait_for_fenced(*brokers: int) -> None:
        def fenced() -> None:
            found = [each["node_id"] for each in cluster.controller.cluster()["brokers"] if each["fenced"]]
            if found != [*brokers]:
                raise NotReached(f"fenced are {found}")

        poll(fenced, "the brokers are unknown", 60)

    with KafkaCluster(2, in_process=True) as cluster:
        cluster.partition_network({1}, {2, 100})
        cluster.broker(1).kill()
        cluster.broker(1).start()
        wait_for_fenced(1)
        cluster.calm()
        wait_for_fenced()


def test_what_fails_at_one_node_is_undone_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*args: object) -> None:
        raise ConnectionResetError("it has gone")

    with KafkaCluster(2, in_process=True) as cluster:
        cluster.create_topic("orders")
        last = cluster.broker(2)
        with monkeypatch.context() as patch:
            patch.setattr(last, "cut_off", gone, raising=False)
            with pytest.raises(ConnectionResetError):
                cluster.partition_network({1}, {2}, {100})
        assert cluster._sides == []
        with monkeypatch.context() as patch:
            patch.setattr(last, "rejoin", gone, raising=False)
            cluster.partition_network({1}, {2, 100})
            cluster.heal_network()
        cluster.clock.advance(seconds=10)  # all are heard of
        with monkeypatch.context() as patch:
            patch.setattr(ClusterTraffic, "_brokers_that_run", lambda self: {1: self.broker(1), 2: _NoFaults()})
            with pytest.raises(ConnectionResetError):
                cluster.faults.add(api="Produce", error="UNKNOWN_SERVER_ERROR")
        assert cluster.faults.all() == []


class _NoFaults:
    """A broker that ends before it has a fault."""

    @property
    def faults(self) -> None:
        raise ConnectionResetError("it has gone")
