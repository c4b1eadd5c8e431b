"""allOf, anyOf, oneOf.

Rule: of a sum (anyOf, oneOf) each old part needs a new part of its own that takes what it took; of a product (allOf)
each new part needs an old one. Where only one of the two schemas is combined, the other is compared with its parts.
"""

from __future__ import annotations

from typing import Protocol

from pykafka_broker.registry.json_schema.references import Node
from pykafka_broker.registry.problems import InvalidSchema
from pykafka_broker.registry.reasons import reason

_SUMS = ("anyOf", "oneOf")
_MOST_PAIRS = 250_000


class Compares(Protocol):
    """What compares the parts."""

    def agree(self, old: Node, new: Node, path: str) -> bool: ...


def compare_combined(compares: Compares, old: Node, new: Node, path: str) -> list[str]:
    found = []
    of_old, of_new = _sum(old), _sum(new)
    if of_new is not None:
        word, parts = of_new
        where = f"{path}/{word}"
        if of_old is None:
            plain = _without(old, ("allOf",)) if "allOf" in new.schema else old
            if not any(compares.agree(plain, part, where) for part in parts):
                found.append(reason("TYPE_CHANGED", where))
        elif word == "oneOf" and of_old[0] == "anyOf" and len(parts) > 1:
            found.append(reason("COMBINED_TYPE_CHANGED", where))
        elif not _pairs(compares, of_old[1], parts, where):
            kind = "SUM_TYPE_NARROWED" if len(parts) < len(of_old[1]) else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
            found.append(reason(kind, where))
    elif of_old is not None:
        plain = _without(new, ("allOf",))
        if not all(compares.agree(part, plain, path) for part in of_old[1]):
            found.append(reason("SUM_TYPE_NARROWED", f"{path}/{of_old[0]}"))
    return found + _compare_products(compares, old, new, path)


def _compare_products(compares: Compares, old: Node, new: Node, path: str) -> list[str]:
    needed = _parts(new, "allOf")
    if not needed:
        return []
    where = f"{path}/allOf"
    given = [*_parts(old, "allOf"), _without(old, ("allOf",))]
    if len(needed) * len(given) > _MOST_PAIRS:
        raise InvalidSchema(f"{len(needed)} parts against {len(given)} are too many to compare")
    for part in needed:
        if not any(compares.agree(each, part, where) for each in given):
            many = len(needed) > len(given) - 1
            return [reason("PRODUCT_TYPE_EXTENDED" if many else "COMBINED_TYPE_SUBSCHEMAS_CHANGED", where)]
    return []


def _sum(node: Node) -> tuple[str, list[Node]] | None:
    for word in _SUMS:
        if word in node.schema:
            return word, _parts(node, word)
    return None


def _parts(node: Node, word: str) -> list[Node]:
    return [Node(each, node.document) for each in node.schema.get(word, ())]


def _without(node: Node, words: tuple[str, ...]) -> Node:
    """What else it says."""
    if not any(word in node.schema for word in (*words, *_SUMS)):
        return node
    rest = {word: value for word, value in node.schema.items() if word not in (*words, *_SUMS)}
    return Node(rest, node.document)


def _pairs(compares: Compares, old: list[Node], new: list[Node], path: str) -> bool:
    """Whether each old part finds a new one for itself."""
    if len(old) * len(new) > _MOST_PAIRS:
        raise InvalidSchema(f"{len(old)} parts against {len(new)} are too many to compare")
    taken: dict[int, int] = {}

    def find(number: int, tried: set[int]) -> bool:
        for place, part in enumerate(new):
            if place not in tried and compares.agree(old[number], part, path):
                tried.add(place)
                if place not in taken or find(taken[place], tried):
                    taken[place] = number
                    return True
        return False

    return all(find(number, set()) for number in range(len(old)))
