"""The part of the cluster's metadata that groups look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


def topic_ids(topics: Topics, names: Iterable[str]) -> frozenset[bytes]:
    """The ids of those that exist."""
    known = topics.topics
    return frozenset(known[name].id for name in filter(known.__contains__, names))  # of very many names few exist
