"""The layout of a simulated cluster: its nodes, what their server.properties say, and their first disks.

Rule: nothing here depends on the seed, so a formatted disk is made once for all clusters of one layout. Listeners,
roles and times follow from the arguments of `SimulatedCluster`; a user's own configs come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random

from pykafka_broker.cluster.snapshot import BOOTSTRAP_FILE, write_snapshot
from pykafka_broker.config.extensions import EMULATE
from pykafka_broker.releases.release import is_ahead, release
from pykafka_broker.testing.arguments import check_known
from pykafka_broker.testing.cluster import INTERNAL, INTERNAL_TOPIC_FACTORS, NODES, QUICK, format_request
from pykafka_broker.testing.cluster_traffic import SESSION
from pykafka_broker.testing.security_spec import SecuritySpec
from pykafka_broker.testing.simulation.broker import CLIENTS, CONTROLLERS, INNER
from pykafka_broker.testing.simulation.disk import CrashFileSystem
from pykafka_broker.testing.simulation.network import Network
from pykafka_broker.testing.simulation.node import DATA, SimNode
from pykafka_broker.testing.simulation.timeline import Timeline

CONTROLLER_ID = 101
CLUSTER_ID = "IN1VHh2cTpqjEHPzO3tzSQ"
_DISKS = 64  # formatted disks that are kept for later clusters
# Shorter times than in a `KafkaCluster`, and few partitions of internal topics, since a run consists of many small
# steps. A busy machine delays nothing in virtual time, so a broker that is silent for five heartbeats is dead.
SESSION_MS = 1_000
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "log.cleaner.enable": "false",
}


class SimulatedLayout:
    """The nodes of a cluster, with their settings. brokers: the ids of all brokers. controller: the node that leads the
    metadata, which is the broker itself where it is alone.
    """

    def __init__(
        self,
        brokers: int,
        config: dict[str, str],
        racks: Sequence[str] | None,
        emulate: str | None,
        security: SecuritySpec | None,
    ) -> None:
        """Raises ValueError for arguments that no cluster can have."""
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"{len(racks)} racks for {brokers} brokers")
        if emulate is not None:
            release(emulate)  # raises ValueError for an unknown one
        check_known(config)
        self.brokers = list(range(1, brokers + 1))
        self.controller = CONTROLLER_ID if brokers > 1 else 1
        self._config = config
        self._racks = dict(zip(self.brokers, racks or (), strict=False))
        self._emulate = emulate
        self._security = security

    @property
    def nodes(self) -> list[int]:
        """Return the ids of all nodes, in the order of their making."""
        return list(dict.fromkeys((*self.brokers, self.controller)))

    def settings(self, id: int) -> dict[str, str]:
        """Return what the server.properties of a node would say."""
        is_controller = id == CONTROLLER_ID
        security, outer = self._security, "PLAINTEXT" if self._security is None else self._security.listener
        listeners = f"{outer}://n{id}:{CLIENTS}"
        settings, protocols = dict(_SETTINGS), {"CONTROLLER": "PLAINTEXT", outer: outer}
        if self.has_inner_listeners:
            listeners += f",{INTERNAL}://n{id}:{INNER}"
            protocols[INTERNAL] = "PLAINTEXT"
            settings["inter.broker.listener.name"] = INTERNAL
            settings["listener.security.protocol.map"] = ",".join(f"{name}:{each}" for name, each in protocols.items())
        if security is not None:
            settings |= security.config() | security.rights(NODES)
        if self._emulate is not None and (not is_controller or is_ahead(self._emulate)):
            settings[EMULATE] = self._emulate
        if id in self._racks:
            settings["broker.rack"] = self._racks[id]
        if len(self.brokers) == 1:
            return {**settings, "listeners": listeners, **self._config}
        replicas = str(min(3, len(self.brokers)))
        return {
            **settings,
            **QUICK,
            SESSION: str(SESSION_MS),
            "min.insync.replicas": "1",
            "process.roles": "controller" if is_controller else "broker",
            "listeners": f"CONTROLLER://n{id}:{CONTROLLERS}" if is_controller else listeners,
            "controller.quorum.voters": f"{CONTROLLER_ID}@n{CONTROLLER_ID}:{CONTROLLERS}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
            "default.replication.factor": replicas,
            **dict.fromkeys(INTERNAL_TOPIC_FACTORS, replicas),
            **self._config,
        }

    @property
    def has_inner_listeners(self) -> bool:
        """Return whether the brokers reach each other on listeners of their own, without logins and emulation."""
        return self._security is not None or self._emulate is not None

    def put_first_disk(self, node: SimNode) -> None:
        """Put a formatted disk into a node that has never run."""
        if len(self.brokers) > 1:
            node.put_disk(_formatted_disk(node.id, tuple(node.settings.items()), self._emulate))
        if self._security is not None:
            node.disk.make_directory(DATA)
            records = self._security.first_records(self._emulate)
            write_snapshot(node.disk, f"{DATA}/{BOOTSTRAP_FILE}", records, now=node.timeline.now)
            node.disk.sync_all("/data")


@lru_cache(_DISKS)
def _formatted_disk(id: int, settings: tuple[tuple[str, str], ...], emulate: str | None) -> CrashFileSystem:
    """Return the disk of a node before its first start, which does not depend on the seed."""
    timeline, random = Timeline(), Random(id)
    node = SimNode(Network(timeline, random), id, dict(settings), random)
    node.format(CLUSTER_ID, *format_request(CLUSTER_ID, emulate))
    return node.disk
