"""Long answers, written in steps.

Rule: the bytes are those that `write` gives. Elements are let go as they are written, so that an answer is never there
twice. A generator here has done about a millisecond of work whenever it yields.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator
from typing import Any

from pykafka_broker.protocol.cutting import PART_ITEMS, shape_of
from pykafka_broker.protocol.joining import Joined
from pykafka_broker.protocol.runtime import Message

_LOOKED_AT = 2000  # elements a step that are only looked at
_FEW = 20  # elements with lists of lists in them, which are looked through


def written(response: Message, version: int) -> Generator[None, None, Any]:
    """What is written of a long answer, whose lists are empty then; a short one is returned as it is."""
    path = _path(response, shape_of(type(response).__name__, version))
    if path and (yield from _is_flat(response, path)):
        path = path[:1]
        if len(getattr(response, path[0])) <= PART_ITEMS:
            return response
    if not path:
        return response
    joined = Joined(type(response), version, path)
    for part, goes_on in _Split(path).parts(response):
        joined.add(part, goes_on)
        yield
    return joined


def _path(response: Message, shape: Any) -> tuple[str, ...]:
    """Its longest list, and what is below it."""
    lists = [field for field in shape[0] if isinstance(field, tuple) and field[0] == "["]
    if not lists:
        return ()
    field: Any = max(lists, key=lambda each: len(getattr(response, each[1]) or ()))
    path: list[str] = []
    while field is not None and getattr(response, field[1] if not path else path[0]):
        path.append(field[1])
        inner = field[3][0] if isinstance(field[3], tuple) else ()
        field = next((each for each in inner if _holds_structs(each)), None)
    return tuple(path)


def _holds_structs(field: Any) -> bool:
    return isinstance(field, tuple) and field[0] == "[" and isinstance(field[3], tuple)


def _is_flat(response: Any, path: tuple[str, ...]) -> Generator[None, None, bool]:
    """Whether no element of the outermost list is long itself."""
    weight = _Split(path).weight
    for number, element in enumerate(getattr(response, path[0])):
        if weight(element, 1) > PART_ITEMS:
            return False
        if not (number + 1) % _LOOKED_AT:
            yield
    return True


class _Split:
    """Cuts an answer into answers with some of its elements each, for `Joined`."""

    def __init__(self, path: tuple[str, ...]) -> None:
        self._path = path
        self._last: list[Any] = []  # the structs that the part before has led to

    def parts(self, response: Any) -> Iterator[tuple[Any, int]]:
        """Each, and in how many lists its first element goes on with the last one before."""
        return self._parts([copy.copy(response)], getattr(response, self._path[0]))

    def _parts(self, owners: list[Any], elements: list[Any]) -> Iterator[tuple[Any, int]]:
        held: list[Any] = []
        filled = 0
        for number, element in enumerate(elements):
            elements[number] = None
            weight = self.weight(element, len(owners))
            if held and filled + weight > PART_ITEMS:
                yield self._part(owners, held)
                held, filled = [], 0
            if weight > PART_ITEMS:
                yield from self._parts([*owners, copy.copy(element)], getattr(element, self._path[len(owners)]))
            else:
                held.append(element)
                filled += weight
        elements.clear()
        if held:
            yield self._part(owners, held)

    def weight(self, element: Any, level: int) -> int:
        """How many it and those in it are; more than a part can have if it is to be cut, too."""
        if level == len(self._path):
            return 1
        inner = getattr(element, self._path[level]) or ()
        if level + 1 == len(self._path):
            return 1 + len(inner)
        if len(inner) > _FEW:
            return PART_ITEMS + 1
        return 1 + sum(self.weight(each, level + 1) for each in inner)

    def _part(self, owners: list[Any], elements: list[Any]) -> tuple[Any, int]:
        for level, owner in enumerate(owners[1:]):
            setattr(owners[level], self._path[level], [owner])
        setattr(owners[-1], self._path[len(owners) - 1], elements)
        goes_on = 0
        for owner, last in zip(owners[1:], self._last, strict=False):
            if owner is not last:
                break
            goes_on += 1
        self._last = owners[1:]
        return owners[0], goes_on


__all__ = ["written"]
