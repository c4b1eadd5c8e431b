"""The end of what is huge, in steps.

Rule: to free half a million objects at once holds everybody up for a tenth of a second. Whoever is through with so many
lets go of them here, some at each step; what somebody else holds too stays as it is.
"""

from __future__ import annotations

from collections.abc import Generator
from sys import getrefcount
from typing import Any

from pykafka_broker.protocol.runtime import Fields
from pykafka_broker.steps import Pace

_OBJECTS_A_STEP = 4000
_FEW = 400  # elements that take no time
_PLAIN = 10  # elements that hold nothing and take as long as one that does


def _references() -> int:
    """Counted while nobody else holds it: the holder's, ours while we look, and, before Python 3.14, the question's."""
    element = (held := [object()])[0]
    counted = getrefcount(element)
    del held
    return counted


_NOBODY_ELSE = _references()


def emptied(container: dict[Any, Any] | set[Any]) -> Generator[None, None, None]:
    """A dict or a set, which nobody else looks at any more."""
    take = container.popitem if isinstance(container, dict) else container.pop
    while len(container) > _OBJECTS_A_STEP:
        for _ in range(_OBJECTS_A_STEP):
            take()
        yield
    container.clear()


def let_go(items: list[Any]) -> Generator[None, None, None]:
    """A list of texts, numbers or structs, which nobody else looks at any more, and what is in their lists."""
    pace = Pace()
    while items:
        some = items[-_FEW:]
        del items[-_FEW:]
        holders = _holders(some[0])
        if holders:
            for element in some:
                if getrefcount(element) <= _NOBODY_ELSE:
                    yield from _let_go_inside(element, holders)
            del element
        if pace.due(len(some) if holders else len(some) // _PLAIN or 1):
            yield


def _let_go_inside(struct: Any, holders: tuple[str, ...]) -> Generator[None, None, None]:
    for name in holders:
        value = getattr(struct, name)
        if isinstance(value, Fields):
            yield from _let_go_inside(value, _holders(value))
        elif value and (len(value) > _FEW or isinstance(value[0], Fields)) and getrefcount(value) <= _NOBODY_ELSE:
            yield from let_go(value)


def _holders(element: Any) -> tuple[str, ...]:
    """The fields that may hold much."""
    if not isinstance(element, Fields):
        return ()
    return tuple(name for name in element.__match_args__ if isinstance(getattr(element, name), list | Fields))


__all__ = ["emptied", "let_go"]
