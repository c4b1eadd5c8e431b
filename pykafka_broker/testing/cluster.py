"""Several brokers, each a separate process.

Rule: a node is a `KafkaBroker` with the settings of its place, so a test may do the same to it as to a broker alone;
operations on several brokers are here. The controllers are nodes of their own unless there shall be none, so any broker
may be killed.

    with KafkaCluster(brokers=3) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        cluster.broker(cluster.leader_of("orders")).kill()
"""

from __future__ import annotations

import os
import secrets
import socket
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pykafka_broker.cluster.features import abilities
from pykafka_broker.cluster.formatting import FormatRequest, Levels, StorageFormatter, StorageNode
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.extensions import EMULATE
from pykafka_broker.log.checkpoints import META_PROPERTIES, id_text, read_properties
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.releases.release import is_ahead, release
from pykafka_broker.testing.cluster_data import ClusterData
from pykafka_broker.testing.control_client import told_to_the_test
from pykafka_broker.testing.data import BrokerError, all_at_once
from pykafka_broker.testing.process import KafkaBroker, check_known, config_texts, security_of

if TYPE_CHECKING:
    from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster
    from pykafka_broker.testing.security_spec import SecuritySpec


# -- data directories


def new_cluster_id() -> str:
    """Return a random cluster id, in Kafka's form."""
    return id_text(_new_uuid())


def cluster_id_in(directory: Path) -> str | None:
    """Return the cluster id of the nodes with directories in `directory`, None without nodes."""
    for path in sorted(directory.glob(f"*/{META_PROPERTIES}")):
        return read_properties(OsFileSystem(), str(path)).get("cluster.id")
    return None


def _new_uuid() -> bytes:
    return uuid.uuid4().bytes


def format_directories(config: Mapping[str, str], cluster_id: str, emulate: str | None = None) -> None:
    """Format the data directories of a node, as `pykafka-broker format`; formatted directories stay unchanged.

    Args:
        config: the configs of the node, with `controller.quorum.voters`.
        cluster_id: the id of the cluster.
        emulate: the release that the cluster passes for. A newer release adds levels of features, an older one takes
            none away.
    """
    directories = config["log.dirs"].split(",")
    node = StorageNode(
        int(config["node.id"]),
        directories,
        config.get("metadata.log.dir", directories[0]),
        "controller" in config["process.roles"],
        True,
        None,
        Levels(abilities(BrokerConfig({EMULATE: emulate or ""}))),
    )
    request = FormatRequest(cluster_id, [], True, None, {}, False, False, None)
    now = int(time.time() * 1000)
    formatter = StorageFormatter(
        OsFileSystem(), node, request, now=now, new_uuid=_new_uuid, new_salt=lambda: secrets.token_bytes(16)
    )
    for _ in formatter.run():
        pass  # the text is for people


# -- the cluster


__tracebackhide__ = told_to_the_test
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CONTROLLER, INTERNAL = "CONTROLLER", "INTERNAL"  # listeners
FIRST_CONTROLLER = 100
# Settings for tests: a dead broker is fenced, and a slow replica leaves the ISR, within seconds.
QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.backoff.ms": "100",
}


class KafkaCluster(ClusterData):
    """Several brokers with the methods of a single broker: names, arguments and waits are as of `KafkaBroker`.

    Broker ids are 1, 2, 3 ...; the controller has the id 100. With `controllers=0` broker 1 is the controller as well,
    and the cluster depends on it. Use it with `with`. `async with` gives an `AsyncKafkaCluster`. With security or
    emulate the nodes reach each other on listeners of their own, without TLS and logins, as Kafka 4.3 does.

    Args:
        brokers: the number of brokers.
        controllers: 1, or 0 for a controller on broker 1.
        racks: the rack of each broker.
        config: Kafka's broker configs for all nodes.
        configs: further configs by node id.
        quick: a dead broker is fenced after 3 s and not after Kafka's 9 (`QUICK` has the settings); `config` wins.
        data_dir: the directory of all nodes' data; None for a temporary directory for each, which `close` removes.
        port: the port of broker 1; the others have the next ones, the controller the last; 0 for free ports.
        schema_registry: start a schema registry beside each broker.
        history: as of `KafkaBroker`; `check` takes the histories of all brokers together.
        emulate, strict, security, users, acls, mechanisms, client_auth, allow_unknown_config: as of `KafkaBroker`, for
            all brokers.
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
        emulate: str | None = None,
        strict: bool = True,
        security: str | None = None,
        users: Mapping[str, str] | Iterable[str] = (),
        acls: Iterable[str] | None = None,
        mechanisms: Iterable[str] | None = None,
        client_auth: str | None = None,
        schema_registry: bool = False,
        history: bool = False,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        log_level: str = "info",
        start_timeout_s: float = 30,
        allow_unknown_config: bool = False,
    ) -> None:
        if isinstance(brokers, bool) or not isinstance(brokers, int):
            raise TypeError(f"brokers must be a number of brokers, such as KafkaCluster(3), not {brokers!r}")
        for name, given in (("config", config), ("configs", configs)):
            if given is not None and not isinstance(given, Mapping):
                raise TypeError(f"{name} must be a dict, not {given!r}")
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        if controllers not in (0, 1):
            raise ValueError(f"controllers must be 1, or 0 for a controller on broker 1, not {controllers!r}")
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers")
        if emulate is not None and not controllers:
            raise ValueError("emulate=... needs a controller of its own: leave out controllers=0")
        if emulate is not None:
            release(emulate)  # raises ValueError for an unknown one
        self._emulate = emulate
        self._security = security_of(host, security, users, acls, mechanisms, client_auth)
        if self._security is not None and not controllers:
            raise ValueError("security=... needs a controller of its own: leave out controllers=0")
        self._ids = list(range(1, brokers + 1))
        self._controller_id = FIRST_CONTROLLER if controllers else 1
        self._check_nodes(configs or ())
        self.host = host
        self._port = port
        self._directory = None if data_dir is None else Path(data_dir)
        self.cluster_id = (self._directory and cluster_id_in(self._directory)) or new_cluster_id()
        self._options: dict[str, Any] = {
            "host": host,
            "log_level": log_level,
            "start_timeout_s": start_timeout_s,
            "strict": strict,
            "allow_unknown_config": allow_unknown_config,
        }
        self._schema_registry, self._history = schema_registry, history
        self._common = (QUICK if quick else {}) | config_texts(config)
        self._own = {node: config_texts(own) for node, own in (configs or {}).items()}
        if not allow_unknown_config:
            check_known(self._common | {name: "" for own in self._own.values() for name in own})
        self._reserved: list[socket.socket] = []
        self._nodes: dict[int, KafkaBroker] = {}
        self._racks = dict(zip(self._ids, racks or (), strict=False))

    def __repr__(self) -> str:
        return f"<KafkaCluster of {len(self._ids)} brokers at {self.bootstrap_servers or 'no address yet'}>"

    # -- life

    def start(self) -> Self:
        """Start all nodes at once and wait until clients may connect to each."""
        if self._nodes:
            raise BrokerError("the cluster was already started")
        controller = self._reserve(self._port + len(self._ids) if self._port else 0)
        for node_id in {*self._ids, self._controller_id}:
            self._nodes[node_id] = self._node(node_id, controller)
        try:
            all_at_once(self._nodes.values(), KafkaBroker.start)
        except BaseException:
            self.close()
            raise
        return self

    def _reserve(self, port: int) -> str:
        """Reserve a port against other processes: all nodes need the controller's address before the controller starts.

        The reserved socket does not listen, so the node may.
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
        inner = self._security is not None or self._emulate is not None
        if inner and node_id != self._controller_id:
            config |= self._inner_listener()
        if self._security is not None:
            config |= self._secure(self._security)
        config |= self._common | self._own.get(node_id, {})
        port = self._port + node_id - 1 if self._port and node_id in self._ids else 0
        registry = self._schema_registry and node_id in self._ids
        folder = None if self._directory is None else self._directory / f"node-{node_id}"
        emulate = self._release_of(node_id)
        node = KafkaBroker(
            config,
            data_dir=folder,
            port=port,
            schema_registry=registry,
            history=self._history and node_id in self._ids,
            emulate=emulate,
            **self._options,
        )
        format_directories({"log.dirs": str(node.data_dir), **config}, self.cluster_id, self._emulate)
        if inner and node_id != self._controller_id:
            node.join(f"{INTERNAL}://{self.host}:0", self._security)
        elif self._security is not None:
            self._security.write_first_records(Path(config.get("metadata.log.dir", node.data_dir)), emulate)
        return node

    def _release_of(self, node_id: int) -> str | None:
        """Return the release that a node passes for.

        Clients do not see the controller. It passes for a newer release alone, whose features and config keys it then
        knows: of an older one everything is known.
        """
        if self._emulate is None or node_id != self._controller_id:
            return self._emulate
        return self._emulate if is_ahead(self._emulate) else None

    def _inner_listener(self) -> dict[str, str]:
        """Return the configs of a broker with a listener for the other nodes."""
        outer = "PLAINTEXT" if self._security is None else self._security.listener
        protocols = {outer: outer, INTERNAL: "PLAINTEXT", CONTROLLER: "PLAINTEXT"}
        return {
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
            "inter.broker.listener.name": INTERNAL,
        }

    def _secure(self, security: SecuritySpec) -> dict[str, str]:
        """Return the rights in a cluster with security. The nodes are super users to each other."""
        config = {}
        if security.acls is not None:
            config["authorizer.class.name"] = AUTHORIZER
            config["super.users"] = ";".join([*security.super_users, "User:ANONYMOUS"])
        return config

    def _of_controller(self, node_id: int, address: str) -> dict[str, str]:
        if node_id not in self._ids:
            return {"process.roles": "controller", "listeners": f"{CONTROLLER}://{address}"}
        return {
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{self._reserve(self._port)},{CONTROLLER}://{address}",
        }

    def close(self) -> None:
        """Stop all nodes, the controller last, and remove temporary files."""
        try:
            brokers = (node for id_, node in self._nodes.items() if id_ != self._controller_id)
            all_at_once(brokers, KafkaBroker.close)
            if self._controller_id in self._nodes:
                self.controller.close()
        finally:
            for reserved in self._reserved:
                reserved.close()

    def __enter__(self) -> Self:
        return self.start()

    async def __aenter__(self) -> AsyncKafkaCluster:
        from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster

        return await AsyncKafkaCluster.of(self).start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster

        await AsyncKafkaCluster.of(self).__aexit__(kind, error, trace)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and hasattr(error, "add_note"):
            for node_id, node in self._nodes.items():
                error.add_note(f"log of node {node_id}:\n{node.log}")
        self.close()

    @property
    def nodes(self) -> dict[int, KafkaBroker]:
        """All nodes by id, with the controller."""
        return dict(sorted(self._nodes.items()))
