"""Tasks of a streams group: what can be assigned, and to whom.

Rule: a task is one partition of one subtopology. Collections of tasks are never changed once they are made, so they
can be shared between a member and its copy. A subtopology without tasks is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Task = tuple[str, int]  # subtopology id, partition
Tasks = Mapping[str, frozenset[int]]
ActiveTasks = Mapping[str, Mapping[int, int]]  # the epoch since which the member has each of them (KIP-1251)

NO_TASKS: Tasks = {}


class Target(NamedTuple):
    """What a member should have."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS


class Owned(NamedTuple):
    """What a member has, or has to give back."""

    active: ActiveTasks = {}
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def overlaps(self, told: Target) -> bool:
        """Whether one of these tasks is among those that a member has told, each role for itself."""
        return any(
            not has.keys().isdisjoint(said)
            and any(not said.get(name, frozenset()).isdisjoint(has[name]) for name in has)
            for has, said in ((self.active, told.active), (self.standby, told.standby), (self.warmup, told.warmup))
        )


NOTHING = Target()
NONE_OWNED = Owned()


def collect(pairs: Iterable[Task]) -> Tasks:
    """Tasks by subtopology, in the order of their names."""
    found: dict[str, set[int]] = {}
    for subtopology, partition in pairs:
        found.setdefault(subtopology, set()).add(partition)
    return {name: frozenset(found[name]) for name in sorted(found)}


def told(task_ids: Iterable[Any] | None) -> Tasks:
    """The tasks of a request or of a record."""
    return {one.subtopology_id: frozenset(one.partitions) for one in task_ids or () if one.partitions}


def pairs(tasks: Mapping[str, Iterable[int]]) -> Iterable[Task]:
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition
