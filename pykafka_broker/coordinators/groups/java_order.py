"""The order in which Java's hash tables and priority queues return equal elements.

Kafka's assignor of tasks takes the least loaded process, and among equally loaded processes the first of a priority
queue, which is filled from a hash table, which is filled from another hash table. So the choice depends on ids and on
the order of joining alone, and a broker that makes the same choice has to order as Java does. The same holds for
protocols and assignors with equal votes, for the assignors of consumer and share groups, and for the id of a client's
telemetry subscription (KIP-714). No other code should depend on the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Hash = Callable[[Any], int]  # the hash code of a key, spread as a hash table does, without a sign

_FEWEST_BUCKETS = 16
_FILL = 0.75
_REMEMBERED = 4096  # hash codes of members and topics, which each new target needs again


def string_hash(text: str) -> int:
    """Return `String.hashCode` of a text, spread as a hash table does, without a sign."""
    return _spread(_code(text))


@lru_cache(_REMEMBERED)
def uuid_hash(uuid: bytes) -> int:
    """Return the hash of a topic id, as `string_hash` does. (Kafka: Uuid)"""
    return _spread(_uuid_code(uuid))


def partition_hash(partition: tuple[bytes, int]) -> int:
    """Return the hash of a partition, by its topic id and index, as `string_hash` does. (Kafka: TopicIdPartition)"""
    topic_id, index = partition
    code = _uuid_code(topic_id) * 31 + index & 0xFFFFFFFF
    return code ^ code >> 16  # `_spread`: a large group has very many partitions


@lru_cache(_REMEMBERED)
def _uuid_code(uuid: bytes) -> int:
    halves = int.from_bytes(uuid[:8], "big") ^ int.from_bytes(uuid[8:], "big")
    return (halves >> 32 ^ halves) & 0xFFFFFFFF


def _spread(code: int) -> int:
    return code ^ code >> 16


@lru_cache(_REMEMBERED)
def _code(text: str) -> int:
    """Return `String.hashCode` of a text without a sign."""
    found = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        found = (found * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return found


def in_hash_order(keys: Iterable[T], among: int = 0, hash_of: Hash = string_hash) -> list[T]:
    """Return keys in the order of a HashMap that they are put into; of equal buckets as they come.

    Args:
        among: The size of the map, if `keys` are not all of it.
    """
    found = list(keys)
    buckets = _FEWEST_BUCKETS
    while max(among, len(found)) > buckets * _FILL:
        buckets *= 2
    return _by_bucket(found, buckets, hash_of)


def in_order_of_absent_keys(keys: Iterable[T], buckets: int, hash_of: Hash = string_hash) -> list[T]:
    """Return each key once, in the order of a HashMap that computes what is absent, key after key.

    Such a table puts a new key before the others of its bucket, and grows before it looks whether the key is new.

    Args:
        buckets: the capacity with which the table begins, rounded up to a power of two.
    """
    buckets = 1 << (buckets - 1).bit_length() if buckets else 1
    found: dict[T, None] = {}
    for key in keys:
        if len(found) > buckets * _FILL:
            buckets *= 2
        found[key] = None
    return _by_bucket(reversed(found), buckets, hash_of)


def _by_bucket(keys: Iterable[T], buckets: int, hash_of: Hash) -> list[T]:
    return sorted(keys, key=lambda key: hash_of(key) & buckets - 1)


_MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 by the golden ratio (Knuth's multiplicative hashing)
_WORD = (1 << 64) - 1


class JavaTable:
    """The slots of a table with snapshots, as Kafka keeps the members of a group. (Kafka: TimelineHashMap)

    The table is asked for an order alone: it holds a number of slots, which never falls.
    """

    def __init__(self) -> None:
        self._bits = 1

    def grow(self, names: int) -> None:
        """Note the number of names in the table after one of them was put."""
        while (names + 1) * _FILL > 1 << self._bits:
            self._bits += 1

    def order(self, names: Iterable[str]) -> list[str]:
        """Return names by their slot. names: As they came; the last one comes first in its slot."""
        newest_first = list(names)[::-1]
        return sorted(newest_first, key=self._slot)

    def _slot(self, name: str) -> int:
        code = _code(name)
        signed = code - (1 << 32) if code >> 31 else code
        return (signed * _MULTIPLIER & _WORD) >> (64 - self._bits)


class JavaQueue(Generic[T]):
    """A priority queue that gives back equal entries in the order of Java's (java.util.PriorityQueue).

    The order of `heapq` differs: both are binary heaps, but they sink an entry in another way.
    """

    def __init__(self, entries: Iterable[T], rank: Callable[[T], float]) -> None:
        """`rank`: the smallest comes first; it may change only while the entry is taken out."""
        self._rank = rank
        self._heap: list[tuple[float, T]] = []
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, entry: T) -> None:
        heap, rank = self._heap, self._rank(entry)
        ranked = rank, entry
        heap.append(ranked)
        at = len(heap) - 1
        while at and rank < (above := heap[(at - 1) // 2])[0]:
            heap[at] = above
            at = (at - 1) // 2
        heap[at] = ranked

    def take(self) -> T:
        """Take out the first entry."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        count = len(heap)
        if not count:
            return first[1]
        rank, at = last[0], 0
        while (child := 2 * at + 1) < count:
            lower = heap[child]
            if child + 1 < count and (other := heap[child + 1])[0] < lower[0]:
                lower, child = other, child + 1
            if rank <= lower[0]:
                break
            heap[at] = lower
            at = child
        heap[at] = last
        return first[1]
