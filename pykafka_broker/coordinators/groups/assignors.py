"""Assignors of consumer groups and of share groups.

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

What `simple` answers is Kafka's answer, partition by partition: the first member with one partition more, the first
partition that a member loses and the first partition that is given out follow from the order of Java's hash tables.

`sticky`, which assigns tasks to the members of streams groups, stands in `streams/sticky_assignor.py`.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from math import ceil
from typing import Any, NamedTuple

from pykafka_broker.coordinators.groups.java_order import (
    in_hash_order,
    in_order_of_absent_keys,
    partition_hash,
    uuid_hash,
)

Assignment = dict[bytes, set[int]]  # topic id -> partitions
TopicIdPartition = tuple[bytes, int]


class MemberSpec(NamedTuple):
    """A member: the topics of the subscription, and the last target."""

    instance_id: str | None
    topics: Set[bytes]
    target: Mapping[bytes, Set[int]]


class GroupSpec(NamedTuple):
    """All members, and the partition count of each topic with a reader.

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
        self.classes: dict[Set[bytes], list[str]] = {}
        for member_id, member in group.members.items():
            self.classes.setdefault(frozenset(member.topics), []).append(member_id)
        self._order = order
        self._classes_of: dict[bytes, list[int]] = {topic_id: [] for topic_id in group.partitions}
        for index, topics in enumerate(self.classes):
            for topic_id in topics:
                if topic_id in self._classes_of:
                    self._classes_of[topic_id].append(index)
        self._members = list(self.classes.values())
        self._lists: dict[tuple[int, ...], list[str]] = {}

    def signature(self, topic_id: bytes) -> tuple[int, ...]:
        """Return the indexes of the classes that read the topic."""
        return tuple(self._classes_of[topic_id])

    def of(self, topic_id: bytes) -> list[str]:
        """Return the members that read the topic, in order."""
        signature = self.signature(topic_id)
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
    return _share_evenly(group) if group.homogeneous else _Balance(group).run()


def _all_partitions(group: GroupSpec) -> Iterator[TopicIdPartition]:
    for topic_id, count in group.partitions.items():
        for partition in range(count):
            yield topic_id, partition


def _still_valid(group: GroupSpec, member_id: str) -> Iterator[TopicIdPartition]:
    """Yield the partitions of a member's last target within topics and counts of today, in a fixed order."""
    member = group.members[member_id]
    for topic_id, partitions in sorted(member.target.items()):
        if topic_id in member.topics:
            count = group.partitions.get(topic_id, 0)
            for partition in sorted(partitions):
                if partition < count:
                    yield topic_id, partition


def _share_evenly(group: GroupSpec) -> dict[str, Assignment]:
    topics = next(iter(group.members.values())).topics
    total = sum(count for topic_id, count in group.partitions.items() if topic_id in topics)
    share, extra = divmod(total, len(group.members))
    result: dict[str, Assignment] = {}
    taken: set[TopicIdPartition] = set()
    hungry: list[tuple[str, int]] = []
    for member_id in sorted(group.members):
        mine = result[member_id] = {}
        kept = 0
        for topic_id, partition in _still_valid(group, member_id):
            if (topic_id, partition) in taken:
                continue
            if kept == share:
                if not extra:
                    break
                extra -= 1
            elif kept > share:
                break
            _give(mine, topic_id, partition)
            taken.add((topic_id, partition))
            kept += 1
        if kept <= share:
            hungry.append((member_id, kept))
    free = (partition for partition in _all_partitions(group) if partition[0] in topics and partition not in taken)
    for member_id, kept in hungry:
        quota = share
        if extra and kept <= share:
            quota += 1
            extra -= 1
        for _ in range(quota - kept):
            _give(result[member_id], *next(free))
    return result


def _give(assignment: Assignment, topic_id: bytes, partition: int) -> None:
    assignment.setdefault(topic_id, set()).add(partition)


class _Balance:
    """Assignment to members with different topics.

    Queues hold pairs of a load and a reader. A pair whose load has changed since is put right when it comes to the top,
    so that the least loaded of thousands of readers costs a few looks.
    """

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._readers = _Readers(group, str)
        self._owner: dict[TopicIdPartition, str] = {}
        self._load = dict.fromkeys(group.members, 0)

    def run(self) -> dict[str, Assignment]:
        for member_id in sorted(self._group.members):
            for kept in _still_valid(self._group, member_id):
                if kept not in self._owner:
                    self._set(kept, member_id)
        self._give_out_the_rest()
        self._even_out()
        result: dict[str, Assignment] = {member_id: {} for member_id in self._group.members}
        for (topic_id, partition), owner in self._owner.items():
            _give(result[owner], topic_id, partition)
        return result

    def _set(self, partition: TopicIdPartition, member_id: str) -> None:
        self._owner[partition] = member_id
        self._load[member_id] += 1

    def _give_out_the_rest(self) -> None:
        """Assign the free partitions: topics with few readers first: few readers leave no choice."""
        readers, load = self._readers, self._load
        queues: dict[
            tuple[int, ...], list[Queued]
        ] = {}  # by signature; loads only grow, so no reader is queued too late
        for topic_id in sorted(self._group.partitions, key=lambda topic_id: (len(readers.of(topic_id)), topic_id)):
            signature = readers.signature(topic_id)
            if signature not in queues:
                queues[signature] = sorted((load[member_id], member_id) for member_id in readers.of(topic_id))
            queue = queues[signature]
            for partition in range(self._group.partitions[topic_id]):
                if not queue or (topic_id, partition) in self._owner:
                    continue
                while load[queue[0][1]] != queue[0][0]:
                    heapq.heapreplace(queue, (load[queue[0][1]], queue[0][1]))
                self._set((topic_id, partition), queue[0][1])

    def _even_out(self) -> None:
        """Move partitions from the reader of a topic with most partitions to the reader with least.

        The last partitions go first, so each member keeps its first partitions. Each move lowers the sum of the squared
        loads, so the loop ends.
        """
        load, owner_of = self._load, self._owner
        loads = _ClassLoads(self._readers.classes, load)
        partitions = sorted(owner_of, reverse=True)
        least_of_all = min(load.values())  # no move lowers it: the giver keeps more than the taker had
        moved = True
        while moved:
            moved = False
            topic = b""
            for partition in partitions:
                owner = owner_of[partition]
                if load[owner] - least_of_all <= 1:
                    continue
                if partition[0] != topic:
                    topic = partition[0]
                    loads.begin(self._readers.signature(topic))
                if load[owner] - loads.lowest() > 1:
                    owner_of[partition] = least = loads.least_reader()
                    loads.change(owner, -1)
                    loads.change(least, 1)
                    moved = True


Queued = tuple[int, str]  # load, member


class _ClassLoads:
    """The least loaded reader of a topic, the least of its classes' least, while loads rise and fall."""

    def __init__(self, classes: Mapping[Set[bytes], list[str]], load: dict[str, int]) -> None:
        self._load = load
        self._class_of = {member_id: index for index, ids in enumerate(classes.values()) for member_id in ids}
        self._queues = [sorted((load[member_id], member_id) for member_id in ids) for ids in classes.values()]
        self._topic: list[tuple[Queued, int]] = []  # the least of each of the topic's classes, with the class
        self._queued: dict[int, Queued] = {}  # what `_topic` has of each class; other pairs are out of date

    def begin(self, signature: tuple[int, ...]) -> None:
        """Go on with a topic of other classes."""
        self._queued = {index: self._least_of(index) for index in signature}
        self._topic = sorted((least, index) for index, least in self._queued.items())

    def lowest(self) -> int:
        """Return the load of the topic's least loaded reader."""
        topic = self._topic
        while True:
            queued, index = topic[0]
            least = self._least_of(index)
            if queued == least:
                return least[0]
            if self._queued[index] == queued:
                self._queued[index] = least
                heapq.heapreplace(topic, (least, index))
            else:
                heapq.heappop(topic)

    def least_reader(self) -> str:
        """Return the reader, of readers with the same load the first by id; `lowest` comes first."""
        return self._topic[0][0][1]

    def change(self, member_id: str, by: int) -> None:
        """Change a member's load."""
        self._load[member_id] += by
        index = self._class_of[member_id]
        heapq.heappush(self._queues[index], (self._load[member_id], member_id))
        least = self._least_of(index)
        if index in self._queued and least < self._queued[index]:
            self._queued[index] = least
            heapq.heappush(self._topic, (least, index))

    def _least_of(self, index: int) -> Queued:
        queue, load = self._queues[index], self._load
        while load[queue[0][1]] != queue[0][0]:
            heapq.heappop(queue)
        return queue[0]


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}  # by group.consumer.assignors


# simple


_FILL = 0.75  # of a hash table that is made for a number of entries
Ordered = dict[TopicIdPartition, None]  # partitions in the order of their coming


def assign_simple(
    members: Mapping[str, MemberSpec], assignable: Mapping[bytes, Set[int]], subscriptions_differ: bool = False
) -> dict[str, Assignment]:
    """Assign with `simple`: a partition has several readers.

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
    return {name: _in_topic_order(share, members[name].target) for name, share in assignment.items()}


def _in_topic_order(share: Assignment, had: Mapping[bytes, Set[int]]) -> Assignment:
    """Return a share in the order of the table of its topics: a topic comes before older ones of its bucket."""
    new = [topic_id for topic_id in reversed(share) if topic_id not in had]
    came = (*new, *(topic_id for topic_id in had if topic_id in share))
    return {topic_id: share[topic_id] for topic_id in in_hash_order(came, hash_of=uuid_hash)}


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
    shares: dict[str, Ordered] = {
        name: dict.fromkeys(kept[max(len(kept) - quotas[name], 0) :]) for name, kept in had.items()
    }
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


def _give_to_next(
    partition: TopicIdPartition, hungry: deque[str], shares: dict[str, Ordered], quotas: Mapping[str, int]
) -> None:
    """Give a partition to the next member in turn that does not have it, if any."""
    for _ in range(len(hungry)):
        name = hungry[0]
        hungry.rotate(-1)
        if partition not in shares[name]:
            shares[name][partition] = None
            if len(shares[name]) == quotas[name]:
                hungry.pop()
            return
