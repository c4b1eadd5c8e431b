"""What has become of offsets: runs of the same state and delivery count, and how a newer write is laid over an older.

Rule: where two runs meet, the one that has been delivered more often counts, and at the same count the one that is
further on. So it does not matter in which order repeated writes arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple


class RecordState(IntEnum):
    """The states of a record, as `__share_group_state` numbers them; ACQUIRED is never stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


TERMINAL = frozenset((RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))


class StateRun(NamedTuple):
    """Offsets `first` to `last`, both included."""

    first: int
    last: int
    state: int
    deliveries: int


def laid_over(runs: Iterable[StateRun], newer: Iterable[StateRun], start_offset: int) -> list[StateRun]:
    """`newer` over `runs`, which are in order, from `start_offset` on. Runs that make no sense are left out."""
    old, new = _from(runs, start_offset), _from(newer, start_offset)
    if not new:
        return old
    first, last = min(run.first for run in new) - 1, max(run.last for run in new) + 1
    before = [run for run in old if run.last < first]
    after = [run for run in old if run.first > last]
    return before + _merged(old[len(before) : len(old) - len(after)] + new) + after


def _from(runs: Iterable[StateRun], start_offset: int) -> list[StateRun]:
    return [
        run if run.first >= start_offset else run._replace(first=start_offset)
        for run in runs
        if run.first <= run.last and run.last >= start_offset
    ]


def _merged(both: list[StateRun]) -> list[StateRun]:
    edges: set[int] = set()
    for run in both:
        edges.add(run.first)
        edges.add(run.last + 1)
    ordered = sorted(edges)
    place = {edge: index for index, edge in enumerate(ordered)}
    winners: list[tuple[int, int] | None] = [None] * len(ordered)
    for run in both:
        says = (run.deliveries, run.state)
        for index in range(place[run.first], place[run.last + 1]):
            known = winners[index]
            if known is None or known < says:
                winners[index] = says
    pieces = [
        StateRun(first, after - 1, winner[1], winner[0])
        for first, after, winner in zip(ordered, ordered[1:], winners, strict=False)
        if winner is not None
    ]
    return joined(pieces)


def joined(runs: Iterable[StateRun]) -> list[StateRun]:
    """Neighbours that say the same become one."""
    result: list[StateRun] = []
    for run in runs:
        if result:
            before = result[-1]
            if before.last + 1 == run.first and before.state == run.state and before.deliveries == run.deliveries:
                result[-1] = before._replace(last=run.last)
                continue
        result.append(run)
    return result
