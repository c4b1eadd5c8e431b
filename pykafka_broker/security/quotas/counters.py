"""The counters of entities, by name.

Rule: bounded. One that does not differ from a new one any more is forgotten; and where clients make up names faster
than that, the older half of all counters is. A name may be as long as a client likes: its hash stands for it, which
nobody can choose.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

MOST = 1 << 14


class Counter(Protocol):
    """What counts for one entity."""

    def matters(self, now: int) -> bool:
        """Whether it differs from a new one."""


C = TypeVar("C", bound=Counter)


class Counters(Generic[C]):
    """Made at the first use. Those that were used since the last look stand in `_young`. A look leaves nothing of the
    others: they were not used for all windows. lasting: one may matter for longer, and is kept for so long.
    """

    __slots__ = ("_lasting", "_look_at", "_new", "_old", "_windows_ms", "_young")

    def __init__(self, new: Callable[[], C], windows_ms: int, *, lasting: bool = False) -> None:
        self._new = new
        self._windows_ms = windows_ms
        self._lasting = lasting
        self._young: dict[int, C] = {}
        self._old: dict[int, C] = {}
        self._look_at = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, name: Hashable, now: int) -> C:
        """The counter of that name."""
        key = hash(name)
        if now >= self._look_at:
            self._look(now)
        counter = self._young.get(key)
        if counter is None:
            counter = self._young[key] = self._old.pop(key, None) or self._new()
            if len(self._young) > MOST:
                self._old, self._young = self._young, {}
        return counter

    def _look(self, now: int) -> None:
        self._look_at = now + self._windows_ms
        kept = {key: each for key, each in self._old.items() if each.matters(now)} if self._lasting else {}
        self._old, self._young = self._young, {}
        self._old.update(kept)
