"""Long work in steps.

Rule: long work for one client is a generator that yields after about a millisecond of work; its runner serves others in
between. Work on few items never yields, so it is done at once.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

R = TypeVar("R")

ITEMS_A_STEP = 400


class Pace:
    """A counter for the next yield."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = ITEMS_A_STEP

    def due(self, items: int = 1) -> bool:
        """Return whether to yield, after `items` further items."""
        self._left -= items
        if self._left > 0:
            return False
        self._left = ITEMS_A_STEP
        return True


def at_once(steps: Generator[object, None, R]) -> R:
    """Return the result of work without yielding to others."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
