"""Settings of the nodes of a cluster, as their server.properties would have them.

Rule: times are as short as they can be, so that much happens in little time: a session and a lag of one second.
"""

from __future__ import annotations

from pykafka_broker.config.problems import RACK_AWARE
from tests.simulation.keeping import KEPT, Keeping

CLUSTER_ID = "IN1VHh2cTpqjEHPzO3tzSQ"
DIRECTORIES = "/data/logs", "/data/more"
CLIENTS, CONTROLLERS = 9092, 9093
MIN_INSYNC_REPLICAS = 2
_FEW_PARTITIONS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.enable": "false",  # replicas are compacted each in its own time
}
ALONE = {"listeners": f"PLAINTEXT://n1:{CLIENTS}", **_FEW_PARTITIONS}
Settings = dict[str, str]


def alone(keeping: Keeping = KEPT, settings: Settings = ALONE) -> dict[int, Settings]:
    """Return the settings of a single node, which is its own controller."""
    return {1: {**settings, **keeping.broker}}


def _of_all(controllers: list[int], keeping: Keeping) -> Settings:
    return {
        **_FEW_PARTITIONS,
        "controller.quorum.voters": ",".join(f"{id}@n{id}:{CONTROLLERS}" for id in controllers),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "broker.session.timeout.ms": "1000",
        "broker.heartbeat.interval.ms": "250",
        "controller.quorum.fetch.timeout.ms": "800",
        "replica.lag.time.max.ms": "1000",
        "replica.fetch.wait.max.ms": "300",
        "replica.fetch.backoff.ms": "100",
        "replica.socket.timeout.ms": "2000",
        "min.insync.replicas": str(MIN_INSYNC_REPLICAS),
        "log.segment.delete.delay.ms": "500",
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "2",
        "default.replication.factor": "3",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "unclean.leader.election.enable": "false",
        "share.coordinator.state.topic.num.partitions": "2",
        "share.coordinator.state.topic.replication.factor": "3",
        "group.share.delivery.count.limit": "10",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.heartbeat.interval.ms": "250",
        "group.share.min.session.timeout.ms": "500",
        "group.share.session.timeout.ms": "1200",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.session.timeout.ms": "1200",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "250",
        "initial.broker.registration.timeout.ms": "600000",
        **keeping.broker,
    }


def cluster(
    brokers: int,
    *,
    combined: bool = False,
    directories: int = 1,
    keeping: Keeping = KEPT,
    sole: bool = False,
    racked: bool = False,
) -> dict[int, Settings]:
    """Return the settings of a controller and this many brokers.

    combined: the first broker is the controller too. directories: of each broker's data. sole: committed offsets have
    one replica. racked: each broker has its own rack, named like the broker, and clients may read from followers there.
    """
    ids = list(range(1, brokers + 1))
    controller = 1 if combined else 101
    layout = {
        id: {
            **_of_all([controller], keeping),
            **({"offsets.topic.replication.factor": "1"} if sole else {}),
            **({"broker.rack": f"n{id}", "replica.selector.class": RACK_AWARE} if racked else {}),
            "process.roles": "broker",
            "log.dirs": ",".join(DIRECTORIES[:directories]),
            "listeners": f"PLAINTEXT://n{id}:{CLIENTS}",
        }
        for id in ids
    }
    roles = "broker,controller" if combined else "controller"
    listeners = f"CONTROLLER://n{controller}:{CONTROLLERS}"
    if combined:
        listeners = f"PLAINTEXT://n{controller}:{CLIENTS},{listeners}"
    layout[controller] = {
        **_of_all([controller], keeping),
        "process.roles": roles,
        "log.dirs": ",".join(DIRECTORIES[: directories if combined else 1]),
        "listeners": listeners,
    }
    return layout
