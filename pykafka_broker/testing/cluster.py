"""Several brokers, each a separate process or in a thread of the test's.

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
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pykafka_broker.addresses import address_text
from pykafka_broker.cluster.features import METADATA_VERSION, abilities, first_levels
from pykafka_broker.cluster.formatting import FormatError, FormatRequest, KnownLevels, StorageFormatter, StorageNode
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.extensions import EMULATE
from pykafka_broker.log.checkpoints import LOCK, META_PROPERTIES, RESTORED, read_properties
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.platform import NEEDS_REUSEADDR, SHARES_BOUND_PORTS, file_path
from pykafka_broker.protocol.runtime import new_uuid, uuid_text
from pykafka_broker.releases.release import is_ahead, release
from pykafka_broker.testing.answers import RecordingState, Snapshot
from pykafka_broker.testing.arguments import (
    check_directory,
    check_known,
    check_release,
    check_timeout,
    check_type,
    config_texts,
    listed,
)
from pykafka_broker.testing.cluster_data import ClusterData
from pykafka_broker.testing.cluster_traffic import SESSION, SESSION_MS, FaultHandles
from pykafka_broker.testing.control_client import ControlError, told_to_the_test
from pykafka_broker.testing.data import BrokerError, WaitTimeout, all_at_once
from pykafka_broker.testing.process import KafkaBroker, security_of
from pykafka_broker.testing.trouble import DEFAULT_MEAN_MS, Blow, ClusterTrouble, drawn, only

if TYPE_CHECKING:
    from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster
    from pykafka_broker.testing.cluster_recording import ClusterRecorder


# -- data directories


def new_cluster_id() -> str:
    """Return a random cluster id, in Kafka's form."""
    return uuid_text(new_uuid())


def cluster_id_in(directory: Path) -> str | None:
    """Return the cluster id of the nodes with directories in `directory`, None without nodes."""
    for path in sorted(directory.glob(f"*/{META_PROPERTIES}")):
        return read_properties(OsFileSystem(), str(path)).get("cluster.id")
    return None


def format_request(cluster_id: str, emulate: str | None) -> tuple[FormatRequest, KnownLevels]:
    """Return how nodes of a cluster are formatted that passes for a release, and the levels of features they know."""
    broker = BrokerConfig({EMULATE: emulate or ""})
    features = first_levels(broker)
    release_version = features.pop(METADATA_VERSION)
    request = FormatRequest(cluster_id, [], True, release_version, features, False, False, None)
    return request, KnownLevels(abilities(broker))


def format_directories(config: Mapping[str, str], cluster_id: str, emulate: str | None = None) -> None:
    """Format the data directories of a node, as `pykafka-broker format`; formatted directories stay unchanged.

    Args:
        config: the configs of the node, with `controller.quorum.voters`.
        cluster_id: the id of the cluster.
        emulate: the release that the cluster passes for, which decides the levels of features.
    """
    request, known = format_request(cluster_id, emulate)
    directories = listed(config["log.dirs"])
    node = StorageNode(
        int(config["node.id"]),
        directories,
        config.get("metadata.log.dir", directories[0]),
        "controller" in config["process.roles"],
        True,
        None,
        known,
    )
    now = int(time.time() * 1000)
    formatter = StorageFormatter(
        OsFileSystem(), node, request, now=now, new_uuid=new_uuid, new_salt=lambda: secrets.token_bytes(16)
    )
    try:
        for _ in formatter.run():
            pass  # the text is for people
    except FormatError as error:
        raise BrokerError(f"{config['log.dirs']}: {error}") from None


def _lay(image: Path, node_id: int, directories: Sequence[Path]) -> None:
    """Put a node's files of an image into its directories."""
    for number, directory in enumerate(directories):
        source = image / f"{_NODE}{node_id}" / str(number)
        shutil.copytree(file_path(str(source)), file_path(str(directory)), dirs_exist_ok=True)


# -- the cluster

__tracebackhide__ = told_to_the_test
_NODE = "node-"  # an image has a folder for each node, with the node's directories by number
_NOT_COPIED = shutil.ignore_patterns(LOCK)
_MOVED_MS = 1000  # a clock that differs more from the real time was moved by the test
CONTROLLER, INTERNAL = "CONTROLLER", "INTERNAL"  # listeners
NODES = "User:ANONYMOUS"  # the nodes to each other, whose listeners have no logins
FIRST_CONTROLLER = 100
MOST_PORT = 65_535
METADATA_FOLDER = "__cluster_metadata-0"

# Settings for tests: a dead broker is fenced, and a slow replica leaves the ISR, within seconds.
QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "3000",
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.backoff.ms": "100",
}
INTERNAL_TOPIC_FACTORS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)


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
        in_process: run the nodes in the test's own process, in a thread for each (docs/in-process.md).
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
        in_process: bool = False,
        allow_unknown_config: bool = False,
    ) -> None:
        check_type("brokers", brokers, int, "a number of brokers, such as KafkaCluster(3)")
        for name, given in (("config", config), ("configs", configs)):
            if given is not None:
                check_type(name, given, Mapping, "a dict")
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        if brokers >= FIRST_CONTROLLER:
            raise ValueError(
                f"a cluster has at most {FIRST_CONTROLLER - 1} brokers: {FIRST_CONTROLLER} is a controller"
            )
        if not 0 <= port <= MOST_PORT - brokers:
            raise ValueError(f"port {port} is not within 0 to {MOST_PORT - brokers}: {brokers + 1} ports are taken")
        if controllers not in (0, 1):
            raise ValueError(f"controllers must be 1, or 0 for a controller on broker 1, not {controllers!r}")
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers")
        check_release(emulate)
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
        if self._directory is not None:
            self._check_directory(self._directory)
        self.cluster_id = (self._directory and cluster_id_in(self._directory)) or new_cluster_id()
        check_timeout(start_timeout_s, "start_timeout_s")
        self._options: dict[str, Any] = {
            "host": host,
            "log_level": log_level,
            "start_timeout_s": start_timeout_s,
            "strict": strict,
            "in_process": in_process,
            "allow_unknown_config": allow_unknown_config,
        }
        self._schema_registry, self._history = schema_registry, history
        self._common = (QUICK if quick else {}) | config_texts(config)
        self._own = {node: config_texts(own) for node, own in (configs or {}).items()}
        if not allow_unknown_config:
            check_known(self._common | {name: "" for own in self._own.values() for name in own})
        self._reserved: list[socket.socket] = []
        self._nodes: dict[int, KafkaBroker] = {}
        self._closed = False
        self._begins_with: Path | None = None  # the image of another cluster
        self._snapshots: Path | None = None
        self._racks = dict(zip(self._ids, racks or (), strict=False))
        self._troubles: list[ClusterTrouble] = []
        self._fault_handles = FaultHandles()
        self._sides = []
        self._recorder: ClusterRecorder | None = None

    def __repr__(self) -> str:
        where = self.bootstrap_servers if self._nodes else "no address yet"
        return f"<KafkaCluster of {len(self._ids)} brokers at {where}>"

    # -- life

    def start(self) -> Self:
        """Start all nodes at once and wait until clients may connect to each."""
        if self._is_started():
            raise BrokerError("the cluster was already started")
        try:
            self._make_nodes()
            if self._begins_with is None:
                self._start_together()
            else:
                self._start_on_images()
        except BaseException:
            self.close()
            raise
        return self

    def _start_together(self) -> None:
        """Start all nodes. Once one has failed the others are given up: without it some would wait for their time-out.

        Raises the first error.
        """
        failures: list[BaseException] = []

        def start(node: KafkaBroker) -> None:
            try:
                node.start()
            except BaseException as error:
                failures.append(error)
                for other in self._nodes.values():
                    other.give_up()

        all_at_once(self._nodes.values(), start)
        if failures:
            raise failures[0]

    def _is_started(self) -> bool:
        if self._closed:
            raise BrokerError("the cluster is closed")
        return bool(self._nodes)

    def _check_directory(self, directory: Path) -> None:
        """Check for data of another layout: a new controller would know none of its topics, and what only the brokers
        have that are left out would be lost. Raises ValueError.
        """
        check_directory("data_dir", directory)
        present = {path.parent.name for path in directory.glob(f"{_NODE}*/{METADATA_FOLDER}")}
        if not present:
            return
        separate = (directory / f"{_NODE}{FIRST_CONTROLLER}" / METADATA_FOLDER).exists()
        if separate != (self._controller_id == FIRST_CONTROLLER):
            where = "in a process of its own" if separate else "on broker 1"
            raise ValueError(f"data_dir {directory}: it has the data of a cluster with its controller {where}")
        last = max((each for each in range(1, FIRST_CONTROLLER) if f"{_NODE}{each}" in present), default=0)
        if last > len(self._ids):
            raise ValueError(
                f"data_dir {directory}: it has the data of {last} brokers, which is more than {len(self._ids)}"
            )

    def _make_nodes(self) -> None:
        controller = self._reserve(self._port + len(self._ids) if self._port else 0)
        nodes = {*self._ids, self._controller_id}
        doors = {node_id: self._reserve(0, "127.0.0.1") for node_id in sorted(nodes)}
        for node_id in nodes:
            self._nodes[node_id] = self._node(node_id, controller)
            self._nodes[node_id]._know(doors, node_id, self._sides)
        self._free_reserved()

    def _reserve(self, port: int, host: str = "") -> str:
        """Reserve a port against other processes: all nodes need the controller's address before the controller starts,
        and each node the control APIs of the others, for the page of the whole cluster.

        The reserved socket does not listen, so the node may. Where the system refuses that (macOS, Windows), the port
        is free again until the node starts.
        """
        host = host or self.host
        reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._reserved.append(reserved)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, NEEDS_REUSEADDR)
        reserved.bind((host, port))
        return address_text(host, reserved.getsockname()[1])

    def _free_reserved(self) -> None:
        """Give the ports to the nodes that start next, where both can't have them."""
        if not SHARES_BOUND_PORTS:
            for reserved in self._reserved:
                reserved.close()

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
            config |= self._security.rights(NODES)
        # Unset, a client that comes before all brokers have registered would get internal topics with fewer replicas.
        config |= dict.fromkeys(INTERNAL_TOPIC_FACTORS, str(min(3, len(self._ids))))
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
        if self._begins_with is not None:
            _lay(self._begins_with, node_id, node._directories)
        format_directories({"log.dirs": str(node.data_dir), **config}, self.cluster_id, self._emulate)
        if inner and node_id != self._controller_id:
            node._join(f"{INTERNAL}://{address_text(self.host, 0)}", self._security)
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

    def _of_controller(self, node_id: int, address: str) -> dict[str, str]:
        if node_id not in self._ids:
            return {"process.roles": "controller", "listeners": f"{CONTROLLER}://{address}"}
        return {
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{self._reserve(self._port)},{CONTROLLER}://{address}",
        }

    def close(self) -> None:
        """Stop all nodes, the controller last, and remove temporary files."""
        self._closed = True
        with ExitStack() as steps:  # done from the last to the first, each one whatever the others raise
            for reserved in self._reserved:
                steps.callback(reserved.close)
            if self._snapshots is not None:
                steps.callback(shutil.rmtree, file_path(str(self._snapshots)), ignore_errors=True)
            if self._controller_id in self._nodes:
                steps.callback(self._nodes[self._controller_id].close)
            brokers = [node for id_, node in self._nodes.items() if id_ != self._controller_id]
            steps.callback(all_at_once, brokers, KafkaBroker.close)
            if self._recorder is not None:
                steps.callback(self._recorder.forget)
            self._end_troubles()

    # -- trouble

    def trouble(
        self, kinds: Iterable[str] = ("kill",), seed: int = 0, mean_ms: int = DEFAULT_MEAN_MS, most_down: int = 1
    ) -> ClusterTrouble:
        """Let brokers be killed, stopped, paused or cut off, disks fail, and leaders move, at times of a seed, until
        `calm`.

        Time counts from the first request of a client. `came` of the result lists what has come.

        Args:
            kinds: of "kill", "stop", "pause", "partition" (from all other nodes, not from clients), "fill_disk",
                "break_disk" (the broker ends with the next write), "move_leader" and "move_coordinator".
            mean_ms: the mean pause between two of them.
            most_down: how many brokers may be away at once.
        """
        return self._keep(drawn(self, kinds, seed, mean_ms, most_down))

    def befall(
        self,
        kind: str,
        broker: int,
        *,
        after_ms: int = 0,
        for_ms: int = 1000,
        topic: str | None = None,
        partition: int = 0,
        group: str | None = None,
        at: Mapping[str, object] | None = None,
    ) -> ClusterTrouble:
        """Let one trouble come to a broker, some time after the first request of a client, or at a request.

        Args:
            kind: as of `trouble`; with "move_leader" the broker becomes the leader of the partition, with
                "move_coordinator" the coordinator of the group.
            for_ms: until it is over.
            at: the request that waits until the trouble has come, as arguments of `faults.add`:
                `at={"api": "OffsetCommit", "group": "billing", "nth": 4}` is after the third commit of that group.

        A trouble that can't come when it is due (there is no such topic, or the broker is not in sync) comes as soon as
        it can; with `at` it does not come. One that never could, or whose request did not come, is an error of `calm`,
        and of the cluster's end.
        """
        blow = Blow(kind, broker, after_ms, for_ms, topic, partition, group, at)
        return self._keep(only(self, [blow], insists=True))

    def calm(self) -> None:
        """End all trouble, start all nodes, and wait until all replicas are in sync.

        Raises:
            WaitTimeout: a trouble of `befall` could not come when it was due, or its request did not come.
        """
        with ExitStack() as steps:
            steps.callback(self._mend)
            self._end_troubles()

    def _mend(self) -> None:
        self.heal_network()
        all_at_once([node for node in self._nodes.values() if not node.running], KafkaBroker.start)
        for node in self.brokers:
            node.unpause()
            node.free_disk()
        for topic in self.topics(internal=True):
            for index in range(topic["partitions"]):
                self.wait_for_isr(topic["name"], index)
        self.wait_for_metadata()

    def _keep(self, trouble: ClusterTrouble) -> ClusterTrouble:
        self._troubles.append(trouble)
        return trouble

    def _end_troubles(self) -> None:
        with ExitStack() as steps:
            for trouble in self._troubles:
                steps.callback(trouble.end)
            self._troubles.clear()

    # -- recordings

    def start_recording(self) -> RecordingState:
        """Record all requests of clients and all answers, whole, of all nodes, and what the test does to nodes, leaders
        and clocks, after the topics, records and offsets that are there.

        The topics of coordinators are created, where no client has asked for a coordinator yet.
        """
        from pykafka_broker.testing.cluster_recording import ClusterRecorder

        self._recorder = ClusterRecorder(self)
        return RecordingState(exchanges=0, size_bytes=0, full=False)

    def save_recording(self, path: str | os.PathLike[str]) -> RecordingState:
        """Write the recording into a file for `pykafka-broker replay`, and stop recording.

        A broker that was killed or stopped has its part in it; one that has ended by itself has not.

        Raises:
            ControlError: nothing is recorded.
        """
        if self._recorder is None:
            raise ControlError(404, "nothing is recorded: start_recording starts it")
        found = self._recorder.save(path)  # with OSError it is kept, to be saved elsewhere
        self._recorder = None
        return found

    # -- the whole state

    def snapshot(self, name: str) -> Snapshot:
        """Keep the whole state of all nodes at one moment under a name. Returns name and size_bytes.

        All nodes stand still while their files are copied. What is on its way between them or to a client is lost to
        the snapshot, as if the power had failed everywhere at that moment. Snapshots end with the cluster.
        """
        if not name or name.startswith(".") or {"/", os.sep} & {*name}:
            raise ValueError(f"{name!r} can't be the name of a snapshot")
        if self._snapshots is None:
            self._snapshots = Path(tempfile.mkdtemp(prefix="pykafka-snapshots-"))
        unfinished = self._snapshots / f".{name}"
        shutil.rmtree(file_path(str(unfinished)), ignore_errors=True)  # of a snapshot that failed
        self._copy_to(unfinished)
        shutil.rmtree(file_path(str(self._snapshots / name)), ignore_errors=True)
        unfinished.rename(self._snapshots / name)
        return self._described(name)

    def restore(self, name: str) -> None:
        """Go back to the state of a snapshot.

        All nodes are killed and start on the copies of their files, with their addresses; stopped ones start too.
        Clients connect again; faults end; the clock stays as it is. Leader epochs are higher than any that clients
        have seen. A snapshot can be restored again.

        Raises:
            ControlError: there is no such snapshot.
        """
        image = self._image(name)
        seen = self._leader_epochs()
        moved_ms, frozen = self.clock.now() - time.time() * 1000, self.clock.frozen
        self.heal_network()
        all_at_once([node for node in self._nodes.values() if node.running], KafkaBroker.kill)
        for node_id, node in self._nodes.items():
            for directory in node._directories:
                shutil.rmtree(file_path(str(directory)))
                directory.mkdir()
            _lay(image, node_id, node._directories)
            for directory in node._directories:
                (directory / RESTORED).touch()
        self._start_on_images()
        names = {topic["name"] for topic in self.topics(internal=True)}
        for (topic, index), epoch in seen.items():
            if topic in names:
                while (state := self.partition(topic, index))["leader_epoch"] <= epoch and state["leader"] != -1:
                    self.move_leader(topic, state["leader"], index)
        if abs(moved_ms) > _MOVED_MS:
            self.clock.set(round(time.time() * 1000 + moved_ms))
        if frozen:
            self.clock.freeze()

    def snapshots(self) -> list[Snapshot]:
        """Return name and size_bytes of each snapshot."""
        return [self._described(name) for name in self._names()]

    def delete_snapshot(self, name: str) -> None:
        """Forget a snapshot."""
        shutil.rmtree(file_path(str(self._image(name))))

    def fork(self) -> KafkaCluster:
        """Start another cluster with the present state, on new ports and with new data directories; `close` ends the
        fork. All nodes of the fork run.
        """
        if any({"log.dirs", "log.dir", "metadata.log.dir"} & own.keys() for own in (self._common, *self._own.values())):
            raise BrokerError("a cluster with directories of its config can't be forked: both would write there")
        fork = KafkaCluster(
            len(self._ids),
            controllers=int(self._controller_id not in self._ids),
            racks=[self._racks[node_id] for node_id in self._ids] if self._racks else None,
            config=self._common,
            configs=self._own,
            quick=False,
            emulate=self._emulate,
            schema_registry=self._schema_registry,
            history=self._history,
            **self._options,
        )
        fork._security, fork.cluster_id = self._security, self.cluster_id
        with tempfile.TemporaryDirectory(prefix="pykafka-fork-") as folder:
            fork._begins_with = Path(folder)
            self._copy_to(fork._begins_with)
            return fork.start()

    def _copy_to(self, image: Path) -> None:
        """Copy the files of all nodes while none of them runs."""
        if not self.controller.running:
            raise BrokerError("the controller of the cluster is not running: no cluster could begin with that state")
        with ExitStack() as standing_still:
            for node in self._all_running():
                node.control.call("POST", "/checkpoints")
            for node in self._all_running():
                standing_still.enter_context(node._suspended())
            for node_id, node in self._nodes.items():
                for number, directory in enumerate(node._directories):
                    copy = image / f"{_NODE}{node_id}" / str(number)
                    source, target = file_path(str(directory)), file_path(str(copy))
                    shutil.copytree(source, target, ignore=_NOT_COPIED, copy_function=shutil.copyfile)

    def _names(self) -> list[str]:
        folder = self._snapshots
        return [] if folder is None else sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))

    def _image(self, name: str) -> Path:
        names = self._names()
        if self._snapshots is None or name not in names:
            known = f"there are {', '.join(names)}" if names else "there are none"
            raise ControlError(404, f"there is no snapshot {name}; {known}")
        return self._snapshots / name

    def _described(self, name: str) -> Snapshot:
        sizes = [file.stat().st_size for file in self._image(name).rglob("*.log")]
        return {"name": name, "size_bytes": sum(sizes)}

    def _leader_epochs(self) -> dict[tuple[str, int], int]:
        """Return the highest leader epoch of each partition that any node knows."""
        found: dict[tuple[str, int], int] = {}
        for node in self._asked():
            for topic in node.topics(internal=True):
                for index in range(topic["partitions"]):
                    key = topic["name"], index
                    found[key] = max(found.get(key, -1), node.partition(*key)["leader_epoch"])
        return found

    def _start_on_images(self) -> None:
        """Start all nodes on copies of files, and wait until all replicas are in sync."""
        if self._controller_id not in self._ids:
            self.controller.start()
            # It still takes the brokers of the image for alive, and would keep these waiting for a session's length.
            self.controller.clock.advance(milliseconds=int(self.controller.config.get(SESSION, SESSION_MS)))
        all_at_once([node for node in self._nodes.values() if not node.running], KafkaBroker.start)
        self.clock.set(round(time.time() * 1000))
        self._wait_for_all_running()
        self.wait_for_metadata()

    def __enter__(self) -> Self:
        return self if self._is_started() else self.start()

    async def __aenter__(self) -> AsyncKafkaCluster:
        from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster

        return await AsyncKafkaCluster.of(self).__aenter__()

    async def __aexit__(self, *failure: Any) -> None:
        from pykafka_broker.testing.asynchronous_cluster import AsyncKafkaCluster

        await AsyncKafkaCluster.of(self).__aexit__(*failure)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            for node_id, node in self._nodes.items():
                error.add_note(f"log of node {node_id}:\n{node.log}")
        try:
            self.close()
        except WaitTimeout as never:
            if error is None:
                raise
            error.add_note(str(never))

    @property
    def nodes(self) -> dict[int, KafkaBroker]:
        """All nodes by id, with the controller."""
        return dict(sorted(self._nodes.items()))
