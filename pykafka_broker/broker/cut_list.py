"""A list of a giant request that is read anew, some elements at a time, whenever it is gone through.

Rule: a request of three megabytes can name half a million partitions, and as objects they take fifty times as much. So
a list that a handler only goes through from its begin to its end, once or a few times, stays bytes. What the handler
changes in an element is forgotten. An element whose inner list is long comes as several, one after the other, with the
same plain fields; `numbered` says which of them are one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from pykafka_broker.protocol.cutting import Part, merge

T = TypeVar("T")


class _Piece(NamedTuple):
    """Some elements. `held`: the bytes of a request that has them, or the request, where one of them was cut inside.
    goes_on: the first one is the last one of the piece before.
    """

    held: Any
    goes_on: bool


class CutList(Generic[T]):
    """It has a length that only says whether there is anything."""

    def __init__(self, read: Callable[[bytes], Any], name: str, pieces: list[_Piece]) -> None:
        self._read = read
        self._name = name
        self._pieces = pieces

    def __len__(self) -> int:
        return len(self._pieces)

    def __iter__(self) -> Iterator[T]:
        for _, element in self.numbered():
            yield element

    def numbered(self) -> Iterator[tuple[int, T]]:
        number = -1
        for held, goes_on in self._pieces:
            request = self._read(held) if isinstance(held, bytes) else held
            same = goes_on
            for element in getattr(request, self._name):
                number += not same
                same = False
                yield number, element


def numbered(items: Iterable[T]) -> Iterator[tuple[int, T]]:
    """Elements of a list of a request, with the same number for those that are one."""
    return items.numbered() if isinstance(items, CutList) else iter(enumerate(items))


def read_with(
    parts: Iterator[Part | None], read: Callable[[bytes], Any], path: tuple[str, ...]
) -> Generator[None, None, Any]:
    """The request that has these parts; the outermost list of the path is a CutList if there are several of them. The
    innermost one is what is cut.
    """
    whole: Any = None
    name, count = path[0], 0
    pieces: list[_Piece] = []
    for part in parts:
        if count or part is None:
            yield None
        if part is None:
            continue
        count += 1
        request, goes_on = read(part.message), part.goes_on
        goes_on_here = goes_on[:1] == path[:1]
        if count > 1 and goes_on[: len(path)] == path:
            pieces[-1] = _with_more(read, pieces[-1], request, goes_on)
        elif getattr(request, name):
            pieces.append(_Piece(part.message, goes_on_here))
        if whole is None:
            whole = request
            continue
        setattr(whole, name, [])
        setattr(request, name, [])
        merge(whole, request, () if goes_on_here else goes_on)
    if count > 1:
        setattr(whole, name, CutList(read, name, pieces))
    return whole


def _with_more(read: Callable[[bytes], Any], piece: _Piece, more: Any, goes_on: tuple[str, ...]) -> _Piece:
    begun = read(piece.held) if isinstance(piece.held, bytes) else piece.held
    merge(begun, copy.copy(more), goes_on)
    return _Piece(begun, piece.goes_on)


__all__ = ["CutList", "numbered", "read_with"]
