"""Clusters of several processes, each node either Apache Kafka or ours, from the same kind of server.properties.

Rule: every node has a directory with its file, its data and its log, is formatted once, and may be stopped, killed,
paused and started again by itself. Sessions are short, so that a death is noticed while a test waits.

    with KafkaCluster(tmp_path, controllers=[THEIRS], brokers=[OURS, OURS, THEIRS]) as cluster:
        cluster.broker(2).kill()
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from enum import Enum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from interop import ROOT
from interop.cluster_clients import brokers_told_by
from interop.guard import Guard
from interop.jars import KAFKA_VERSION
from interop.java import QUICK_JVM, java_command, kafka_classpath
from interop.real_kafka import CLUSTER_ID, answers_api_versions, free_port, run_format
from interop.waiting import eventually
from pykafka_broker.config.properties import format_properties
from tests.releases.other import OTHER_VERSION, emulated, number


class Kind(Enum):
    """The program that a node runs."""

    THEIRS = "Apache Kafka"
    OTHER = "Apache Kafka, the other release"
    OURS = "pykafka-broker"

    @property
    def release(self) -> str:
        """Return the version of Kafka that a node runs."""
        return OTHER_VERSION if self is Kind.OTHER else KAFKA_VERSION


THEIRS, OTHER, OURS = Kind.THEIRS, Kind.OTHER, Kind.OURS

FIRST_CONTROLLER = 101
FIRST_BROKER = 1
_EVERY_NODE = {
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "replica.fetch.wait.max.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "background.threads": "2",
    "num.network.threads": "1",
    "num.io.threads": "2",
}
# Settings of a cluster without kills: no broker is fenced for being slow, so each partition keeps its leader.
NOBODY_DIES = {"broker.session.timeout.ms": "30000"}
_HEAPS = {"controller": "96m", "broker": "160m"}
_START_SECONDS = 180.0


class Node:
    """A node of a cluster: one process. `port` is the port for clients; for a controller, the port for its peers."""

    # The JVM options of a node of Kafka's: a test needs a quick start in little memory, and no speed.
    jvm: Sequence[str] = QUICK_JVM
    heaps: Mapping[str, str] = _HEAPS

    def __init__(self, kind: Kind, role: str, node_id: int, port: int, directory: Path, config: Mapping[str, str]):
        self.kind = kind
        self.id = node_id
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.directory = directory
        self.log_path = directory / "node.log"
        self.properties = directory / "server.properties"
        self.process: subprocess.Popen[bytes] | None = None
        self._role = role
        self._guard: Guard | None = None
        directory.mkdir(parents=True)
        self.properties.write_text(format_properties(config))

    def __repr__(self) -> str:
        return f"node {self.id} ({self.kind.value})"

    def format(self, *options: str, cluster_id: str = CLUSTER_ID) -> None:
        """Format with our command for both: it leaves what kafka-storage leaves (test_format.py)."""
        run_format(["format", "-c", str(self.properties), "-t", cluster_id, *options])

    @property
    def command(self) -> list[str]:
        if self.kind is OURS:
            return [sys.executable, "-P", "-m", "pykafka_broker", "--log-level", "info", str(self.properties)]
        heap = self.heaps[self._role]
        memory = [f"-Xmx{heap}", f"-Xms{heap}", *self.jvm]
        return java_command(*memory, "-cp", kafka_classpath(self.kind.release), "kafka.Kafka", str(self.properties))

    def launch(self) -> None:
        """Start the node without waiting for it."""
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, start_new_session=True, env=_environment()
            )
        self._guard = Guard(self.process.pid)

    def start(self, timeout_s: float = _START_SECONDS) -> None:
        self.launch()
        self.wait_until_it_answers(timeout_s)

    def wait_until_it_answers(self, timeout_s: float = _START_SECONDS) -> None:
        deadline = time.monotonic() + timeout_s
        while not answers_api_versions(self.port):
            if not self.runs or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self} did not start:\n{self.log[-3000:]}")
            time.sleep(0.02)

    def replica_bytes(self, topic: str, partition: int) -> bytes:
        """Return all segments of a replica, one after the other."""
        folder = self.directory / "data-0" / f"{topic}-{partition}"
        return b"".join(segment.read_bytes() for segment in sorted(folder.glob("*.log")))

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def stop(self, timeout_s: float = 30) -> int:
        """Stop the node as an operator does; return its exit code."""
        return self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        self._end(signal.SIGKILL, 10)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the node: it hears and says nothing, and its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def _end(self, number: int, timeout_s: float) -> int:
        code = 0
        if self.process is not None:
            if self.process.poll() is None:
                self._signal(number)
                self._signal(signal.SIGCONT)
            try:
                code = self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                code = self.process.wait()
            self.process = None
        if self._guard is not None:
            self._guard.release()
            self._guard = None
        return code


def _environment() -> dict[str, str]:
    """Return the environment of a node.

    Variables that begin with KAFKA_ are left out: a broker would take the tests' own for its settings. Our nodes run
    this clone, wherever else the package is installed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    return {**kept, "PYTHONPATH": str(ROOT)}


class KafkaCluster:
    """A cluster of controllers, with the ids from 101 on, and brokers, with the ids from 1 on.

    `dynamic`: the quorum has kraft.version 1 (KIP-853), and nodes know addresses instead of voters. `racks` and
    `config` are the racks and settings of brokers, `each` further settings by node id. `host` is the name of this
    machine in the nodes' addresses.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        controllers: Sequence[Kind] = (THEIRS,),
        brokers: Sequence[Kind] = (),
        racks: Sequence[str] = (),
        dynamic: bool = False,
        log_dirs: int = 1,
        config: Mapping[str, str] | None = None,
        each: Mapping[int, Mapping[str, str]] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self._owns_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="kafka-cluster-"))
        self._config = dict(config or {})
        self._each = dict(each or {})
        self._host = host
        self._log_dirs = log_dirs
        self._dynamic = dynamic
        ports = [free_port() for _ in controllers]
        ids = range(FIRST_CONTROLLER, FIRST_CONTROLLER + len(controllers))
        voters = [f"{node_id}@{host}:{port}" for node_id, port in zip(ids, ports, strict=True)]
        self._quorum = (
            {"controller.quorum.bootstrap.servers": ",".join(f"{host}:{port}" for port in ports)}
            if dynamic
            else {"controller.quorum.voters": ",".join(voters)}
        )
        self.controllers = [
            self._controller(kind, node_id, port) for kind, node_id, port in zip(controllers, ids, ports, strict=True)
        ]
        self.brokers = [
            self._broker(kind, number, racks[number - 1] if racks else None)
            for number, kind in enumerate(brokers, FIRST_BROKER)
        ]
        self._format()

    def _controller(self, kind: Kind, node_id: int, port: int) -> Node:
        config = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://{self._host}:{port}",
            "log.dirs": str(self.directory / f"controller-{node_id}" / "data"),
        }
        return self._node(kind, "controller", node_id, port, config)

    def _broker(self, kind: Kind, node_id: int, rack: str | None) -> Node:
        port, data = free_port(), self.directory / f"broker-{node_id}"
        config = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{self._host}:{port}",
            "advertised.listeners": f"PLAINTEXT://{self._host}:{port}",
            "log.dirs": ",".join(str(data / f"data-{number}") for number in range(self._log_dirs)),
            **({"broker.rack": rack} if rack else {}),
        }
        return self._node(kind, "broker", node_id, port, config)

    def _node(self, kind: Kind, role: str, node_id: int, port: int, config: Mapping[str, str]) -> Node:
        whole = {**_EVERY_NODE, **self._quorum, **config, **self._config, **self._each.get(node_id, {})}
        return Node(kind, role, node_id, port, self.directory / f"{role}-{node_id}", whole)

    def _format(self) -> None:
        """Format all nodes. The first controller of a dynamic quorum begins it alone; the others are observers.

        All directories are formatted as by the oldest release among the nodes: the newer ones take what its
        kafka-storage leaves, and its metadata.version.
        """
        oldest = emulated(min((node.kind.release for node in self.nodes), key=number))
        release = ["--emulate", oldest] if oldest else []
        for position, node in enumerate(self.controllers):
            quorum = ["--no-initial-controllers"] if position else ["--standalone"]
            node.format(*release, *(quorum if self._dynamic else ()))
        for node in self.brokers:
            node.format(*release)

    # -- nodes

    def add_broker(self, kind: Kind, node_id: int, rack: str | None = None, cluster_id: str = CLUSTER_ID) -> Node:
        """Add a broker, which is formatted and not started."""
        node = self._broker(kind, node_id, rack)
        node.format(cluster_id=cluster_id)
        self.brokers.append(node)
        return node

    def broker(self, node_id: int) -> Node:
        return next(node for node in self.brokers if node.id == node_id)

    def controller(self, node_id: int) -> Node:
        return next(node for node in self.controllers if node.id == node_id)

    @property
    def nodes(self) -> list[Node]:
        return [*self.controllers, *self.brokers]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(node.address for node in self.controllers)

    # -- life

    def start(self) -> None:
        """Start all nodes at once, since they wait for each other, and wait until the brokers know each other."""
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait_until_it_answers()
        if "listener.security.protocol.map" not in self._config:
            self._wait_until_known()

    def wait_until_equal(self, topic: str, partitions: int) -> None:
        """Wait until the replicas of each partition are the same bytes at all brokers."""

        def differing() -> list[int]:
            return [
                each
                for each in range(partitions)
                if len({node.replica_bytes(topic, each) for node in self.brokers}) > 1
            ]

        eventually(differing, [])

    def make_whole(self) -> None:
        """Start the nodes that do not run, and wait until the brokers know each other."""
        for node in self.nodes:
            if not node.runs:
                node.start()
        self._wait_until_known()

    def _wait_until_known(self) -> None:
        """Wait until every broker knows every other one.

        A broker answers before its controller counts on it. A topic that is made in between is refused, or led by
        another broker than the first of its replicas for good.
        """
        everyone = {node.id for node in self.brokers}
        for node in self.brokers:
            eventually(partial(brokers_told_by, node.address), everyone, _START_SECONDS)

    def stop(self) -> None:
        """Stop all nodes, brokers first: a broker that leaves asks its controller."""
        for nodes in (self.brokers, self.controllers):
            for node in nodes:
                if node.runs and node.process is not None:
                    os.kill(node.process.pid, signal.SIGCONT)
                    os.kill(node.process.pid, signal.SIGTERM)
            for node in nodes:
                node.stop(10)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._abandon)
            self.start()
            stack.pop_all()
        return self

    def _abandon(self) -> None:
        for node in self.nodes:
            node.kill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        self._abandon()
        if self._owns_directory:
            with suppress(OSError):
                shutil.rmtree(self.directory)
