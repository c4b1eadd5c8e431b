"""The last requests and their answers.

Rule: so many, and so many bytes; the oldest go first. To note one costs a client next to nothing: the values of entries
stand one after the other in one list, so that the garbage collector has nothing to look at; what can wait is done for a
few hundred entries at a time, and what an entry means is looked up by whoever asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

from pykafka_broker.control.traffic.exchange import (
    CONNECTION,
    FIELDS,
    FRAME,
    Entry,
    Exchange,
    Mark,
    client_id_of,
)
from pykafka_broker.control.traffic.put_away import PutAway

MOST_ENTRIES = 10_000
MOST_BYTES = 32 << 20
SEALED_AT = 512
FULL = SEALED_AT * FIELDS
_MOST_UNSEALED_BYTES = 4 << 20  # of answers
_MOST_CLIENTS = 10_000
_HEADER_BYTES = 300  # of a request: enough for a client id of usual length


class Waiting(Protocol):
    """A request that has no answer yet."""

    def so_far(self) -> Exchange:
        """As it stands."""


class RequestLog:
    """What was answered, in the order of the answers, and what still waits.

    note: hands in an entry; whoever does so calls `seal` once `recent` has `FULL` values, those of `SEALED_AT` entries.
    """

    def __init__(self, most: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self.recent: list[Any] = []
        self.note: Callable[[Entry], None] = self.recent.extend
        self.waiting: dict[int, Waiting] = {}  # by identity
        self._sealed: deque[PutAway] = deque()  # older ones
        self._count = self._bytes = 0  # of those
        self._gone = 0  # entries that were dropped
        self._marks: dict[int, Mark] = {}  # of entries in `recent`, by place
        self.unsealed_bytes = 0  # of answers in it
        self._headers: dict[int, bytes] = {}  # the beginning of the last request that was put away, by connection
        self.on_sealed: Callable[[Iterable[Exchange]], None] | None = None  # told of what is put away

    def __len__(self) -> int:
        return self._count + len(self.recent) // FIELDS

    @property
    def last_number(self) -> int:
        """Of the last entry."""
        return self._gone + len(self)

    def weigh(self, answer_bytes: int) -> None:
        """The answer is long that is noted next: a few of them are as many bytes as there may be."""
        if self.unsealed_bytes + answer_bytes > _MOST_UNSEALED_BYTES:
            self.seal()
        self.unsealed_bytes += answer_bytes

    def mark(self, mark: Mark) -> None:
        """The entry that is noted next has one."""
        self._marks[len(self.recent) // FIELDS] = mark

    def seal(self) -> None:
        """Put away what has come since, and drop the oldest where it is too much."""
        fields = [self.recent[place::FIELDS] for place in range(FIELDS)]
        self.recent.clear()
        self._note_clients(fields[CONNECTION], fields[FRAME])
        newest = PutAway(fields, self._marks, self.unsealed_bytes)
        self._marks, self.unsealed_bytes = {}, 0
        if self.on_sealed is not None:
            self.on_sealed(_exchanges(newest, newest.marks))
        self._sealed.append(newest)
        self._count += len(newest)
        self._bytes += newest.bytes
        while self._sealed and (self._count > self._most or self._bytes > self._most_bytes):
            oldest = self._sealed.popleft()
            self._count -= len(oldest)
            self._bytes -= oldest.bytes
            self._gone += len(oldest)

    def clear(self) -> None:
        """Forget all of them; numbers go on."""
        if self.recent:
            self.seal()
        self._gone += len(self)
        self._sealed.clear()
        self._count = self._bytes = 0

    def _note_clients(self, connections: list[Any], frames: list[Any]) -> None:
        headers = self._headers
        last = dict(zip(connections, frames, strict=True))
        headers.update({connection.id: frame[:_HEADER_BYTES] for connection, frame in last.items()})
        while len(headers) > _MOST_CLIENTS:  # the first that came; one that still asks comes back
            del headers[next(iter(headers))]

    def client_ids(self) -> dict[int, str | None]:
        """What the last request of each connection has called its client, by connection."""
        found = {id: client_id_of(header) for id, header in self._headers.items()}
        for entry in _each(self.recent):
            found[entry[CONNECTION].id] = client_id_of(entry[FRAME])
        return found | {each.connection.id: each.client_id for each in self.unanswered()}

    def since(self, number: int = 0) -> Iterator[Exchange]:
        """What was answered after that entry."""
        place = self._gone
        for entries in tuple(self._sealed):
            if number < place + len(entries):
                yield from _exchanges(entries, entries.marks, place, max(0, number - place))
            place += len(entries)
        yield from _exchanges(list(_each(self.recent)), dict(self._marks), place, max(0, number - place))

    def unanswered(self) -> Iterator[Exchange]:
        """What still waits."""
        for waiting in self.waiting.values():
            yield waiting.so_far()


def _each(values: list[Any]) -> Iterator[Entry]:
    """The entries whose values these are."""
    value = iter(values)
    return zip(*[value] * FIELDS, strict=True)  # five of them, as in the list


def _exchanges(entries: Iterable[Entry], marks: dict[int, Mark], gone: int = 0, first: int = 0) -> Iterator[Exchange]:
    """From the first one on that is wanted; so many were before all of these."""
    for place, entry in enumerate(islice(entries, first, None), first):
        yield Exchange(entry, gone + place + 1, marks.get(place))
