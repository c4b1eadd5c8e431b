"""The assignor `simple` (KIP-932): partitions may have several readers.

Rule: every partition has a reader, every member has a partition if there is any for it, both as evenly as it goes, and
what a member has it keeps as long as that is so. Members that read the same topics share all of their partitions;
where members differ, each topic is shared out among its own readers. The partitions of a topic that may be assigned
need not begin at 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Set

from pykafka_broker.coordinators.groups.assignors import Assignment, MemberSpec

Partition = tuple[bytes, int]


def assign_simple(members: Mapping[str, MemberSpec], assignable: Mapping[bytes, Set[int]]) -> dict[str, Assignment]:
    """Return each member's partitions. assignable: the partitions of each topic that may be assigned."""
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
    partitions: list[Partition], members: Mapping[str, MemberSpec], assignment: dict[str, Assignment]
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


def _had(members: Mapping[str, MemberSpec], wanted: list[Partition]) -> dict[str, list[Partition]]:
    known = set(wanted)
    return {
        name: sorted((t, p) for t, had in member.target.items() for p in had if (t, p) in known)
        for name, member in members.items()
    }


def _one_each(partitions: list[Partition], members: Mapping[str, MemberSpec]) -> dict[str, list[Partition]]:
    """At least as many members as partitions: one partition for each member."""
    least, with_one_more = divmod(len(members), len(partitions))
    readers: dict[Partition, int] = dict.fromkeys(partitions, 0)
    shares: dict[str, list[Partition]] = {}
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


def _some_each(partitions: list[Partition], members: Mapping[str, MemberSpec]) -> dict[str, list[Partition]]:
    """More partitions than members: one reader for each partition."""
    least, with_one_more = divmod(len(partitions), len(members))
    free = dict.fromkeys(partitions)
    shares: dict[str, list[Partition]] = {}
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
