"""Assignors of consumer groups and of share groups, by the names that members and `group.consumer.assignors` use.

Rule: an assignor is a function of its specs alone: the same members and topics always get the same answer.

- `range` gives a member a run of neighbouring partitions of each topic. Members are in order of instance id, then of
  member id, so that partition n of one topic lands where partition n of another topic does; where partitions can't be
  shared out evenly, the first members get one more.
- `uniform` gives all members equally many partitions, as far as subscriptions allow. Balance comes first, then
  stickiness. Where all members read the same topics the counts differ by at most one, and a partition moves only if its
  owner has too many or has gone; otherwise partitions move as long as one step makes the group more even.
- `simple` (KIP-932) gives a partition several readers. Every partition has a reader and every member has a partition if
  there is any, both as evenly as possible, and a member keeps its partitions as long as that holds. Members that read
  the same topics share all partitions; where subscriptions differ, each topic is shared out among its own readers. The
  partitions of a topic that may be assigned need not begin at 0.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from typing import NamedTuple

Assignment = dict[bytes, set[int]]  # topic id -> partitions
TopicIdPartition = tuple[bytes, int]


class MemberSpec(NamedTuple):
    """A member: the topics of the subscription, and the last target."""

    instance_id: str | None
    topics: Set[bytes]
    target: Mapping[bytes, Set[int]]


class GroupSpec(NamedTuple):
    """All members, and the partition count of each topic with a reader."""

    members: Mapping[str, MemberSpec]
    partitions: Mapping[bytes, int]

    @property
    def homogeneous(self) -> bool:
        """Whether all members read the same topics."""
        topics = None
        for member in self.members.values():
            if topics is None:
                topics = member.topics
            elif member.topics != topics:
                return False
        return True


Assignor = Callable[[GroupSpec], dict[str, Assignment]]


# range


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """Assign with `range`: each member gets a run of neighbouring partitions of each topic."""
    # Static members come first: their names outlive a restart.
    in_order = sorted(
        group.members.items(), key=lambda item: (item[1].instance_id is None, item[1].instance_id or "", item[0])
    )
    result: dict[str, Assignment] = {member_id: {} for member_id in group.members}
    for topic_id, count in group.partitions.items():
        readers = [member_id for member_id, member in in_order if topic_id in member.topics]
        if not readers:
            continue
        share, extra = divmod(count, len(readers))
        start = 0
        for index, member_id in enumerate(readers):
            end = start + share + (index < extra)
            if end > start:
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
    """Assignment to members with different topics."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._readers = {
            topic_id: [member_id for member_id in sorted(group.members) if topic_id in group.members[member_id].topics]
            for topic_id in group.partitions
        }
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
        before = self._owner.get(partition)
        if before is not None:
            self._load[before] -= 1
        self._owner[partition] = member_id
        self._load[member_id] += 1

    def _give_out_the_rest(self) -> None:
        """Assign the free partitions: topics with few readers first: few readers leave no choice."""
        by_choice = sorted(self._group.partitions, key=lambda topic_id: (len(self._readers[topic_id]), topic_id))
        for topic_id in by_choice:
            queue = [(self._load[member_id], member_id) for member_id in self._readers[topic_id]]
            heapq.heapify(queue)
            for partition in range(self._group.partitions[topic_id]):
                if not queue or (topic_id, partition) in self._owner:
                    continue
                load, member_id = queue[0]
                self._set((topic_id, partition), member_id)
                heapq.heapreplace(queue, (load + 1, member_id))

    def _even_out(self) -> None:
        """Move partitions from the reader of a topic with most partitions to the reader with least.

        The last partitions go first, so each member keeps its first partitions. Each move lowers the sum of the squared
        loads, so the loop ends.
        """
        moved = True
        while moved:
            moved = False
            for partition, owner in sorted(self._owner.items(), reverse=True):
                least = min(self._readers[partition[0]], key=lambda member_id: (self._load[member_id], member_id))
                if self._load[owner] - self._load[least] > 1:
                    self._set(partition, least)
                    moved = True


# simple


def assign_simple(members: Mapping[str, MemberSpec], assignable: Mapping[bytes, Set[int]]) -> dict[str, Assignment]:
    """Return each member's partitions.

    Args:
        assignable: The partitions of each topic that may be assigned.
    """
    assignment: dict[str, Assignment] = {member_id: {} for member_id in members}
    read = [member.topics for member in members.values()]
    if all(topics == read[0] for topics in read):
        everything = [(topic_id, p) for topic_id, parts in assignable.items() for p in sorted(parts)]
        _share_out(everything, members, assignment)
    else:
        for topic_id, parts in assignable.items():
            readers = {name: member for name, member in members.items() if topic_id in member.topics}
            _share_out([(topic_id, p) for p in sorted(parts)], readers, assignment)
    return assignment


def _share_out(
    partitions: list[TopicIdPartition], members: Mapping[str, MemberSpec], assignment: dict[str, Assignment]
) -> None:
    if not partitions or not members:
        return
    if len(members) >= len(partitions):
        shares = _one_each(partitions, members)
    else:
        shares = _some_each(partitions, members)
    for member_id, share in shares.items():
        for topic_id, partition in share:
            assignment[member_id].setdefault(topic_id, set()).add(partition)


def _had(members: Mapping[str, MemberSpec], wanted: list[TopicIdPartition]) -> dict[str, list[TopicIdPartition]]:
    known = set(wanted)
    return {
        name: sorted((t, p) for t, had in member.target.items() for p in had if (t, p) in known)
        for name, member in members.items()
    }


def _one_each(
    partitions: list[TopicIdPartition], members: Mapping[str, MemberSpec]
) -> dict[str, list[TopicIdPartition]]:
    """Assign where members are at least as many as partitions: a partition for each member."""
    least, with_one_more = divmod(len(members), len(partitions))
    readers: dict[TopicIdPartition, int] = dict.fromkeys(partitions, 0)
    shares: dict[str, list[TopicIdPartition]] = {}
    had = _had(members, partitions)
    for name in members:
        kept = next((p for p in had[name] if readers[p] < least), None)
        if kept is None and with_one_more:
            kept = next((p for p in had[name] if readers[p] == least), None)
            with_one_more -= kept is not None
        if kept is not None:
            readers[kept] += 1
            shares[name] = [kept]
    for name in members:
        if name not in shares:
            fewest = min(partitions, key=lambda p: readers[p])
            readers[fewest] += 1
            shares[name] = [fewest]
    return shares


def _some_each(
    partitions: list[TopicIdPartition], members: Mapping[str, MemberSpec]
) -> dict[str, list[TopicIdPartition]]:
    """Assign where partitions are more than members: a reader for each partition."""
    least, with_one_more = divmod(len(partitions), len(members))
    free = dict.fromkeys(partitions)
    shares: dict[str, list[TopicIdPartition]] = {}
    had = _had(members, partitions)
    for name in sorted(members, key=lambda name: -len(had[name])):
        quota = least + (with_one_more > 0)
        shares[name] = [p for p in had[name] if p in free][:quota]
        with_one_more -= len(shares[name]) > least
        for partition in shares[name]:
            del free[partition]
    left = deque(free)
    for quota in (least, least + 1):
        for name in members:
            while left and len(shares[name]) < quota:
                shares[name].append(left.popleft())
    return shares


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
