"""A cluster of several nodes in the view of the node, and incidents of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from pykafka_broker.addresses import address_text
from pykafka_broker.broker.metadata.metadata_source import MetadataLeader
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.image import PartitionImage, TopicImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.control.answers import Cluster, Node, PartitionState
from pykafka_broker.control.api.topics import topic_image
from pykafka_broker.control.control import Control
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.schema import Index
from pykafka_broker.control.state import SETTINGS, settings_taken_back
from pykafka_broker.errors import ApiError
from pykafka_broker.peers import Address
from pykafka_broker.protocol.stored.partition_change_record import PartitionChangeRecord


@dataclass
class Coordinator:
    """The broker coordinating a group or the transactions of a transactional id."""

    node_id: int


def cluster(control: Control) -> Cluster:
    """Return the brokers of the cluster."""
    services = control.services
    brokers = [
        Node(
            node_id=each.id,
            listeners={name: address_text(host, port) for name, host, port, _ in each.endpoints},
            rack=each.rack,
            fenced=each.fenced,
            silent_ms=_silent_ms(services, each.id),
        )
        for each in services.image.brokers.values()
    ]
    return Cluster(
        cluster_id=services.cluster_id,
        controller_id=services.metadata.quorum.leader_id,
        metadata_offset=services.metadata.applied_offset,
        brokers=sorted(brokers, key=lambda each: each["node_id"]),
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


def partition(control: Control, topic: str, partition: int) -> PartitionState:
    """Return a partition of a topic, as known to the node."""
    return _state(control, *_find(control, topic, partition))


def move_leader(control: Control, topic: str, leader: Index, partition: Index = 0) -> PartitionState:
    """Make a replica in sync the leader of a partition. Served by the node leading the metadata."""
    found, state = _find(control, topic, partition)
    if leader not in state.isr:
        raise Problem(409, f"broker {leader} is not in sync; in sync are {', '.join(map(str, state.isr)) or 'none'}")
    local = _leading(control)
    version = local.controller.partition_record_version()
    record = PartitionChangeRecord(partition, found.id, leader=leader)
    local.commit([ApiMessageAndVersion(record, version)])
    return _state(control, *_find(control, topic, partition))


def reset_settings(control: Control, keep: list[str] | None = None) -> Cluster:
    """Take back the dynamic configs of brokers and groups, quotas, ACLs and users the cluster did not have at the
    first start, except for those named in `keep`. Served by the node that leads the metadata.
    """
    if unknown := sorted({*(keep or ())} - SETTINGS):
        raise Problem(400, f"{unknown[0]} can't be kept; what can is {', '.join(sorted(SETTINGS))}")
    local = _leading(control)
    if records := settings_taken_back(control.broker.node, keep or ()):
        local.commit(records)
    return cluster(control)


def _leading(control: Control) -> MetadataLeader:
    """Return the metadata the node leads. Raises `Problem` 409."""
    local = control.broker.node.metadata_leader
    if local is None:
        raise Problem(409, f"node {control.services.metadata.quorum.leader_id} leads the metadata: ask there")
    return local


def cut_off(control: Control, nodes: list[Index]) -> None:
    """Lose the node's connections to the given nodes, and make no more; the other nodes do the same where no
    connection shall be left. Nodes of earlier calls that are not named are in reach again.
    """
    cut = frozenset(nodes)

    def admits(address: Address) -> bool:
        return not any(address[:2] in _addresses(control, node_id) for node_id in cut)

    if control.peers is not None:
        control.peers.admits = admits
        control.peers.cut()


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
    image = topic_image(control, topic, partition)
    return image, image.partitions[partition]


def _state(control: Control, topic: TopicImage, state: PartitionImage) -> PartitionState:
    try:
        led = control.services.replicas.leader(topic.name, state.partition)
    except ApiError:
        led = None
    return PartitionState(
        topic=topic.name,
        partition=state.partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        replicas=list(state.replicas),
        isr=list(state.isr),
        log_start_offset=None if led is None else led.log.log_start_offset,
        high_watermark=None if led is None else led.high_watermark,
    )
