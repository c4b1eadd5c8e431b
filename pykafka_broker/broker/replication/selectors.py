"""From which replica a client is to read (KIP-392).

Rule: only the leader chooses, among replicas that have what the client asks for and whose brokers are there. Without
Kafka's own rack-aware class in `replica.selector.class` everybody reads from the leader; no other class is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.broker.partitions.partition import Partition

if TYPE_CHECKING:
    from pykafka_broker.cluster.image import MetadataImage

NO_REPLICA = -1


def closest_replica(partition: Partition, offset: int, rack: str, image: MetadataImage) -> int:
    """Who of the replicas in that rack has most; -1 where the client is to stay with the leader."""
    followers, leader = partition.followers, partition.state.leader
    if followers is None or _rack(image, leader) == rack:
        return NO_REPLICA
    best, most = NO_REPLICA, offset - 1
    for node_id in partition.state.replicas:
        known = followers.get(node_id)
        if (
            known is not None
            and known.log_end_offset > most
            and known.log_start_offset <= offset
            and _rack(image, node_id) == rack
        ):
            best, most = node_id, known.log_end_offset
    return best


def _rack(image: MetadataImage, node_id: int) -> str | None:
    broker = image.brokers.get(node_id)
    return None if broker is None or broker.fenced else broker.rack
