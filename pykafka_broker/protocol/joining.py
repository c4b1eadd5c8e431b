"""Answers in parts, put together.

Rule: the bytes are those that the whole answer would have. A list of the answer is named by a path, the lists that lead
to it, outermost first; each part adds elements, and may go on in the last element of the part before. The other fields
are those of the latest part. What is the same in many parts is kept once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pykafka_broker.protocol.cutting import Cutter, count_bytes, shape_of
from pykafka_broker.protocol.runtime import EncodeError, Message

_MOST_KNOWN = 1024
_MOST_BYTES = 0x7FFFFFFF - 64  # what a frame can say of its length, and a header


class _Open:
    """A struct whose list is being added to: what is before its count, the elements, what comes after them."""

    __slots__ = ("after", "before", "compact", "count", "inner", "pieces")

    def __init__(self) -> None:
        self.before = self.after = b""
        self.compact = False
        self.count = 0
        self.pieces: list[bytes] = []
        self.inner: _Open | None = None  # its last element, if more may be added to that

    def close_inner(self) -> None:
        if self.inner is not None:
            self.pieces += self.inner.closed()
            self.count += 1
            self.inner = None

    def closed(self) -> list[bytes]:
        self.close_inner()
        return [self.before + count_bytes(self.count, self.compact), *self.pieces, self.after]


class Joined:
    """An answer of one version; `write` makes it one that can be sent."""

    def __init__(self, response_type: type[Message], version: int, path: Sequence[str]) -> None:
        self._version = version
        self._path = tuple(path)
        self._shape = shape_of(response_type.__name__, version)
        self._root = _Open()
        self._known: dict[bytes, bytes] = {}
        self._size = 0

    def add(self, response: Any, depth: int = 0) -> None:
        """The next part; its first element goes on, so many lists deep, with the last element there is. The lists of
        `response` are not the same afterwards.
        """
        self._add(response, [response], self._root, depth)
        if self._size > _MOST_BYTES:
            raise EncodeError("an answer has more bytes than a frame can")

    def write(self, version: int, w: Callable[[Any], object]) -> None:
        for piece in self._root.closed():
            w(piece)

    def _add(self, response: Any, owners: list[Any], into: _Open, depth: int) -> None:
        """`owners` are the structs that lead to a list, each the only element of the one before."""
        name = self._path[len(owners) - 1]
        elements = getattr(owners[-1], name)
        start, end, compact, frame = self._around(response, owners, name)
        outer = self._outer(response, owners)
        into.before, into.after, into.compact = frame[outer[0] : start], frame[end : len(frame) - outer[1]], compact
        if len(owners) == len(self._path):
            self._append(response, owners, name, elements, into, (start, len(frame) - end))
            return
        if elements and depth > len(owners) - 1 and into.inner is not None:
            self._add_inner(response, owners, name, elements[0], into.inner, depth)
            elements = elements[1:]
        if elements:
            into.close_inner()
            self._append(response, owners, name, elements[:-1], into, (start, len(frame) - end))
            into.inner = _Open()
            self._add_inner(response, owners, name, elements[-1], into.inner, 0)

    def _add_inner(self, response: Any, owners: list[Any], name: str, element: Any, into: _Open, depth: int) -> None:
        setattr(owners[-1], name, [element])
        self._add(response, [*owners, element], into, depth)

    def _append(
        self, response: Any, owners: list[Any], name: str, elements: list[Any], into: _Open, around: tuple[int, int]
    ) -> None:
        if elements:
            setattr(owners[-1], name, elements)
            frame = response.encode(self._version)
            start = around[0] + len(count_bytes(len(elements), into.compact))
            piece = frame[start : len(frame) - around[1]]
            self._size += len(piece)
            if len(self._known) < _MOST_KNOWN:
                piece = self._known.setdefault(piece, piece)
            else:
                piece = self._known.get(piece, piece)
            into.pieces.append(piece)
            into.count += len(elements)

    def _around(self, response: Any, owners: list[Any], name: str) -> tuple[int, int, bool, bytes]:
        """Begin and end of the count of that list if it is empty, and the message that it is in then."""
        setattr(owners[-1], name, [])
        frame = response.encode(self._version)
        start, end, compact = Cutter(frame, 0, self._shape).find(self._path[: len(owners)])
        return start, end, compact, frame

    def _outer(self, response: Any, owners: list[Any]) -> tuple[int, int]:
        """How many bytes of the message are before and after the struct."""
        if len(owners) == 1:
            return 0, 0
        holder, name = owners[-2], self._path[len(owners) - 2]
        kept = getattr(holder, name)
        start, end, compact, frame = self._around(response, owners[:-1], name)
        setattr(holder, name, kept)
        return start + len(count_bytes(1, compact)), len(frame) - end


__all__ = ["Joined"]
