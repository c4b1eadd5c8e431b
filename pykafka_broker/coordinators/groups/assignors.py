"""Assignors of consumer and share groups.

Rule: an assignor is a function of its specs alone: the same members and topics always get the same answer.

- `range` gives a member a run of neighbouring partitions of each topic. Members are in order of instance id, then of
  member id, so that partition n of one topic lands where partition n of another topic does; where partitions can't be
  shared out evenly, the first members get one more.
- `uniform` gives all members equally many partitions, as far as subscriptions allow. Balance comes first, then
  stickiness. Where all members read the same topics the counts differ by at most one, and a partition moves only if its
  owner has too many or has gone; otherwise partitions move as long as one step makes the group more even.
- `simple`, of share groups (KIP-932), gives every partition the same number of readers, as many as let every member
  have a partition. Members have equally many partitions, give or take one, and keep theirs as far as that allows.
  Where subscriptions differ, each topic is shared out among its own readers.

Targets of `uniform` and `simple` are Kafka's, partition by partition: which members and partitions come first follows
from the order of Java's hash tables.

`sticky`, which assigns tasks to the members of streams groups, stands in `streams/sticky_assignor.py`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, islice
from math import ceil
from typing import Any, NamedTuple

from pykafka_broker.coordinators.groups.java_order import (
    in_hash_order,
    in_order_of_absent_keys,
    partition_hash,
    uuid_hash,
)
from pykafka_broker.protocol.enums import TopicIdPartition

Assignment = dict[bytes, set[int]]  # topic id -> partitions
_MOST_ROUNDS = 16  # of looks at all topics


class MemberSpec(NamedTuple):
    """A member: the topics of the subscription, and the last target."""

    instance_id: str | None
    topics: Set[bytes]
    target: Mapping[bytes, Set[int]]


class GroupSpec(NamedTuple):
    """All members in the order of Kafka's table of them, and the partition count of each topic with a reader.

    partitions: The topics in the order of a hash table of their names.
    subscriptions_differ: Members ask for different topics, although the topics that exist may be the same.
    """

    members: Mapping[str, MemberSpec]
    partitions: Mapping[bytes, int]
    subscriptions_differ: bool = False

    @property
    def homogeneous(self) -> bool:
        """Whether all members have the same subscription. (Kafka: SubscriptionType.HOMOGENEOUS)"""
        if self.subscriptions_differ:
            return False
        topics = None
        for member in self.members.values():
            if topics is None:
                topics = member.topics
            elif member.topics is not topics and member.topics != topics:
                return False
        return True


Assignor = Callable[[GroupSpec], dict[str, Assignment]]


class _Readers:
    """The readers of topics. Members with the same topics are a class, and topics of the same classes share a list."""

    def __init__(self, group: GroupSpec, order: Callable[[str], Any]) -> None:
        """Sort the members into classes; `order` is the key by which lists are sorted."""
        classes: dict[Set[bytes], list[str]] = {}
        for member_id, member in group.members.items():
            classes.setdefault(frozenset(member.topics), []).append(member_id)
        self._order = order
        self._classes_of: dict[bytes, list[int]] = {topic_id: [] for topic_id in group.partitions}
        for index, topics in enumerate(classes):
            for topic_id in topics:
                if topic_id in self._classes_of:
                    self._classes_of[topic_id].append(index)
        self._members = list(classes.values())
        self._lists: dict[tuple[int, ...], list[str]] = {}

    def of(self, topic_id: bytes) -> list[str]:
        """Return the members that read the topic, in order."""
        signature = tuple(self._classes_of[topic_id])
        found = self._lists.get(signature)
        if found is None:
            readers = [member_id for index in signature for member_id in self._members[index]]
            found = self._lists[signature] = sorted(readers, key=self._order)
        return found


# range


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """Assign with `range`: each member gets a run of neighbouring partitions of each topic."""
    # Static members come first: their names outlive a restart.
    in_order = sorted(
        group.members.items(), key=lambda item: (item[1].instance_id is None, item[1].instance_id or "", item[0])
    )
    result: dict[str, Assignment] = {member_id: {} for member_id in group.members}
    rank = {member_id: index for index, (member_id, _) in enumerate(in_order)}
    all_readers = _Readers(group, rank.__getitem__)
    for topic_id, count in group.partitions.items():
        readers = all_readers.of(topic_id)
        if not readers:
            continue
        share, extra = divmod(count, len(readers))
        start = 0
        for member_id in readers if share else readers[:extra]:
            end = start + share + (extra > 0)
            extra -= extra > 0
            result[member_id][topic_id] = set(range(start, end))
            start = end
    return result


# uniform


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    """Assign with `uniform`, the default of Kafka's group coordinator: counts are even, and little moves."""
    if not group.members:
        return {}
    assigned = _share_evenly(group) if group.homogeneous else _Balance(group).run()
    return {name: in_topic_order(share, group.members[name].target) for name, share in assigned.items()}


def in_topic_order(share: Assignment, had: Mapping[bytes, Set[int]]) -> Assignment:
    """Return a share in the order of Kafka's table of its topics: a topic comes before older ones of its bucket."""
    new = [topic_id for topic_id in reversed(share) if topic_id not in had]
    came = (*new, *(topic_id for topic_id in had if topic_id in share))
    return {topic_id: share[topic_id] for topic_id in in_hash_order(came, hash_of=uuid_hash)}


def _still_valid(group: GroupSpec, member_id: str) -> Iterator[TopicIdPartition]:
    """Yield the partitions of a member's last target within topics and counts of today, in Kafka's order."""
    member = group.members[member_id]
    for topic_id in in_hash_order(member.target, hash_of=uuid_hash):
        if topic_id in member.topics:
            count = group.partitions.get(topic_id, 0)
            for partition in sorted(member.target[topic_id]):
                if partition < count:
                    yield topic_id, partition


def _share_evenly(group: GroupSpec) -> dict[str, Assignment]:
    """Assign to members with the same topics, as Kafka does. (Kafka: UniformHomogeneousAssignmentBuilder)

    The first members in the order of a Java hash table that have one partition more keep it; what remains of such
    partitions goes to the last members.
    """
    subscribed = next(iter(group.members.values())).topics
    topics = in_hash_order((topic_id for topic_id in group.partitions if topic_id in subscribed), hash_of=uuid_hash)
    share, extra = divmod(sum(group.partitions[topic_id] for topic_id in topics), len(group.members))
    result: dict[str, Assignment] = {}
    taken: set[TopicIdPartition] = set()
    full, hungry = list[str](), list[tuple[str, int]]()  # members without one more, and those with less than a share
    for member_id in in_hash_order(group.members):
        valid = [partition for partition in _still_valid(group, member_id) if partition not in taken]
        kept = valid[: share + (extra > 0)]
        if len(kept) > share:
            extra -= 1
        elif len(kept) == share:
            full.append(member_id)
        else:
            hungry.append((member_id, share - len(kept)))
        taken.update(kept)
        mine = result[member_id] = {}
        for partition in kept:
            _give(mine, *partition)
    every = ((topic_id, partition) for topic_id in topics for partition in range(group.partitions[topic_id]))
    free = (partition for partition in every if partition not in taken)
    for member_id, missing in hungry:
        for partition in islice(free, missing):
            _give(result[member_id], *partition)
    for partition, member_id in zip(free, reversed([*full, *(name for name, _ in hungry)]), strict=False):
        _give(result[member_id], *partition)
    return result


def _give(assignment: Assignment, topic_id: bytes, partition: int) -> None:
    assignment.setdefault(topic_id, set()).add(partition)


class _Balance:
    """Assignment to members with different topics, as Kafka makes it. (Kafka: UniformHeterogeneousAssignmentBuilder)

    Topics with most partitions for each reader have their turn first. Readers with equal loads come in the order of a
    Java hash table of all members.
    """

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        in_order = in_hash_order(group.members)
        self._readers = readers = _Readers(group, {name: index for index, name in enumerate(in_order)}.__getitem__)
        counts = {topic_id: len(readers.of(topic_id)) for topic_id in group.partitions}
        self._topics = sorted(
            (topic_id for topic_id, count in counts.items() if count),
            key=lambda id: (-group.partitions[id] / counts[id], counts[id], _signed(id[:8]), _signed(id[8:])),
        )
        self._load = dict.fromkeys(in_order, 0)
        self._assigned: dict[str, Assignment] = {member_id: {} for member_id in in_order}

    def run(self) -> dict[str, Assignment]:
        taken: set[TopicIdPartition] = set()
        for member_id in self._load:
            kept = [partition for partition in _still_valid(self._group, member_id) if partition not in taken]
            taken.update(kept)
            for partition in kept:
                self._assign(member_id, *partition)
        for topic_id in self._topics:
            self._give_out_the_rest(topic_id)
        for _ in range(_MOST_ROUNDS):
            if not sum(map(self._even_out, self._topics)):
                break
        return self._assigned

    def _assign(self, member_id: str, topic_id: bytes, partition: int) -> None:
        _give(self._assigned[member_id], topic_id, partition)
        self._load[member_id] += 1

    def _take(self, member_id: str, topic_id: bytes, partition: int) -> None:
        assigned = self._assigned[member_id]
        assigned[topic_id].remove(partition)
        if not assigned[topic_id]:
            del assigned[topic_id]
        self._load[member_id] -= 1

    def _give_out_the_rest(self, topic_id: bytes) -> None:
        """Assign the free partitions of a topic."""
        readers = self._readers.of(topic_id)
        taken = set[int]().union(*(self._assigned[member_id].get(topic_id, ()) for member_id in readers))
        free = [partition for partition in range(self._group.partitions[topic_id]) if partition not in taken]
        if free:
            takers = self._least_loaded(sorted(readers, key=self._load.__getitem__))
            for partition, (member_id, _) in zip(free, takers, strict=False):
                self._assign(member_id, topic_id, partition)

    def _even_out(self, topic_id: bytes) -> bool:
        """Move partitions of a topic from the most loaded readers to the least loaded; return whether any moved.

        The last partitions of a reader go first.
        """
        load, readers = self._load, self._readers.of(topic_id)
        loads = [load[member_id] for member_id in readers]
        if max(loads) - min(loads) <= 1:
            return False
        readers = sorted(readers, key=load.__getitem__)
        owned = {member_id: sorted(self._assigned[member_id].get(topic_id, ())) for member_id in readers}
        givers, takers = self._most_loaded(readers, owned), self._least_loaded(readers)
        moved = False
        for (giver, high), (taker, low) in zip(givers, takers, strict=False):
            if high - low <= 1:
                break
            partition = owned[giver].pop()
            self._take(giver, topic_id, partition)
            self._assign(taker, topic_id, partition)
            moved = True
        return moved

    def _least_loaded(self, readers: list[str]) -> Iterator[tuple[str, int]]:
        """Yield the least loaded reader and its load, again and again, with one partition more each time.

        readers: The least loaded come first.
        """
        loads = [self._load[member_id] for member_id in readers]
        level, end = loads[0], 0
        while True:
            while end < len(loads) and loads[end] <= level:
                end += 1
            for index in range(end):
                yield readers[index], level
            level += 1

    def _most_loaded(self, readers: list[str], owned: Mapping[str, list[int]]) -> Iterator[tuple[str, int]]:
        """Yield the most loaded reader that owns a partition, and its load, again and again, each time with one less.

        readers: The least loaded come first.
        """
        loads = dict(self._load)
        others, giving = list(readers), list[str]()
        level = loads[readers[-1]]
        while others or giving:
            while others and loads[others[-1]] >= level:
                giving.append(others.pop())
            turn = 0
            while turn < len(giving):
                if owned[giving[turn]]:
                    yield giving[turn], level
                    turn += 1
                else:  # the first reader takes the place of a reader that has nothing to give, as in Kafka's array
                    giving[turn] = giving[0]
                    del giving[0]
            level -= 1


def _signed(half: bytes) -> int:
    """Return half of a topic id as Kafka compares it."""
    return int.from_bytes(half, "big", signed=True)


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}  # by group.consumer.assignors


# -- simple

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
            _give_to_next(partition, hungry, shares, quotas)
    for name, share in shares.items():
        for topic_id, index in share:
            assignment[name].setdefault(topic_id, set()).add(index)


def _give_to_next(partition: TopicIdPartition, hungry: deque[str], shares: Shares, quotas: Mapping[str, int]) -> None:
    """Give a partition to the next member in turn that does not have it, if any."""
    for _ in range(len(hungry)):
        name = hungry[0]
        hungry.rotate(-1)
        if partition not in shares[name]:
            shares[name][partition] = None
            if len(shares[name]) == quotas[name]:
                hungry.pop()
            return
