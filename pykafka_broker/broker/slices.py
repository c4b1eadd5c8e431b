"""Long work of requests, in slices.

Rule: work is a generator, and what it does up to a `yield` takes about a millisecond. Works take turns, a few slices in
each turn of the loop, and all sockets are served in between. What a work returns or raises belongs to its request
alone, so `except Exception` stands here too; of work that nobody asked for (`unasked`) the log is told. Work whose
client has gone is ended where it is.

A handler whose answer takes long returns `services.slices.reply(steps)`; the response is what the generator returns in
the end. Work that yields places (`reply.After`) goes on when all is committed there, or has the ApiError raised in it.
A handler that serves partitions does so in `shares` of them where `are_many`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from pykafka_broker.broker.reply import After, Reply, Waiter, when_all
from pykafka_broker.errors import ApiError

log = logging.getLogger(__name__)

R = TypeVar("R")
G = TypeVar("G")
T = TypeVar("T")
Steps = Generator[After | None, None, R]
Later = Callable[[Callable[[], None]], object]

SLICES_A_TURN = 4
PARTITIONS_A_SLICE = 16  # the dearest are loaded first, or get their first record: a quarter of a millisecond each


class Work(Generic[R]):
    """One of them: a place (`reply.Committing`) where everything is committed once it is done."""

    __slots__ = (
        "_error",
        "_lost",
        "_result",
        "_resume",
        "_running",
        "_steps",
        "_waiters",
        "done",
        "outlives_client",
        "waits",
    )

    def __init__(self, steps: Steps[R], resume: Callable[[Work[Any]], None], *, outlives_client: bool = False) -> None:
        """`resume` is called when it need not wait any more. One that `outlives_client` is done to its end even if
        nobody waits for it."""
        self._steps = steps
        self._resume = resume
        self._lost: ApiError | None = None
        self.waits = False
        self.outlives_client = outlives_client
        self._waiters: list[Waiter] = []
        self._result: Any = None
        self._error: Exception | None = None
        self._running = False
        self.done = False

    def result(self) -> R:
        """What it returned, or raises what it raised; asked once it is done."""
        if self._error is not None:
            error, self._error = self._error, None  # its traceback knows this work, and the request
            raise error
        result: R = self._result
        self._result = None
        return result

    def is_committed(self, offset: int) -> bool:
        return self.done

    def when_committed(self, offset: int, waiter: Waiter) -> None:
        if self.done:
            waiter(None)
        else:
            self._waiters.append(waiter)

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        if not self.done:
            self.done = True
            self._waiters.clear()
            if not self._running:  # else whoever waited for it has gone by what it does just now
                self._steps.close()

    def lose(self, error: ApiError) -> None:
        """It can't be gone on with: whoever waits for it is told why."""
        if not self.done:
            self._steps.close()
            self._error = error
            self._end()

    def step(self) -> None:
        """One slice."""
        if self.done:
            return
        self._running = True
        lost, self._lost = self._lost, None
        try:
            after = next(self._steps) if lost is None else self._steps.throw(lost)
            self._wait(after)
        except StopIteration as end:
            self._result = end.value
        except Exception as error:
            self._error = error
        else:
            return
        finally:
            self._running = False
        self._end()

    def began(self, after: After | None) -> None:
        """Its first slice is done, and has yielded `after`."""
        self._running = True
        self._wait(after)
        self._running = False

    def _wait(self, after: After | None) -> None:
        if after:
            self.waits = True
            when_all(after, self._go_on)

    def _end(self) -> None:
        self.done = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter(None)

    def _go_on(self, error: ApiError | None) -> None:
        self.waits, self._lost = False, error
        if not (self._running or self.done):
            self._resume(self)


class Slices:
    """All works of one broker.

    `later` calls what it is given in the next turn of the loop; without one, work is done where it arises.
    """

    def __init__(self, later: Later | None) -> None:
        self._later = later
        self._works: deque[Work[Any]] = deque()
        self._will_go_on = False

    def __len__(self) -> int:
        return len(self._works)

    def begin(self, steps: Steps[R], *, outlives_client: bool = False) -> Work[R]:
        """Its first slice is done at once."""
        work = Work(steps, self._take, outlives_client=outlives_client)
        work.step()
        if not (work.done or work.waits):
            self._take(work)
        return work

    def _begun(self, steps: Steps[R], after: After | None, *, outlives_client: bool) -> Work[R]:
        """Work whose first slice is done."""
        work = Work(steps, self._take, outlives_client=outlives_client)
        work.began(after)
        if not work.waits:
            self._take(work)
        return work

    def _take(self, work: Work[Any]) -> None:
        if self._later is None:
            while not (work.done or work.waits):
                work.step()
        else:
            self._works.append(work)
            self._go_on_later()

    def unasked(self, steps: Steps[object]) -> None:
        """Work that follows from a change: nobody waits for it."""
        self.begin(_told_of(steps), outlives_client=True)

    def reply(self, steps: Steps[R], *, outlives_client: bool = False) -> R | Reply:
        """For a handler to return: the response (or a further wait) that the work returns in the end."""
        try:
            after = next(steps)
        except StopIteration as end:  # as nearly all work
            response: R = end.value
            return response
        work = self._begun(steps, after, outlives_client=outlives_client)
        return work.result() if work.done else Reply(((work, 0),), work.result)

    def _go_on_later(self) -> None:
        if self._works and self._later is not None and not self._will_go_on:
            self._will_go_on = True
            self._later(self._go_on)

    def _go_on(self) -> None:
        """The share of one turn."""
        self._will_go_on = False
        works = self._works
        for _ in range(min(SLICES_A_TURN, len(works))):
            work = works.popleft()
            work.step()
            if not (work.done or work.waits):
                works.append(work)
        self._go_on_later()

    def lose(self, error: ApiError) -> None:
        """Another broker takes the place of this one: whoever waits for work is told."""
        while self._works:
            self._works.popleft().lose(error)

    def stop(self) -> None:
        """The broker ends."""
        while self._works:
            self._works.popleft().abandon()


def _told_of(steps: Steps[object]) -> Steps[None]:
    try:
        yield from steps
    except ApiError as error:
        log.error("what follows from a change was not done: %s", error)
    except Exception:
        log.exception("a defect in what follows from a change")


def are_many(groups: Iterable[Collection[object]]) -> bool:
    """Whether the partitions of these topics are too many for one slice."""
    return sum(map(len, groups)) > PARTITIONS_A_SLICE


def shares(groups: Iterable[tuple[G, Sequence[T]]]) -> Iterator[list[tuple[G, Sequence[T]]]]:
    """The partitions of several topics, as many at a time as are served in one slice, in their order. A topic without
    any comes too, and counts as one.
    """
    share: list[tuple[G, Sequence[T]]] = []
    room = PARTITIONS_A_SLICE
    for group, items in groups:
        start = 0
        while True:
            some = items[start : start + room]
            share.append((group, some))
            start += len(some)
            room -= max(1, len(some))
            if room <= 0:
                yield share
                share, room = [], PARTITIONS_A_SLICE
            if start >= len(items):
                break
    if share:
        yield share


__all__ = ["PARTITIONS_A_SLICE", "SLICES_A_TURN", "Later", "Slices", "Steps", "Work", "are_many", "shares"]
