"""The records of a share partition that are under way: from its start offset to the last one that was read.

Rule: batches follow each other without a hole, and so do the runs in a batch. A batch is what was acquired at once
when it was new; it keeps its extent, since the deliveries of a batch that fails again and again are cut down by it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from pykafka_broker.coordinators.share.delivery import TERMINAL, RecordState, StateRun


class Run:
    """Neighbouring offsets with the same fate."""

    __slots__ = ("deadline", "deliveries", "first", "last", "member", "state")

    def __init__(
        self, first: int, last: int, state: RecordState, deliveries: int, member: str = "", deadline: int = 0
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries  # how often it has been delivered
        self.member = member  # who has it, while ACQUIRED
        self.deadline = deadline  # until when, in epoch milliseconds

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        return f"Run({self.first}-{self.last} {self.state.name} x{self.deliveries} {self.member})"

    def set(self, state: RecordState, deliveries: int, member: str = "", deadline: int = 0) -> None:
        self.state = state
        self.deliveries = deliveries
        self.member = member
        self.deadline = deadline

    def stored(self) -> StateRun:
        return StateRun(self.first, self.last, self.state, self.deliveries)


class Batch:
    """The extent of an acquisition, and what has become of its offsets."""

    __slots__ = ("first", "last", "runs")

    def __init__(self, first: int, last: int, runs: list[Run]) -> None:
        self.first = first
        self.last = last
        self.runs = runs

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_done(self) -> bool:
        return all(run.state in TERMINAL for run in self.runs)

    def cut(self, offset: int) -> None:
        """Let a run begin at this offset."""
        for index, run in enumerate(self.runs):
            if run.first < offset <= run.last:
                rest = Run(offset, run.last, run.state, run.deliveries, run.member, run.deadline)
                run.last = offset - 1
                self.runs.insert(index + 1, rest)
                return

    def tidy(self) -> None:
        """Join neighbours that have become the same."""
        tidy = [self.runs[0]]
        for run in self.runs[1:]:
            before = tidy[-1]
            same = before.state is run.state and before.deliveries == run.deliveries and before.member == run.member
            if same and before.deadline == run.deadline:
                before.last = run.last
            else:
                tidy.append(run)
        self.runs = tidy


class InFlight:
    """All batches, in order."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def __bool__(self) -> bool:
        return bool(self.batches)

    def add(
        self, first: int, last: int, state: RecordState, deliveries: int, member: str = "", deadline: int = 0
    ) -> None:
        """A new batch at the end."""
        self.batches.append(Batch(first, last, [Run(first, last, state, deliveries, member, deadline)]))

    def overlapping(self, first: int, last: int) -> Iterator[Batch]:
        """The batches that have one of these offsets."""
        batches = self.batches
        index = max(0, bisect_right(batches, first, key=_first) - 1)
        while index < len(batches) and batches[index].first <= last:
            if batches[index].last >= first:
                yield batches[index]
            index += 1

    def runs(self) -> Iterator[Run]:
        for batch in self.batches:
            yield from batch.runs

    def between(self, first: int, last: int) -> list[Run]:
        """The runs of exactly these offsets; those at the ends are cut. What is not under way is left out."""
        found: list[Run] = []
        for batch in list(self.overlapping(first, last)):
            batch.cut(first)
            batch.cut(last + 1)
            found += [run for run in batch.runs if first <= run.first and run.last <= last]
        return found

    def tidy(self, first: int, last: int) -> None:
        """Join what has become the same around these offsets."""
        for batch in self.overlapping(first, last):
            batch.tidy()

    def drop_done(self) -> int | None:
        """Forget what is done at the front; returns the offset of the first that is not, None if all of it is."""
        done = 0
        for batch in self.batches:
            if not batch.is_done:
                break
            done += 1
        del self.batches[:done]
        if not self.batches:
            return None
        return next(run.first for run in self.batches[0].runs if run.state not in TERMINAL)

    def done_count(self, from_offset: int) -> int:
        """How many records are done from this offset on."""
        return sum(
            run.last - max(run.first, from_offset) + 1
            for run in self.runs()
            if run.state in TERMINAL and run.last >= from_offset
        )


def _first(batch: Batch) -> int:
    return batch.first
