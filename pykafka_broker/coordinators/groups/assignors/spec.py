"""What an assignor is given and what it gives back. Rule: an assignor is a function of this alone; the same question
has the same answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

Assignment = dict[bytes, set[int]]  # topic id -> partitions


class MemberSpec(NamedTuple):
    """One member: what it reads, and what it was last meant to have."""

    instance_id: str | None
    topics: Set[bytes]
    target: Mapping[bytes, Set[int]]


class GroupSpec(NamedTuple):
    """All members, and how many partitions each topic has that anybody reads."""

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
