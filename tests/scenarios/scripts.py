"""Scenarios by name. Rule: an instance is the decorator that adds one, under the name of its function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

S = TypeVar("S")


class Scripts(dict[str, Callable[[S], None]]):
    """Scenarios by name; as a decorator it adds a function."""

    def __call__(self, run: Callable[[S], None]) -> Callable[[S], None]:
        self[run.__name__.replace("_", "-")] = run
        return run
