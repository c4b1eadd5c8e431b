"""What has become of offsets: runs of the same state and delivery count, and how a newer write is laid over an older.

Rule: where two runs meet, the one that has been delivered more often counts, and at the same count the one that is
further on. So it does not matter in which order repeated writes arrive.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from heapq import heappop, heappush, merge
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


def laid_over(runs: Sequence[StateRun], newer: Iterable[StateRun], start_offset: int) -> list[StateRun]:
    """Return `newer` laid over `runs`, which are in order, from `start_offset` on, without runs that make no sense."""
    old, new = _from(runs, start_offset), _from(newer, start_offset)
    if not new:
        return old
    first, last = min(run.first for run in new) - 1, max(run.last for run in new) + 1
    begin = bisect_left(old, first, key=lambda run: run.last)
    end = bisect_right(old, last, key=lambda run: run.first)
    return [*old[:begin], *_counting(merge(old[begin:end], sorted(new))), *old[end:]]


def _from(runs: Iterable[StateRun], start_offset: int) -> list[StateRun]:
    return [
        run if run.first >= start_offset else run._replace(first=start_offset)
        for run in runs
        if run.first <= run.last and run.last >= start_offset
    ]


def _counting(runs: Iterator[StateRun]) -> list[StateRun]:
    """What counts from the lowest offset up: the run that says most of those which are open. They come in order."""
    found: list[StateRun] = []
    open_runs: list[tuple[int, int, int]] = []  # a heap: who says most first, and where it ends
    coming, at = next(runs, None), -1 << 63
    while coming is not None or open_runs:
        while coming is not None and (coming.first <= at or not open_runs):
            at = max(at, coming.first)
            heappush(open_runs, (-coming.deliveries, -coming.state, coming.last))
            coming = next(runs, None)
        deliveries, state, last = open_runs[0]
        if last < at:
            heappop(open_runs)
            continue
        end = last if coming is None else min(last, coming.first - 1)
        _add(found, StateRun(at, end, -state, -deliveries))
        at = end + 1
    return found


def joined(runs: Iterable[StateRun]) -> list[StateRun]:
    """BrokerChannels that say the same become one."""
    found: list[StateRun] = []
    for run in runs:
        _add(found, run)
    return found


def _add(runs: list[StateRun], run: StateRun) -> None:
    """The next one, which may go on with the last."""
    if runs:
        first, last, state, deliveries = runs[-1]
        if last + 1 == run.first and state == run.state and deliveries == run.deliveries:
            runs[-1] = StateRun(first, run.last, state, deliveries)
            return
    runs.append(run)
