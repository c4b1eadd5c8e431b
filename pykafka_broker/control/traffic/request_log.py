"""The last requests and their answers.

Rule: so many, and so many bytes; the oldest go first. To note one costs a client next to nothing: an entry is a plain
tuple, the bytes are counted a few hundred entries at a time, and what an entry means is looked up by whoever asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from pykafka_broker.control.traffic.exchange import CONNECTION, FRAME, Entry, Exchange, client_id_of, kept_bytes

MOST_ENTRIES = 10_000
MOST_BYTES = 32 << 20
SEALED_AT = 256
_MOST_CLIENTS = 10_000
_HEADER_BYTES = 300  # of a request: enough for a client id of usual length


class Waiting(Protocol):
    """A request that has no answer yet."""

    def entry(self) -> Entry:
        """As it stands."""


class RequestLog:
    """What was answered, in the order of the answers, and what still waits.

    note: hands in an entry; whoever does so calls `seal` once `recent` has `SEALED_AT` of them.
    """

    def __init__(self, most: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.recent: list[Entry] = []
        self.note: Callable[[Entry], None] = self.recent.append
        self.waiting: dict[int, Waiting] = {}  # by identity
        self._sealed: deque[tuple[tuple[Entry, ...], int]] = deque()  # older ones, with the bytes that they take
        self._count = self._bytes = 0  # of those
        self._gone = 0  # entries that were dropped
        self._headers: dict[int, bytes] = {}  # the beginning of the last request that was put away, by connection
        self.on_sealed: Callable[[Iterable[Entry]], None] | None = None  # told of what is put away

    def __len__(self) -> int:
        return self._count + len(self.recent)

    @property
    def last_number(self) -> int:
        """Of the last entry."""
        return self._gone + len(self)

    def seal(self) -> None:
        """Count what has come since, and drop the oldest where it is too much."""
        entries = tuple(self.recent)
        self.recent.clear()
        self._note_clients(entries)
        if self.on_sealed is not None:
            self.on_sealed(entries)
        size = kept_bytes(entries)
        self._sealed.append((entries, size))
        self._count += len(entries)
        self._bytes += size
        while self._sealed and (self._count > self._most or self._bytes > self._most_bytes):
            oldest, size = self._sealed.popleft()
            self._count -= len(oldest)
            self._bytes -= size
            self._gone += len(oldest)

    def clear(self) -> None:
        """Forget all of them; numbers go on."""
        if self.recent:
            self.seal()
        self._gone += len(self)
        self._sealed.clear()
        self.recent.clear()
        self._count = self._bytes = 0

    def _note_clients(self, entries: Sequence[Entry]) -> None:
        headers = self._headers
        for connection, frame in dict(zip(map(CONNECTION, entries), map(FRAME, entries), strict=True)).items():
            headers.pop(connection.id, None)
            headers[connection.id] = frame[:_HEADER_BYTES]
        while len(headers) > _MOST_CLIENTS:  # the longest silent ones
            del headers[next(iter(headers))]

    def client_ids(self) -> dict[int, str | None]:
        """What the last request of each connection has called its client, by connection."""
        found = {id: client_id_of(header) for id, header in self._headers.items()}
        for entry in (*self.recent, *(each.entry() for each in self.waiting.values())):
            found[entry[1].id] = client_id_of(entry[2])
        return found

    def since(self, number: int = 0) -> Iterator[Exchange]:
        """What was answered after that entry."""
        place = self._gone
        for entries in (*(entries for entries, _ in self._sealed), tuple(self.recent)):
            first = max(0, number - place)
            for index, entry in enumerate(entries[first:], place + first + 1):
                yield Exchange(entry, index)
            place += len(entries)

    def unanswered(self) -> Iterator[Exchange]:
        """What still waits."""
        for waiting in self.waiting.values():
            yield Exchange(waiting.entry())
