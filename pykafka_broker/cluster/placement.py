"""Which brokers hold which partition. Rule: a placement is checked or made before any record is; Kafka's sentences."""

from __future__ import annotations

from collections.abc import Sequence

from pykafka_broker.cluster.controller import Controller, usable_brokers
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.errors import ApiError
from pykafka_broker.log.directory_ids import UNASSIGNED
from pykafka_broker.protocol.errors import ErrorCode


def place(controller: Controller, first_partition: int, count: int, replication_factor: int) -> list[list[int]]:
    """Replicas for `count` partitions: leaders go round the usable brokers, followers are the ones after the leader."""
    registered = len(controller.image.brokers)
    usable = usable_brokers(controller.image)
    problem = None
    if not usable:
        problem = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > len(usable):
        problem = (
            f"The target replication factor of {replication_factor} cannot be reached because only {registered} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    return [
        [usable[(partition + replica) % len(usable)] for replica in range(replication_factor)]
        for partition in range(first_partition, first_partition + count)
    ]


def check_assignment(image: MetadataImage, replicas: Sequence[int], expected: int | None) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT for a manual assignment that can't be; `expected` is the replica count of the
    topic's other partitions."""
    if not replicas:
        raise _refused("The manual partition assignment includes an empty replica list.")
    ordered = sorted(replicas)
    for position, replica in enumerate(ordered):
        if replica not in image.brokers:
            raise _refused(
                f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            )
        if position and ordered[position - 1] == replica:
            raise _refused(f"The manual partition assignment includes the broker {replica} more than once.")
    if expected is not None and len(replicas) != expected:
        raise _refused(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {expected} replica(s)."
        )


def directories_of(image: MetadataImage, replicas: Sequence[int]) -> list[bytes]:
    return [directory_of(image, replica) for replica in replicas]


def directory_of(image: MetadataImage, broker_id: int) -> bytes:
    """The directory of a new replica where its broker has but one; otherwise the broker picks one and reports it."""
    broker = image.brokers.get(broker_id)
    return broker.log_dirs[0] if broker is not None and len(broker.log_dirs) == 1 else UNASSIGNED


def _refused(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
