"""The order in which Java's hash tables and priority queues give back what is equal.

Kafka's assignor of tasks takes the least loaded process, and among equally loaded ones the first of a priority queue
that was filled from a hash table. So the choice depends on ids alone, and a broker that wants to make the same choice
has to order as Java does. No other code should depend on this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

_FEWEST_BUCKETS = 16
_FILL = 0.75


def string_hash(text: str) -> int:
    """Return `String.hashCode` of a text, spread as a hash table does, without a sign."""
    found = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        found = (found * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return found ^ found >> 16


def in_hash_order(names: Iterable[str], buckets: int = 0) -> list[str]:
    """Return names by their bucket, and within it as they come.

    Args:
        buckets: of the table, a power of two; 0 for those that a table has which has grown with the names.
    """
    found = list(names)
    if not buckets:
        buckets = _FEWEST_BUCKETS
        while len(found) > buckets * _FILL:
            buckets *= 2
    return sorted(found, key=lambda name: string_hash(name) & buckets - 1)


class JavaQueue(Generic[T]):
    """A priority queue that gives back equal entries in the order of Java's (java.util.PriorityQueue).

    The order of `heapq` differs: both are binary heaps, but they sink an entry in another way.
    """

    def __init__(self, entries: Iterable[T], rank: Callable[[T], float]) -> None:
        """`rank`: the smallest comes first; it may change only while the entry is taken out."""
        self._rank = rank
        self._heap: list[T] = []
        for entry in entries:
            self.add(entry)

    def add(self, entry: T) -> None:
        heap, rank = self._heap, self._rank(entry)
        heap.append(entry)
        at = len(heap) - 1
        while at and rank < self._rank(heap[(at - 1) // 2]):
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = entry

    def take(self) -> T:
        """Take out the first entry."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        if not heap:
            return first
        rank, at = self._rank(last), 0
        while (child := 2 * at + 1) < len(heap):
            if child + 1 < len(heap) and self._rank(heap[child + 1]) < self._rank(heap[child]):
                child += 1
            if rank <= self._rank(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        return first
