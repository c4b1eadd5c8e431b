"""The random choices of all areas. Rule: names come from a small set, so that steps affect the same things."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from interop.differential.steps import Step

Versions = Mapping[str, tuple[int, int]]
T = TypeVar("T")
TOPICS = ["§a", "§b", "§c"]
USUALLY = 0.85


class Maker:
    """The random choices of one sequence, in versions that both brokers offer."""

    def __init__(self, rng: random.Random, versions: Versions) -> None:
        self.rng = rng
        self._versions = versions
        self.sequence: dict[tuple[str, str, int], int] = {}  # (producer, topic, partition) -> next number
        self.known: dict[str, Any] = {}  # what an area keeps for later steps of its own
        self.count = 0
        # How several topics are distributed depends on the order of their ids, so only a member that is alone reads
        # several. Up to three members can share the six partitions of §c evenly.
        self.alone = rng.random() < 0.3
        self.subscribed = ["§a", "§b", "§c"] if self.alone else ["§c"]

    def version(self, api: str) -> int:
        low, high = self._versions[api]
        return high if self.rng.random() < 0.4 else self.rng.randint(low, high)

    def step(self, api: str, fields: dict[str, Any], on: str = "main", keep: str = "", version: int = -1) -> list[Step]:
        """Return a step in a random version that both brokers have, or the nearest to `version`; none without one."""
        if api not in self._versions:
            return []
        low, high = self._versions[api]
        return [Step(api, self.version(api) if version < 0 else min(max(version, low), high), fields, on, keep)]

    def often(self, share: float = USUALLY) -> bool:
        return self.rng.random() < share

    def one(self, *choices: T) -> T:
        return self.rng.choice(choices)

    def mostly(self, usual: T, *others: T, share: float = USUALLY) -> T:
        return usual if self.rng.random() < share or not others else self.rng.choice(others)

    def some(self, choices: Sequence[T], at_most: int = 3) -> list[T]:
        return self.rng.sample(list(choices), self.rng.randint(1, min(at_most, len(choices))))

    def value(self, values: Sequence[T]) -> T:
        """Return the first value, a valid one, in half of the draws, and any of the values otherwise."""
        return values[0] if self.rng.random() < 0.5 else self.rng.choice(values)

    def topic(self) -> str:
        return self.mostly(self.one("§a", "§a", "§b", "§c"), "§none", "a b", "", share=0.93)

    def partition(self) -> int:
        return self.mostly(self.one(0, 0, 1), 2, 9, -1, share=0.93)

    def text(self) -> str:
        """Return a new value, so that records can be told apart."""
        self.count += 1
        return f"v{self.count}" + "x" * self.one(0, 0, 0, 5, 200)


@dataclass(frozen=True)
class Area:
    """The makers of an area's steps. start: the first steps; kinds: makers of later steps, with their weights."""

    start: Callable[[Maker], list[Step]]
    kinds: list[tuple[Callable[[Maker], list[Step]], int]]
