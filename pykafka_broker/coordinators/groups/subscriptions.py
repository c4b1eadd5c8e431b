"""The subscriptions of a group's members, each kept once, and the topics behind them.

Rule: the members of a group mostly read the same topics. Equal sets of names are one object, which is counted, so that
a change of one member among thousands asks only what the member brings and takes away, and what was found for one set
of names serves all members. Nothing here decides: a group adds and removes its members by replay, and the table forgets
what it has found when topics change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from pykafka_broker.coordinators.groups.topics import ClusterTopics, TopicHashes, existing

_MOST_KEPT = 100_000  # names and ids that `TopicsRead` remembers


class SubscribedMember(Protocol):
    """A member: the topics by name, and a pattern; None or "" without one."""

    topic_names: frozenset[str]
    topic_regex: str | None


class PatternTopics(Protocol):
    @property
    def topics(self) -> frozenset[str]: ...


def names_read(member: SubscribedMember, regexes: Mapping[str, PatternTopics]) -> frozenset[str]:
    """Return the names of a member's topics; a pattern stands for the topics of the last resolution."""
    resolved = regexes.get(member.topic_regex) if member.topic_regex else None
    if resolved is None:
        return member.topic_names
    return member.topic_names | resolved.topics if member.topic_names else resolved.topics


class CountedNames(NamedTuple):
    """A set of names, and the number of members with an equal set."""

    names: frozenset[str]
    members: int


class Subscriptions:
    """The sets of names and the patterns of all members of a group."""

    def __init__(self) -> None:
        self._sets: dict[frozenset[str], CountedNames] = {}
        self._holders: Counter[str] = Counter()  # by name: how many of `_sets` have it
        self._patterns: Counter[str] = Counter()
        self._union: frozenset[str] | None = None  # all names, until a set comes or goes

    def add(self, member: SubscribedMember) -> None:
        """Count a member, whose names become the object that equal members have."""
        names = member.topic_names
        kept = self._sets.get(names)
        if kept is None:
            self._sets[names] = CountedNames(names, 1)
            self._holders.update(names)
            self._union = None
        else:
            self._sets[names] = CountedNames(kept.names, kept.members + 1)
            member.topic_names = kept.names
        if member.topic_regex:
            self._patterns[member.topic_regex] += 1

    def remove(self, member: SubscribedMember) -> None:
        """Take back a counted member."""
        names = member.topic_names
        kept = self._sets[names]
        if kept.members > 1:
            self._sets[names] = CountedNames(kept.names, kept.members - 1)
        else:
            del self._sets[names]
            self._union = None
            for name in names:
                if self._holders[name] > 1:
                    self._holders[name] -= 1
                else:
                    del self._holders[name]
        if member.topic_regex:
            if self._patterns[member.topic_regex] > 1:
                self._patterns[member.topic_regex] -= 1
            else:
                del self._patterns[member.topic_regex]

    def has_name(self, topic: str) -> bool:
        return topic in self._holders

    def has_pattern(self, pattern: str) -> bool:
        return pattern in self._patterns

    def patterns_after(self, gone: Collection[SubscribedMember], come: Collection[SubscribedMember]) -> set[str]:
        """Return the patterns of all members after some have gone and others have come."""
        patterns = {*self._patterns}
        if patterns:
            without = Counter(member.topic_regex for member in gone if member.topic_regex)
            patterns.difference_update(
                pattern for pattern, leaving in without.items() if leaving >= self._patterns[pattern]
            )
        patterns.update(member.topic_regex for member in come if member.topic_regex)
        return patterns

    def names_after(self, gone: Collection[SubscribedMember], come: Collection[SubscribedMember]) -> frozenset[str]:
        """Return the names of all members after some have gone and others have come."""
        if self._union is None:
            self._union = frozenset(self._holders)
        coming = {member.topic_names for member in come}
        leaving: dict[frozenset[str], int] = {}
        for member in gone:
            leaving[member.topic_names] = leaving.get(member.topic_names, 0) + 1
        sets = self._sets
        ending = [names for names, count in leaving.items() if sets[names].members <= count and names not in coming]
        new = [names for names in coming if names not in sets]
        if not ending and not new:
            return self._union
        lost = Counter(name for names in ending for name in names)
        left = {*self._union}
        left.difference_update(name for name, count in lost.items() if self._holders[name] <= count)
        return frozenset(left.union(*new))


class TopicsRead:
    """The ids and the hash of the topics behind names, remembered until topics change."""

    def __init__(self, topics: ClusterTopics, hashes: TopicHashes) -> None:
        self._topics = topics
        self._hashes = hashes
        self.forget()

    def forget(self, changed: frozenset[str] = frozenset()) -> None:
        """Drop everything found, and the hashes of changed topics."""
        self._hashes.forget(changed)
        self._ids: dict[frozenset[str], frozenset[bytes]] = {}
        self._hash_of: dict[frozenset[str], int] = {}
        self._kept = 0

    def ids(self, names: frozenset[str]) -> frozenset[bytes]:
        """Return the ids of the existing topics among `names`."""
        found = self._ids.get(names)
        if found is None:
            topics = self._topics.topics
            found = frozenset(topics[name].id for name in existing(self._topics, names))
            self._make_room(len(names) + len(found))
            self._ids[names] = found
        return found

    def hash(self, names: frozenset[str]) -> int:
        """Return the hash over the existing topics among `names`, as a group's epoch has it."""
        found = self._hash_of.get(names)
        if found is None:
            found = self._hashes.of_group(names)
            self._make_room(len(names))
            self._hash_of[names] = found
        return found

    def _make_room(self, elements: int) -> None:
        if self._kept + elements > _MOST_KEPT:
            self.forget()
        self._kept += elements
