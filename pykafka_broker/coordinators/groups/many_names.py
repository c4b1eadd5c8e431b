"""Subscriptions that name very many topics.

Rule: what depends on the names alone, their set, their order and their bytes, is found in steps before a group is
asked, so that the group's part of it, which can't be cut, is short. What a group does with all of its names later it
does with those of them that topics have.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from typing import Any

from pykafka_broker.coordinators.groups.stored import value_bytes_with
from pykafka_broker.protocol.encoded_list import elements_in_steps
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.protocol.stored.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from pykafka_broker.steps import Pace, in_order

_MANY = 4000
_ITEMS_A_STEP = 10  # of the pace: to put one in order costs a tenth of other work
_NAMES = "subscribed_topic_names"  # of a member's record
_VERSION = 0


class OrderedNames(frozenset[str]):
    """A set that knows its names in their order, how long they are, and their bytes as records have them."""

    __slots__ = ("encoded", "in_order", "size")
    in_order: list[str]
    encoded: bytes
    size: int


def are_many(names: Collection[str]) -> bool:
    """Whether they are worth steps of their own."""
    return len(names) > _MANY


def ordered(names: Iterable[str], most_bytes: int) -> Generator[None, None, OrderedNames]:
    """The set of them. Of one that is larger than that only the size is told."""
    pace, result, size = Pace(), list[str](), 0
    for number, name in enumerate((yield from in_order(names))):
        if not result or name != result[-1]:
            result.append(name)
            size += len(name) + 1
            if size > most_bytes:
                result.clear()
                break
        if not number % _ITEMS_A_STEP and pace.due():
            yield
    yield
    found = OrderedNames(result)
    found.in_order, found.size = result, size
    yield
    found.encoded = yield from elements_in_steps(ConsumerGroupMemberMetadataValue(), _VERSION, _NAMES, result)
    return found


def names_set(names: Iterable[str]) -> frozenset[str]:
    """Those of a request or a record, which may have become a set before."""
    return names if isinstance(names, OrderedNames) else frozenset(names)


def names_in_order(names: frozenset[str]) -> list[str]:
    """As descriptions have them. Not to be changed."""
    return names.in_order if isinstance(names, OrderedNames) else sorted(names)


def names_to_store(names: frozenset[str]) -> Any:
    """What a member's record is given: those that are known are taken over from it as they are."""
    return names if isinstance(names, OrderedNames) else sorted(names)


def encoded(value: Message) -> bytes | None:
    """The value of a member's record, if the bytes of its names are known."""
    names = getattr(value, _NAMES)
    if not isinstance(names, OrderedNames):
        return None
    return value_bytes_with(value, _VERSION, _NAMES, names.encoded)


__all__ = [
    "OrderedNames",
    "are_many",
    "encoded",
    "names_in_order",
    "names_set",
    "names_to_store",
    "ordered",
]
