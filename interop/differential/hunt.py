"""Sequence after sequence, on several pairs of brokers at once. Rule: a seed is played once, by whoever is free, and a
class of differences is looked into until it has stayed once, or a few times. Most of it is waiting, hence threads.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

from interop.differential.making import sequence
from interop.differential.making.maker import Versions
from interop.differential.pair import Difference, Pair
from interop.differential.turns import Turns, is_for_all

LOOKS = 3  # at a class of differences of which none has stayed


class Hunt:
    """One run over many seeds."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        versions: Versions,
        areas: list[str] | None = None,
        say: Callable[[str], None] = print,
        rights: bool = False,
        at_edges: bool = False,
    ) -> None:
        self._pairs, self._versions, self._areas, self._say = pairs, versions, areas, say
        self._rights, self._at_edges = rights, at_edges
        self._lock, self._over = Lock(), Event()
        self._turns = {pair.addresses: Turns() for pair in pairs}
        self._seeds = itertools.count()
        self.kinds: Counter[str] = Counter()
        self._looks: Counter[str] = Counter()
        self.differences: list[Difference] = []  # that stay when they are looked into
        self.steps = self.sequences = 0

    def run(self, seed: int, steps: int) -> list[Difference]:
        """From that seed on, until so many steps are played; an interrupt ends it with what has been found."""
        self._seeds = itertools.count(seed)
        start = time.monotonic()
        with ThreadPoolExecutor(len(self._pairs)) as workers:
            try:
                for one in [workers.submit(self._work, pair, steps) for pair in self._pairs]:
                    one.result()
            except KeyboardInterrupt:
                self._say("interrupted")
            finally:
                self._over.set()
        self._say(f"\n{self.steps} steps in {self.sequences} sequences, {time.monotonic() - start:.0f} s")
        for kind, count in self.kinds.most_common():
            self._say(f"{count:5} x {kind}")
        return self.differences

    def _work(self, pair: Pair, steps: int) -> None:
        while self.steps < steps and not self._over.is_set():
            seed = next(self._seeds)
            steps_of_seed = sequence(seed, self._versions, self._areas, rights=self._rights, at_edges=self._at_edges)
            with self._turns[pair.addresses].taken(alone=is_for_all(steps_of_seed)):
                run = pair.run(steps_of_seed)
            with self._lock:
                self.steps += len(run.theirs)
                self.sequences += 1
                if run.difference is None:
                    continue
                self.kinds[run.difference.kind] += 1
                self._looks[run.difference.kind] += 1
                known = self._looks[run.difference.kind] > LOOKS
            if not known:
                self._look_into(pair, seed, run.difference)

    def _look_into(self, pair: Pair, seed: int, first: Difference) -> None:
        turns = self._turns[pair.addresses]
        with turns.taken(alone=True):
            stays = pair.again(first)
        if stays is None:
            self._say(f"\nseed {seed}: unsteady: {first.kind}\n{first.last()}")
            return
        with turns.taken(alone=is_for_all(first.steps)):
            smallest = pair.shrunk(stays)
        with self._lock:
            self.differences.append(smallest)
            self._looks[smallest.kind] = LOOKS
        self._say(f"\nseed {seed}: {smallest.kind}\n{smallest.script()}")
