"""The two brokers and the differences that a sequence shows. Rule: a difference counts only if a second run with more
time between the steps shows it again; then steps are left out as long as the difference stays.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interop.differential.cleaning import clean
from interop.differential.compare import Chance, class_of, found
from interop.differential.play import Outcome, Side, lockstep
from interop.differential.steps import Step, prefix_of

SETTLE_S, CAREFUL_SETTLE_S = 0.12, 0.4
SHRINKS_FOR_S = 45.0
ASSIGNED = {"ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"}
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    # Work in the background would come at unpredictable times.
    "log.retention.check.interval.ms": "3600000",
    "log.cleaner.enable": "false",
    # On a busy machine the heartbeats of Kafka's broker are late, and leaders would get new epochs.
    "broker.session.timeout.ms": "120000",
}


@dataclass
class Difference:
    """The first step whose outcomes differ."""

    steps: list[Step]
    lines: list[str]

    @property
    def kind(self) -> str:
        return class_of(self.lines[0])

    def script(self) -> str:
        return "\n".join([*(f"  {step}" for step in self.steps[:-1]), self.last()])

    def last(self) -> str:
        """Return the step that shows the difference, with the first lines of the difference."""
        return "\n".join([f"  {self.steps[-1]}", *(f"    -> {line}" for line in self.lines[:6])])


@dataclass
class Run:
    """Kafka's answers to a sequence, and the first difference of this broker's."""

    theirs: list[Outcome]
    difference: Difference | None


class Pair:
    """This broker and Kafka's, by address."""

    def __init__(
        self, ours: str, theirs: str, *, settles: bool = True, stranger: str = "", lane: int = 0, lanes: int = 1
    ) -> None:
        """Create one of `lanes` pairs that play on the same two brokers, each under names of its own."""
        self.addresses = (ours, theirs)
        self._lane, self._beside_others = lane, lanes > 1
        self._settles = settles  # whether Kafka's broker needs time after a change of metadata
        self._stranger = stranger  # the address of a client that has only the rights that a sequence gives it
        # A broker that runs on from run to run still knows the groups of earlier ones.
        self._numbers = itertools.count(int(time.time()) * 10 % 9_000_000 + lanes + lane, lanes)

    def run(self, steps: Sequence[Step], settle_s: float = SETTLE_S, to_the_end: bool = False) -> Run:
        """Play the steps up to the first difference; all of them if `to_the_end`, for Kafka's answers."""
        prefix = prefix_of(next(self._numbers))
        asks = self._settles and any(step.api in ASSIGNED for step in steps)
        settled = settle_s * self._settles
        sides = [
            Side(self.addresses[0], prefix, stranger=self._stranger),
            Side(self.addresses[1], prefix, settled, asks, self._stranger, self._lane),
        ]
        theirs: list[Outcome] = []
        chance = Chance(self._beside_others)
        try:
            for at, step in enumerate(steps):
                answered = dict(sides[0].waiting) | {step.on: step}
                outcomes = lockstep(sides, step)
                theirs.append(outcomes[1])
                lines = list(found(answered, *outcomes))
                if chance.is_it(answered, outcomes[1], lines) and not to_the_end:
                    return Run(theirs, None)
                if lines and not to_the_end:
                    return Run(theirs, Difference(list(steps[: at + 1]), lines))
            return Run(theirs, None)
        finally:
            for side in sides:
                side.close()
            for address in self.addresses:
                clean(address, prefix, steps, self._stranger)

    def examined(self, steps: Sequence[Step]) -> Difference | None:
        """Return a difference that two runs show, with as few steps as possible; None without one."""
        first = self.run(steps).difference
        stays = None if first is None else self.again(first)
        return None if stays is None else self.shrunk(stays)

    def again(self, first: Difference) -> Difference | None:
        """Return the difference as a slower run shows it; None if that run shows none of its kind."""
        found = self.run(first.steps, CAREFUL_SETTLE_S).difference
        return found if found is not None and found.kind == first.kind else None

    def shrunk(self, difference: Difference) -> Difference:
        """Return the difference with the fewest steps that are found within SHRINKS_FOR_S."""
        smallest = difference
        size = len(smallest.steps) // 2
        until = time.monotonic() + SHRINKS_FOR_S
        while size:
            for candidate in without(smallest.steps, size):
                if time.monotonic() > until:
                    return smallest
                shown = self.run(candidate, CAREFUL_SETTLE_S).difference
                if shown is not None and shown.kind == difference.kind and len(shown.steps) < len(smallest.steps):
                    smallest = shown
                    break
            else:
                size //= 2
                continue
            size = min(size, len(smallest.steps) // 2)
        return smallest


def without(steps: Sequence[Step], size: int) -> Iterator[list[Step]]:
    """Yield the steps without `size` of them in a row; the last one stays, since it shows the difference."""
    for end in range(len(steps) - 1, 0, -size):
        yield [*steps[: max(end - size, 0)], *steps[end:]]
