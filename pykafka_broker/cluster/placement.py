"""The brokers of new partitions (Kafka: StripedReplicaPlacer).

Rule: a placement is checked, or chosen, before the first record of a decision is made. Refusals are Kafka's sentences.

Racks take turns to lead, and within a rack its brokers; the replicas of a partition are in as many racks as there are.
A fenced broker may be given a replica, which it makes when it is back, but never leads at first, and only gets one
where its rack has no other broker left. After every unfenced broker has led once the order is drawn anew, so that many
other brokers follow the partitions of one leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from pykafka_broker.cluster.controller import Controller
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.errors import ApiError
from pykafka_broker.log.checkpoints import UNASSIGNED
from pykafka_broker.protocol.errors import ErrorCode

T = TypeVar("T")
Draw = Callable[[int], int]  # returns a random number from 0 to below the argument


def drawing(controller: Controller) -> Draw:
    """Return the source of chance, from which topic ids are drawn too."""
    return lambda below: int.from_bytes(controller.new_uuid(), "big") % below


def place(controller: Controller, count: int, replication_factor: int, draw: Draw) -> list[list[int]]:
    """Return replicas for `count` partitions, the leader first.

    A broker that is about to stop gets none; one that has stopped may, as any fenced broker.
    """
    brokers = [
        broker
        for broker in controller.image.brokers.values()
        if (broker.fenced or not broker.in_controlled_shutdown) and not broker.all_dirs_cordoned
    ]
    problem = None
    if all(broker.fenced for broker in brokers):
        problem = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > len(brokers):
        problem = (
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)
    if len(brokers) == 1:
        return [[brokers[0].id] for _ in range(count)]
    racks = Racks(brokers, draw)
    return [racks.next(replication_factor) for _ in range(count)]


class Placeable(Protocol):
    """A broker as far as placement needs to know."""

    @property
    def id(self) -> int: ...

    @property
    def rack(self) -> str | None: ...

    @property
    def fenced(self) -> bool: ...


class _Rack:
    """The brokers of a rack. Each partition begins with another broker."""

    def __init__(self) -> None:
        self.unfenced: list[int] = []
        self.fenced: list[int] = []
        self._turn = -1

    def shuffle(self, draw: Draw) -> None:
        self.unfenced = shuffled(self.unfenced, draw)
        self.fenced = shuffled(self.fenced, draw)

    def in_turn(self) -> Iterator[int]:
        """Yield the active brokers before the fenced brokers."""
        self._turn += 1
        for brokers in (self.unfenced, self.fenced):
            start = self._turn % len(brokers) if brokers else 0
            yield from brokers[start:]
            yield from brokers[:start]


class Racks:
    """The order of brokers, over the partitions of a topic in a request."""

    def __init__(self, brokers: Sequence[Placeable], draw: Draw) -> None:
        self._draw = draw
        racks: dict[str | None, _Rack] = {}
        for broker in sorted(brokers, key=lambda broker: broker.id):
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.unfenced).append(broker.id)
        self._racks = list(racks.values())
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._turn = 0
        self._shuffle()

    def _shuffle(self) -> None:
        self._racks = shuffled(self._racks, self._draw)
        for rack in self._racks:
            rack.shuffle(self._draw)

    def next(self, replication_factor: int) -> list[int]:
        if self._turn == self._unfenced:
            self._turn = 0
            self._shuffle()
        start = self._turn % len(self._racks)
        self._turn += 1
        racks = self._racks[start:] + self._racks[:start]
        first = next(index for index, rack in enumerate(racks) if rack.unfenced)
        turns = [rack.in_turn() for rack in racks]
        replicas = [next(turns[first])]
        following = turns[first + 1 :] + turns[: first + 1]
        while len(replicas) < replication_factor:
            for turn in following:
                broker = next(turn, None)
                if broker is not None and len(replicas) < replication_factor:
                    replicas.append(broker)
        return replicas


def shuffled(items: Sequence[T], draw: Draw) -> list[T]:
    rest = list(items)
    return [rest.pop(draw(len(rest))) for _ in items]


def check_assignment(controller: Controller, replicas: Sequence[int], expected: int | None) -> None:
    """Check a manual assignment. Raises INVALID_REPLICA_ASSIGNMENT.

    Since 4.4 a broker whose directories are all cordoned takes no replica even where it is named.

    Args:
        expected: The replica count of the topic's other partitions.
    """
    brokers = controller.image.brokers
    if not replicas:
        raise _refused("The manual partition assignment includes an empty replica list.")
    ordered = sorted(replicas)
    for position, replica in enumerate(ordered):
        if replica not in brokers:
            raise _refused(
                f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            )
        if controller.config.is_of_4_4 and brokers[replica].all_dirs_cordoned:
            raise _refused(
                f"The manual partition assignment includes broker {replica}, but all its log directories are cordoned."
            )
        if position and ordered[position - 1] == replica:
            raise _refused(f"The manual partition assignment includes the broker {replica} more than once.")
    if expected is not None and len(replicas) != expected:
        raise _refused(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {expected} replica(s)."
        )


def directory_of(image: MetadataImage, broker_id: int) -> bytes:
    """Return the only directory of a replica's broker; with several, UNASSIGNED: the broker chooses and reports."""
    broker = image.brokers.get(broker_id)
    return broker.log_dirs[0] if broker is not None and len(broker.log_dirs) == 1 else UNASSIGNED


def _refused(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
