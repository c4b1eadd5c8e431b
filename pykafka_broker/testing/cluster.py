"""Several brokers, each a process of its own.

Rule: a node is a `KafkaBroker` with the settings of its place, so what a test may do to one it may do to each; what
concerns several of them is here. The controllers are nodes of their own unless there shall be none, so any broker may
be killed.

    with KafkaCluster(brokers=3) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        cluster.broker(cluster.leader_of("orders")).kill()
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pykafka_broker.testing.cluster_data import ClusterData
from pykafka_broker.testing.control_client import ControlError
from pykafka_broker.testing.formatting import cluster_id_in, format_directories, new_cluster_id
from pykafka_broker.testing.handle import BrokerError
from pykafka_broker.testing.process import KafkaBroker, config_text
from pykafka_broker.testing.waits import wait_until

CONTROLLER = "CONTROLLER"
FIRST_CONTROLLER = 100
_WAIT_S = 30.0
# What a test wants otherwise than Kafka has it: a dead broker is missed, and a slow replica given up, within seconds.
QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.backoff.ms": "100",
}


class KafkaCluster(ClusterData):
    """`brokers` nodes with the ids 1, 2, 3 ..., and one controller with the id 100; with `controllers=0` broker 1 is
    the controller as well, and the cluster lives and dies with it.

    racks: the rack of each broker. config: Kafka's broker configs for all of them; configs: more of them, by node id.
    quick: a dead broker is missed after 3 s and not after Kafka's 9 (`QUICK` has all of it); `config` goes before that.
    Without `data_dir` each node has a temporary directory, which `close` removes. port: that of broker 1, the others
    have the ones after it, the controller the last; free ones are taken where it is 0. schema_registry: whether there
    is one beside each broker. Use it with `with`.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        racks: Sequence[str] | None = None,
        controllers: int = 1,
        config: Mapping[str, object] | None = None,
        configs: Mapping[int, Mapping[str, object]] | None = None,
        quick: bool = True,
        schema_registry: bool = False,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        log_level: str = "info",
        start_timeout_s: float = 30,
    ) -> None:
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        if controllers not in (0, 1):
            raise ValueError(
                "a quorum of several controllers is Apache Kafka's: one controller, or 0 for a combined node"
            )
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers")
        self._ids = list(range(1, brokers + 1))
        self._controller_id = FIRST_CONTROLLER if controllers else 1
        self._check_nodes(configs or ())
        self.host = host
        self._port = port
        self._directory = None if data_dir is None else Path(data_dir)
        self.cluster_id = (self._directory and cluster_id_in(self._directory)) or new_cluster_id()
        self._options: dict[str, Any] = {"host": host, "log_level": log_level, "start_timeout_s": start_timeout_s}
        self._schema_registry = schema_registry
        self._common = {
            **(QUICK if quick else {}),
            **{name: config_text(value) for name, value in (config or {}).items()},
        }
        self._own = {node: dict(own) for node, own in (configs or {}).items()}
        self._reserved: list[socket.socket] = []
        self._nodes: dict[int, KafkaBroker] = {}
        self._racks = dict(zip(self._ids, racks or (), strict=False))

    def __repr__(self) -> str:
        return f"<KafkaCluster of {len(self._ids)} brokers at {self.bootstrap_servers or 'no address yet'}>"

    # -- life

    def start(self) -> Self:
        """Start all nodes at once and wait until clients may connect to each."""
        __tracebackhide__ = True
        if self._nodes:
            raise BrokerError("the cluster was already started")
        controller = self._reserve(self._port + len(self._ids) if self._port else 0)
        for node_id in {*self._ids, self._controller_id}:
            self._nodes[node_id] = self._node(node_id, controller)
        try:
            _each(self._nodes.values(), KafkaBroker.start)
        except BaseException:
            self.close()
            raise
        return self

    def _reserve(self, port: int) -> str:
        """An address that no other process is given: all nodes have to know that of the controller before it is there.
        Nobody listens here, so the node may.
        """
        reserved = socket.socket()
        self._reserved.append(reserved)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((self.host, port))
        return f"{self.host}:{reserved.getsockname()[1]}"

    def _node(self, node_id: int, controller: str) -> KafkaBroker:
        config = {
            "node.id": str(node_id),
            "process.roles": "broker",
            "controller.listener.names": CONTROLLER,
            "controller.quorum.voters": f"{self._controller_id}@{controller}",
        }
        if node_id in self._racks:
            config["broker.rack"] = self._racks[node_id]
        if node_id == self._controller_id:
            config |= self._of_controller(node_id, controller)
        config |= self._common | {name: config_text(value) for name, value in self._own.get(node_id, {}).items()}
        port = self._port + node_id - 1 if self._port and node_id in self._ids else 0
        registry = self._schema_registry and node_id in self._ids
        folder = None if self._directory is None else self._directory / f"node-{node_id}"
        node = KafkaBroker(config, data_dir=folder, port=port, schema_registry=registry, **self._options)
        format_directories({"log.dirs": str(node.data_dir), **config}, self.cluster_id)
        return node

    def _of_controller(self, node_id: int, address: str) -> dict[str, str]:
        if node_id not in self._ids:
            return {"process.roles": "controller", "listeners": f"{CONTROLLER}://{address}"}
        return {
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{self._reserve(self._port)},{CONTROLLER}://{address}",
        }

    def close(self) -> None:
        """Stop all nodes, the controller last, and remove what is temporary."""
        try:
            _each((node for id_, node in self._nodes.items() if id_ != self._controller_id), KafkaBroker.close)
            if self._controller_id in self._nodes:
                self.controller.close()
        finally:
            for reserved in self._reserved:
                reserved.close()

    def __enter__(self) -> Self:
        __tracebackhide__ = True
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and hasattr(error, "add_note"):
            for node_id, node in self._nodes.items():
                error.add_note(f"log of node {node_id}:\n{node.log}")
        self.close()

    # -- nodes

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, for a client's setting of that name."""
        return ",".join(node.bootstrap_servers for node in self.brokers)

    @property
    def schema_registry_url(self) -> str:
        """All of them, as clients want them: a comma between two."""
        return ",".join(broker.schema_registry_url for broker in self.brokers)

    @property
    def nodes(self) -> dict[int, KafkaBroker]:
        """All nodes by their ids, the controller among them."""
        return dict(sorted(self._nodes.items()))

    @property
    def brokers(self) -> list[KafkaBroker]:
        """All of them, in the order of their ids."""
        return [self._nodes[node] for node in self._ids if node in self._nodes]

    def _check_nodes(self, wanted: Iterable[int]) -> None:
        known = sorted({*self._ids, self._controller_id})
        for node_id in wanted:
            if node_id not in known:
                raise ValueError(f"there is no node {node_id!r}: {', '.join(map(str, known))}")

    def broker(self, node_id: int) -> KafkaBroker:
        """The broker of that id: `kill`, `stop`, `start`, `restart`, `pause`, `unpause`, and all else of one."""
        if node_id not in self._ids:
            raise ValueError(f"there is no broker {node_id}: {', '.join(map(str, self._ids))}")
        return self._nodes[node_id]

    @property
    def controller(self) -> KafkaBroker:
        """The node that leads the metadata."""
        return self._nodes[self._controller_id]

    def _running(self) -> KafkaBroker:
        running = next((node for node in self.brokers if node.running), None)
        if running is None:
            raise BrokerError("no broker of the cluster is running")
        return running

    def _asked(self) -> Iterator[KafkaBroker]:
        """Who knows of the cluster: the controller knows best."""
        yield from (node for node in (self.controller, *self.brokers) if node.running)

    # -- what is where

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        """Make a topic with that many replicas of each partition, as many as there are brokers up to three where
        nothing is said, and wait until all of them are in sync.
        """
        wanted = min(3, len(self._ids)) if replication_factor is None else replication_factor
        broker = self._running()
        if not self.controller.running:
            raise BrokerError(f"the controller, node {self._controller_id}, is not running: nobody makes topics")
        broker.create_topic(name, partitions, config, replication_factor=wanted)
        for partition in range(partitions):
            self.wait_for_isr(name, partition, size=wanted)

    def partition(self, topic: str, partition: int = 0) -> dict[str, Any]:
        """Leader, leader epoch, replicas and those in sync, by who knows best."""
        problem: Exception | None = None
        for node in self._asked():
            try:
                return node.partition(topic, partition)
            except (ControlError, BrokerError, OSError) as error:  # it may have ended a moment ago
                problem = error
        raise problem or BrokerError("no node of the cluster is running")

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads a partition, -1 if there is none."""
        return int(self.partition(topic, partition)["leader"])

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """The ids of the replicas in sync."""
        return list(self.partition(topic, partition)["isr"])

    def move_leader(self, topic: str, to: int, partition: int = 0) -> None:
        """Make that broker, which has to be in sync, the leader, and wait until every running broker knows."""
        state = self.controller.move_leader(topic, to, partition)

        def known() -> bool:
            found = [node.partition(topic, partition) for node in self.brokers if node.running]
            return all(each["leader_epoch"] >= state["leader_epoch"] for each in found)

        wait_until(known, lambda: f"not all brokers know the leader of {topic}-{partition}", _WAIT_S)

    def wait_for_isr(
        self,
        topic: str,
        partition: int = 0,
        *,
        size: int | None = None,
        nodes: Collection[int] | None = None,
        timeout_s: float = _WAIT_S,
    ) -> list[int]:
        """Wait until so many replicas, or exactly those, are in sync, and their leader has heard of it; all that there
        are where nothing is said. Raises WaitTimeout.
        """

        wanted = (
            f"exactly {sorted(nodes)}" if nodes is not None else "all of them" if size is None else f"{size} of them"
        )
        state: dict[str, Any] = {"replicas": "unknown", "isr": "unknown"}

        def reached() -> bool:
            state.update(self.partition(topic, partition))
            if nodes is not None:
                found = set(state["isr"]) == set(nodes)
            else:
                found = len(state["isr"]) == (len(state["replicas"]) if size is None else size)
            return found and self._leader_knows(topic, partition, state)

        def told() -> str:
            return f"of replicas {state['replicas']} of {topic}-{partition} {state['isr']} are in sync, not {wanted}"

        wait_until(reached, told, timeout_s)
        return self.isr(topic, partition)

    def wait_for_leader(
        self, topic: str, partition: int = 0, *, other_than: int | None = None, timeout_s: float = _WAIT_S
    ) -> int:
        """Wait until a partition has a leader that knows it, another than that one if it is given; returns its id."""

        leader: list[int] = []

        def led() -> bool:
            state = self.partition(topic, partition)
            leader[:] = [int(state["leader"])]
            return leader[0] not in (-1, other_than) and self._leader_knows(topic, partition, state)

        def told() -> str:
            still = " still" if leader == [other_than] else ""
            return f"the leader of {topic}-{partition} is{still} {leader[0] if leader else 'unknown'}"

        wait_until(led, told, timeout_s)
        return self.leader_of(topic, partition)

    def _leader_knows(self, topic: str, partition: int, state: Mapping[str, Any]) -> bool:
        """Whether the leader, which hears of it after the controller, acts by that state. Where no broker of the
        cluster leads, nobody is waited for.
        """
        node = self._nodes.get(state["leader"])
        if node is None or not node.running:
            return True
        known = node.partition(topic, partition)
        return known["leader_epoch"] == state["leader_epoch"] and set(known["isr"]) == set(state["isr"])

    # -- the network between them

    def partition_network(self, *sides: Iterable[int]) -> None:
        """Cut nodes off from those of other sides: `partition_network({1}, {2, 3, 100})`. A node that is on no side
        keeps all its connections. Clients are not concerned. `heal_network` ends it.
        """
        apart = [frozenset(side) for side in sides]
        for number, side in enumerate(apart):
            self._check_nodes(side)
            if twice := side & frozenset[int]().union(*apart[:number]):
                raise ValueError(f"node {min(twice)} is on two sides")
        if len(apart) < 2:
            raise ValueError("there must be two sides at least: partition_network({1}, {2, 3, 100})")
        self.heal_network()
        for side in apart:
            others = sorted(frozenset[int]().union(*apart) - side)
            for node_id in sorted(side):
                node = self._nodes[node_id]
                if node.running:
                    node.cut_off(others)

    def heal_network(self) -> None:
        """Let all nodes reach each other again."""
        for node in self._nodes.values():
            if node.running:
                with suppress(ControlError):
                    node.rejoin()


def _each(nodes: Iterable[KafkaBroker], step: Callable[[KafkaBroker], object]) -> None:
    """Do it with all of them at the same time; raises the first error."""
    listed = list(nodes)
    with ThreadPoolExecutor(max(1, len(listed))) as pool:
        for _ in pool.map(step, listed):
            pass
