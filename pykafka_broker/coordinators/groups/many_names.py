"""Subscriptions that name very many topics.

Rule: what depends on the names alone, their set and their order, is found in steps before a group is asked, so that the
group's part of it, which can't be cut, is short.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable

from pykafka_broker.steps import Pace, in_order

_MANY = 4000
_ITEMS_A_STEP = 10  # of the pace: to put one in order costs a tenth of other work


class OrderedNames(frozenset[str]):
    """A set that knows its names in their order."""

    __slots__ = ("in_order",)
    in_order: list[str]


def are_many(names: Collection[str]) -> bool:
    """Whether they are worth steps of their own."""
    return len(names) > _MANY


def ordered(names: Iterable[str]) -> Generator[None, None, OrderedNames]:
    """The set of them."""
    pace, result = Pace(), list[str]()
    for number, name in enumerate((yield from in_order(names))):
        if not result or name != result[-1]:
            result.append(name)
        if not number % _ITEMS_A_STEP and pace.due():
            yield
    yield
    found = OrderedNames(result)
    found.in_order = result
    yield
    return found


def names_set(names: Iterable[str]) -> frozenset[str]:
    """Those of a request, which may have become a set before."""
    return names if isinstance(names, OrderedNames) else frozenset(names)


def names_in_order(names: frozenset[str]) -> list[str]:
    """As records and descriptions have them. Not to be changed."""
    return names.in_order if isinstance(names, OrderedNames) else sorted(names)


__all__ = ["OrderedNames", "are_many", "names_in_order", "names_set", "ordered"]
