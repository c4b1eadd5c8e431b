"""The last requests and their answers.

Rule: so many, and so many bytes; the oldest go first. To note one costs a client next to nothing: an entry is a plain
tuple, the bytes are counted a few hundred entries at a time, and what an entry means is looked up by whoever asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from pykafka_broker.control.traffic.exchange import Entry, Exchange, kept_bytes

MOST_ENTRIES = 10_000
MOST_BYTES = 32 << 20
COUNT_EVERY = 256


class Waiting(Protocol):
    """A request that has no answer yet."""

    def entry(self) -> Entry:
        """As it stands."""


class RequestLog:
    """What was answered, in the order of the answers, and what still waits.

    note: hands in an entry; whoever does so calls `count` when there are `count_at` of them.
    """

    def __init__(self, most: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.entries: deque[Entry] = deque()
        self.note: Callable[[Entry], None] = self.entries.append
        self.waiting: dict[int, Waiting] = {}  # by identity
        self.count_at = COUNT_EVERY
        self._counted = 0  # entries, from the oldest on, whose bytes are in `_bytes`
        self._bytes = 0
        self._gone = 0  # entries that were dropped

    @property
    def last_number(self) -> int:
        """Of the last entry."""
        return self._gone + len(self.entries)

    def count(self) -> None:
        """Count what has come since, and drop the oldest where it is too much."""
        entries = self.entries
        self._bytes += sum(map(kept_bytes, islice(entries, self._counted, None)))
        self._counted = len(entries)
        while len(entries) > self._most or self._bytes > self._most_bytes:
            self._bytes -= kept_bytes(entries.popleft())
            self._counted -= 1
            self._gone += 1
        self.count_at = len(entries) + COUNT_EVERY

    def clear(self) -> None:
        """Forget all of them; numbers go on."""
        self._gone += len(self.entries)
        self.entries.clear()
        self._counted = self._bytes = 0
        self.count_at = COUNT_EVERY

    def since(self, number: int = 0) -> Iterator[Exchange]:
        """What was answered after that entry."""
        first = max(0, number - self._gone)
        for place, entry in enumerate(islice(self.entries, first, None), self._gone + first + 1):
            yield Exchange(entry, place)

    def unanswered(self) -> Iterator[Exchange]:
        """What still waits."""
        for waiting in self.waiting.values():
            yield Exchange(waiting.entry())
