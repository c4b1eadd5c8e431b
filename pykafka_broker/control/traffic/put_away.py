"""Entries of the request log that were put away.

Rule: a few objects hold hundreds of entries. What lies in memory for ten thousand requests has left the processor's
caches, and each object that has to be touched there when its time is over would cost the client whose turn it is.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from pykafka_broker.control.traffic.exchange import Entry, Mark

_ENTRY_BYTES = 100  # beside the request and the answer


class PutAway:
    """The fields of entries, each in a list or array of its own. bytes: what they take of the memory, about. marks: of
    those that have one, by place.
    """

    __slots__ = ("_answers", "_connections", "_durations_ns", "_frames", "_lengths", "_walls_ms", "bytes", "marks")

    def __init__(self, fields: list[list[Any]], marks: dict[int, Mark], answer_bytes: int) -> None:
        self._walls_ms, self._connections, frames, self._answers, durations_ns = fields
        self._frames = b"".join(frames)
        self._lengths = array("i", map(len, frames))
        self._durations_ns = array("q", durations_ns)
        self.marks = marks
        self.bytes = len(self._frames) + answer_bytes + len(frames) * _ENTRY_BYTES

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Entry]:
        ends = accumulate(self._lengths)
        frames = (self._frames[end - length : end] for end, length in zip(ends, self._lengths, strict=True))
        return zip(self._walls_ms, self._connections, frames, self._answers, self._durations_ns, strict=True)
