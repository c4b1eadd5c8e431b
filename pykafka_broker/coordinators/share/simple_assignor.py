"""The assignor of share groups: `simple` (KIP-932), which gives a partition several readers.

Rule: the same members, topics and last targets always get the same answer, and it is Kafka's, partition by partition.
Every partition has the same number of readers, as many as let every member have a partition, and members have equally
many partitions, give or take one. A member keeps its partitions as far as that allows.

Members that read the same topics share all partitions. Where subscriptions differ, each topic is shared out among its
own readers. The first member with one partition more, the first partition that a member loses and the first partition
that is given out follow from the order of Java's hash tables.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain
from math import ceil

from pykafka_broker.coordinators.groups.assignors import (
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicIdPartition,
    in_topic_order,
)
from pykafka_broker.coordinators.groups.java_order import (
    in_hash_order,
    in_order_of_absent_keys,
    partition_hash,
    uuid_hash,
)

_FILL = 0.75  # of a hash table that is made for a number of entries
Shares = dict[str, dict[TopicIdPartition, None]]  # by member id; a dict has the order of its keys


def assign_simple(
    members: Mapping[str, MemberSpec], assignable: Mapping[bytes, Set[int]], subscriptions_differ: bool = False
) -> dict[str, Assignment]:
    """Return each member's partitions.

    Args:
        members: The members in the order of the group's table.
        assignable: The partitions of each topic that may be assigned, which need not begin at 0; the topics in the
            order of a hash table of their names.
        subscriptions_differ: Members ask for different topics, although the topics that exist may be the same.
    """
    assignment: dict[str, Assignment] = {member_id: {} for member_id in members}
    ids = in_hash_order(members)
    if GroupSpec(members, {}, subscriptions_differ).homogeneous:
        for member_id, member in members.items():  # a topic stays in a target when its last partition has gone
            assignment[member_id] = {topic_id: set() for topic_id in member.target if topic_id in assignable}
        partitions = _in_hash_order((topic_id, p) for topic_id, parts in assignable.items() for p in sorted(parts))
        had = {member_id: _in_hash_order(_had(members[member_id], assignable)) for member_id in ids}
        capacity = int((len(partitions) + 1) / _FILL) + 1
        met = in_order_of_absent_keys(chain(*had.values(), partitions), capacity, partition_hash)
        _share_out(met, had, assignment)
    else:
        for topic_id, parts in assignable.items():
            topic = {topic_id: parts}
            had = {name: sorted(_had(members[name], topic)) for name in ids if topic_id in members[name].topics}
            _share_out([(topic_id, p) for p in sorted(parts)], had, assignment)
    return {name: in_topic_order(share, members[name].target) for name, share in assignment.items()}


def _in_hash_order(partitions: Iterable[TopicIdPartition]) -> list[TopicIdPartition]:
    return in_hash_order(partitions, hash_of=partition_hash)


def _had(member: MemberSpec, assignable: Mapping[bytes, Set[int]]) -> list[TopicIdPartition]:
    """Return the partitions of the last target that may be assigned again."""
    return [
        (topic_id, partition)
        for topic_id in in_hash_order(member.target, hash_of=uuid_hash)
        for partition in sorted(member.target[topic_id] & assignable.get(topic_id, frozenset()))
    ]


def _share_out(
    partitions: Sequence[TopicIdPartition],
    had: Mapping[str, Sequence[TopicIdPartition]],
    assignment: dict[str, Assignment],
) -> None:
    """Add a share of the partitions to the assignment of each member.

    Args:
        partitions: in the order in which they are given out.
        had: What each member had before; its first partitions are the first to go.
    """
    if not partitions or not had:
        return
    readers_each = ceil(len(had) / len(partitions))
    mean = readers_each * len(partitions) / len(had)
    quotas = {name: ceil(mean * (at + 1)) - ceil(mean * at) for at, name in enumerate(had)}
    shares: Shares = {name: dict.fromkeys(kept[max(len(kept) - quotas[name], 0) :]) for name, kept in had.items()}
    readers = Counter(chain(*shares.values()))
    for share in shares.values():
        for partition in [each for each in share if readers[each] > readers_each]:
            del share[partition]
            readers[partition] -= 1
    hungry = deque(name for name, share in shares.items() if len(share) < quotas[name])
    for partition in partitions:
        for _ in range(readers_each - readers[partition]):
            _give(partition, hungry, shares, quotas)
    for name, share in shares.items():
        for topic_id, index in share:
            assignment[name].setdefault(topic_id, set()).add(index)


def _give(partition: TopicIdPartition, hungry: deque[str], shares: Shares, quotas: Mapping[str, int]) -> None:
    """Give a partition to the next member in turn that does not have it, if any."""
    for _ in range(len(hungry)):
        name = hungry[0]
        hungry.rotate(-1)
        if partition not in shares[name]:
            shares[name][partition] = None
            if len(shares[name]) == quotas[name]:
                hungry.pop()
            return
