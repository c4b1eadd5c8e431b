"""What has become of offsets: runs of the same state and delivery count, and how a newer write is laid over an older.

Rule: where two runs meet, the one that has been delivered more often counts, and at the same count the one that is
further on. So it does not matter in which order repeated writes arrive.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from heapq import heappop, heappush
from itertools import pairwise
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
    """What counts between each two edges, from the lowest offset up: the run that says most of those which are open."""
    if all(run.last < after.first for run, after in pairwise(both)):
        return joined(both)
    edges = sorted({edge for run in both for edge in (run.first, run.last + 1)})
    by_first = sorted(both)
    opened = 0
    open_runs: list[tuple[int, int, int]] = []  # a heap: who says most first, and where it ends
    pieces: list[StateRun] = []
    for first, after in pairwise(edges):
        while opened < len(by_first) and by_first[opened].first <= first:
            run = by_first[opened]
            heappush(open_runs, (-run.deliveries, -run.state, run.last))
            opened += 1
        while open_runs and open_runs[0][2] < first:
            heappop(open_runs)
        if open_runs:
            deliveries, state, _ = open_runs[0]
            pieces.append(StateRun(first, after - 1, -state, -deliveries))
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
