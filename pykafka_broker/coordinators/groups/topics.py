"""The part of the cluster's metadata that groups look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol


class Partition(Protocol):
    """Where the copies of a partition are."""

    @property
    def replicas(self) -> Sequence[int]: ...


class Node(Protocol):
    """A broker."""

    @property
    def rack(self) -> str | None: ...


class Partitions(Protocol):
    """A topic."""

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> bytes: ...

    @property
    def partitions(self) -> Mapping[int, Partition]: ...


class Topics(Protocol):
    """All topics, and the brokers that they are on."""

    @property
    def topics(self) -> Mapping[str, Partitions]: ...

    @property
    def topics_by_id(self) -> Mapping[bytes, Partitions]: ...

    @property
    def brokers(self) -> Mapping[int, Node]: ...


def existing(topics: Topics, names: Set[str]) -> list[str]:
    """Those of the names that topics have. A group may name far more of them than there are."""
    known = topics.topics
    return list(filter(names.__contains__, known) if len(known) < len(names) else filter(known.__contains__, names))


def topic_ids(topics: Topics, names: Set[str]) -> frozenset[bytes]:
    """The ids of those that exist."""
    known = topics.topics
    return frozenset(known[name].id for name in existing(topics, names))
