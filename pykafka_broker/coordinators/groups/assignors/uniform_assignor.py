"""`uniform`: everybody has as many partitions as everybody else, as far as subscriptions allow, and keeps what it had.

Rule: balance first, then stickiness. Where all members read the same topics the counts differ by at most one and a
partition moves only if its owner has too many or has gone; otherwise partitions move as long as one step makes the
group more even.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from pykafka_broker.coordinators.groups.assignors.spec import Assignment, GroupSpec

Partition = tuple[bytes, int]


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    """The `uniform` assignor: the default of Kafka's group coordinator."""
    if not group.members:
        return {}
    return _share_evenly(group) if group.homogeneous else _Balance(group).run()


def _all_partitions(group: GroupSpec) -> Iterator[Partition]:
    for topic_id, count in group.partitions.items():
        for partition in range(count):
            yield topic_id, partition


def _still_valid(group: GroupSpec, member_id: str) -> Iterator[Partition]:
    """What the member had and may still have, in a fixed order."""
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
    taken: set[Partition] = set()
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
    free = (one for one in _all_partitions(group) if one[0] in topics and one not in taken)
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
    """Members that read different topics."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._readers = {
            topic_id: [member_id for member_id in sorted(group.members) if topic_id in group.members[member_id].topics]
            for topic_id in group.partitions
        }
        self._owner: dict[Partition, str] = {}
        self._load = dict.fromkeys(group.members, 0)

    def run(self) -> dict[str, Assignment]:
        for member_id in sorted(self._group.members):
            for kept in _still_valid(self._group, member_id):
                if kept not in self._owner:
                    self._set(kept, member_id)
        self._give_out_the_rest()
        self._even_out()
        result: dict[str, Assignment] = {member_id: {} for member_id in self._group.members}
        for (topic_id, index), owner in self._owner.items():
            _give(result[owner], topic_id, index)
        return result

    def _set(self, partition: Partition, member_id: str) -> None:
        before = self._owner.get(partition)
        if before is not None:
            self._load[before] -= 1
        self._owner[partition] = member_id
        self._load[member_id] += 1

    def _give_out_the_rest(self) -> None:
        """Topics with few readers first, since those have no choice."""
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
        """Move partitions from whoever has most to whoever has least among a topic's readers, the last ones first, so
        that each keeps its first ones. Each move lowers the sum of the squared loads, so that this ends."""
        moved = True
        while moved:
            moved = False
            for partition, owner in sorted(self._owner.items(), reverse=True):
                least = min(self._readers[partition[0]], key=lambda member_id: (self._load[member_id], member_id))
                if self._load[owner] - self._load[least] > 1:
                    self._set(partition, least)
                    moved = True
