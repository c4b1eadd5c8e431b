"""A cluster of several nodes as this node sees it, and incidents of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pykafka_broker.broker.metadata.metadata_source import MetadataLeader
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.image import PartitionImage, TopicImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import ValueLimits
from pykafka_broker.control.state import SETTINGS, settings_taken_back
from pykafka_broker.errors import ApiError
from pykafka_broker.peers import Address
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord

NodeId = Annotated[int, ValueLimits(minimum=0, maximum=0x7FFFFFFF)]
Number = Annotated[int, ValueLimits(minimum=0, maximum=0x7FFFFFFF)]


@dataclass
class NodeAnswer:
    """A broker: addresses for clients, rack, and whether the broker is fenced and hidden from clients.
    `silent_ms` is the time since its last heartbeat, on the controller's clock; null where another node is the
    controller.
    """

    node_id: int
    listeners: dict[str, str]
    rack: str | None
    fenced: bool
    silent_ms: int | None


@dataclass
class Cluster:
    """The cluster as known to the node; `controller_id` is -1 while no leader of the metadata is known, and
    `metadata_offset` is this node's position in the metadata log.
    """

    cluster_id: str
    controller_id: int
    metadata_offset: int
    brokers: list[NodeAnswer]


@dataclass
class PartitionStateAnswer:
    """The replicas of a partition: `leader` is -1 without a leader, `isr` are the replicas in sync. `log_start_offset`
    and `high_watermark` are the bounds of consumers' reads; null where this node is not the leader.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    log_start_offset: int | None
    high_watermark: int | None


@dataclass
class Coordinator:
    """The broker coordinating a group or the transactions of a transactional id."""

    node_id: int


def cluster(control: Control) -> Cluster:
    """Return the brokers of the cluster."""
    services = control.services
    brokers = [
        NodeAnswer(
            each.id,
            {name: f"{host}:{port}" for name, host, port, _ in each.endpoints},
            each.rack,
            each.fenced,
            _silent_ms(services, each.id),
        )
        for each in services.image.brokers.values()
    ]
    return Cluster(
        services.cluster_id,
        services.metadata.quorum.leader_id,
        services.metadata.applied_offset,
        sorted(brokers, key=lambda it: it.node_id),
    )


def _silent_ms(services: Services, broker_id: int) -> int | None:
    role = services.quorum_controller
    heard = -1 if role is None else role.sessions.last_contact(broker_id)
    return None if heard < 0 else services.clock.now - heard


async def coordinator(control: Control, group: str | None = None, transactional_id: str | None = None) -> Coordinator:
    """Return the broker coordinating a group, or the transactions of a transactional id. The question creates a
    missing topic for their state, as a client's question does.
    """
    if (group is None) == (transactional_id is None):
        raise Problem(400, "name a group or a transactional_id")
    key = group if group is not None else transactional_id
    found = await control.inside.find_coordinator(key or "", is_group=group is not None)
    return Coordinator(found)


def partition(control: Control, topic: str, partition: int) -> PartitionStateAnswer:
    """Return a partition of a topic, as known to the node."""
    return _state(control, *_find(control, topic, partition))


def move_leader(control: Control, topic: str, leader: NodeId, partition: Number = 0) -> PartitionStateAnswer:
    """Make a replica in sync the leader of a partition. Served by the node leading the metadata."""
    found, state = _find(control, topic, partition)
    if leader not in state.isr:
        raise Problem(409, f"{leader} is not in sync: {', '.join(map(str, state.isr)) or 'nobody'}")
    local = _leading(control)
    version = local.controller.partition_record_version()
    record = PartitionChangeRecord(partition, found.id, leader=leader)
    control.in_turn(lambda: local.commit([ApiMessageAndVersion(record, version)]))
    return _state(control, *_find(control, topic, partition))


def reset_settings(control: Control, keep: list[str] | None = None) -> Cluster:
    """Take back the dynamic configs of brokers and groups, quotas, ACLs and users the cluster did not have at the
    first start, except for those named in `keep`. Served by the node that leads the metadata.
    """
    if unknown := sorted({*(keep or ())} - SETTINGS):
        raise Problem(400, f"{unknown[0]} can't be kept; what can is {', '.join(sorted(SETTINGS))}")
    local = _leading(control)
    if records := settings_taken_back(control.broker.node, keep or ()):
        control.in_turn(lambda: local.commit(records))
    return cluster(control)


def _leading(control: Control) -> MetadataLeader:
    """Return the metadata the node leads. Raises `Problem` 409."""
    local = control.broker.node.metadata_leader
    if local is None:
        raise Problem(409, f"node {control.services.metadata.quorum.leader_id} leads the metadata: ask there")
    return local


def cut_off(control: Control, nodes: list[NodeId]) -> None:
    """Lose the connections the node has made to the given nodes, and make no more; they do the same where no
    connection shall be left. Nodes of earlier calls that are not named are in reach again.
    """
    cut = frozenset(nodes)

    def admits(address: Address) -> bool:
        return not any(address[:2] in _addresses(control, node_id) for node_id in cut)

    if control.peers is not None:
        control.peers.admits = admits
        control.in_turn(control.peers.cut)


def rejoin(control: Control) -> None:
    """Let the node reach all others again."""
    if control.peers is not None:
        control.peers.admits = lambda address: True


def _addresses(control: Control, node_id: int) -> set[tuple[str, int]]:
    """Return the addresses of a node."""
    services = control.services
    found: set[tuple[str, int]] = set()
    if (broker := services.image.brokers.get(node_id)) is not None:
        found |= {(host, port) for _, host, port, _ in broker.endpoints}
    if (registered := services.image.controllers.get(node_id)) is not None:
        found |= {(each.host, each.port) for each in registered.end_points}
    if (voter := services.node.roles.voters.get(node_id)) is not None:
        found.add((voter.host, voter.port))
    return found


def _find(control: Control, topic: str, partition: int) -> tuple[TopicImage, PartitionImage]:
    found = control.services.image.topics.get(topic)
    if found is None:
        raise Problem(404, f"there is no topic {topic}")
    state = found.partitions.get(partition)
    if state is None:
        raise Problem(404, f"topic {topic} has no partition {partition}")
    return found, state


def _state(control: Control, topic: TopicImage, state: PartitionImage) -> PartitionStateAnswer:
    try:
        led = control.services.replicas.leader(topic.name, state.partition)
    except ApiError:
        led = None
    return PartitionStateAnswer(
        topic.name,
        state.partition,
        state.leader,
        state.leader_epoch,
        list(state.replicas),
        list(state.isr),
        None if led is None else led.log.log_start_offset,
        None if led is None else led.high_watermark,
    )
