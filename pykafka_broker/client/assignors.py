"""How the leader of a classic group shares out partitions: what Java's RangeAssignor and RoundRobinAssignor decide.

Rule: members are in the order of their instance ids, then of their member ids, as Java has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pykafka_broker.protocol.enums import TopicPartition


class Subscriber(NamedTuple):
    """A member and what it wants; `instance_id` None: it is not a static one."""

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None


Assignment = dict[str, list[TopicPartition]]


def _ordered(members: list[Subscriber]) -> list[Subscriber]:
    return sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or "", each.member_id))


def assign_range(members: list[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    """Of each topic a run of partitions to each member; the first ones have one more."""
    found: Assignment = {each.member_id: [] for each in members}
    for topic, count in sorted(partitions.items()):
        takers = [each for each in _ordered(members) if topic in each.topics]
        start = 0
        for number, taker in enumerate(takers):
            size = count // len(takers) + (number < count % len(takers))
            found[taker.member_id] += [TopicPartition(topic, each) for each in range(start, start + size)]
            start += size
    return found


def assign_round_robin(members: list[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    """One partition after the other to one member after the other."""
    found: Assignment = {each.member_id: [] for each in members}
    circle, place = _ordered(members), 0
    for topic, count in sorted(partitions.items()):
        if not any(topic in each.topics for each in members):
            continue
        for partition in range(count):
            while topic not in circle[place].topics:
                place = (place + 1) % len(circle)
            found[circle[place].member_id].append(TopicPartition(topic, partition))
            place = (place + 1) % len(circle)
    return found


ASSIGNORS: dict[str, Callable[[list[Subscriber], Mapping[str, int]], Assignment]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
}
