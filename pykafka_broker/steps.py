"""Long work in steps.

Rule: what takes long for one client is a generator, which has done about a millisecond of work whenever it yields;
whoever runs it serves others in between. Work on few items never yields, so it is done at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Hashable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparisonT as T

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

ITEMS_A_STEP = 400
_SORTED_AT_ONCE = 4000


class Pace:
    """Says when it is time to yield."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = ITEMS_A_STEP

    def due(self, items: int = 1) -> bool:
        """Whether it is, after so many items more."""
        self._left -= items
        if self._left > 0:
            return False
        self._left = ITEMS_A_STEP
        return True


def counted(items: Iterable[K]) -> Generator[None, None, dict[K, int]]:
    """How often each is there, in the order in which they came."""
    counts: dict[K, int] = {}
    pace = Pace()
    for item in items:
        counts[item] = counts.get(item, 0) + 1
        if pace.due():
            yield
    return counts


def in_order(items: Iterable[T]) -> Generator[None, None, Iterator[T]]:
    """The items sorted."""
    rest = iter(items)
    runs = []  # of tuples: the garbage collector leaves those of texts alone
    while run := list(islice(rest, _SORTED_AT_ONCE)):
        runs.append(tuple(sorted(run)))
        if len(run) == _SORTED_AT_ONCE:
            yield
    return heapq.merge(*runs) if len(runs) > 1 else iter(runs[0] if runs else ())


def at_once(steps: Generator[object, None, R]) -> R:
    """The result of work that nobody waits beside."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


__all__ = ["ITEMS_A_STEP", "Pace", "at_once", "counted", "in_order"]
