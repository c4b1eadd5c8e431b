"""Producer ids, handed out from blocks.

Rule: a producer id is handed out once in the life of a cluster. The controller gives out blocks and remembers where the
next one starts; what is left of a block when the broker stops is never used (Kafka's blocks are of 1,000).
"""

from __future__ import annotations

from collections.abc import Callable


class ProducerIds:
    """`allocate` asks the controller for a block: its first id and its length."""

    __slots__ = ("_allocate", "_end", "_next")

    def __init__(self, allocate: Callable[[int], tuple[int, int]]) -> None:
        self._allocate = allocate
        self._next = self._end = 0

    def __call__(self, now: int) -> int:
        """A producer id that nobody has had."""
        if self._next >= self._end:
            start, length = self._allocate(now)
            self._next, self._end = start, start + length
        producer_id = self._next
        self._next += 1
        return producer_id
