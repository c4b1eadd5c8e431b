"""Long work of requests, in slices.

Rule: work is a generator, and what it does up to a `yield` takes about a millisecond. Works take turns, a few slices in
each turn of the loop, and all sockets are served in between. What a work returns or raises belongs to its request
alone, so `except Exception` stands here too; of work that nobody asked for (`unasked`) the log is told. Work whose
client has gone is ended where it is.

A handler whose answer takes long returns `services.slices.reply(steps)`; the response is what the generator returns in
the end. Work that yields a `Future` goes on with its result when that is there, or has its error raised in it.
A handler that serves partitions does so in `shares` of them where `are_many`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from pykafka_broker.broker.waiting.future import Answer, Future, caught
from pykafka_broker.errors import ApiError

log = logging.getLogger(__name__)

R = TypeVar("R")
G = TypeVar("G")
T = TypeVar("T")
Steps = Generator[Future[Any] | None, Any, R]
Later = Callable[[Callable[[], None]], object]

SLICES_A_TURN = 4
PARTITIONS_A_SLICE = 16  # the dearest are loaded first, or get their first record: a quarter of a millisecond each


class Work(Future[R]):
    """The future of what a generator returns. `waits`: it waits for another future, and must not be stepped."""

    __slots__ = ("_awaits", "_resume", "_running", "_steps", "waits")

    def __init__(self, steps: Steps[R], resume: Callable[[Work[Any]], None], *, outlives_client: bool = False) -> None:
        """`resume` is called when the work need not wait any more. Work that `outlives_client` is done to its end even
        if nobody waits for it."""
        super().__init__(None if outlives_client else self._close)
        self._steps = steps
        self._resume = resume
        self._awaits: Future[Any] | None = None
        self._running = self.waits = False

    def _close(self) -> None:
        if not self._running:  # else the waiter has gone by what the work does just now
            self._steps.close()

    def abandon(self) -> None:
        """End the work where it is: nobody waits for it any more."""
        self.on_cancel = self._close
        self.cancel()

    def lose(self, error: ApiError) -> None:
        """End the work, which can't be gone on with; its waiters are told why."""
        if not self.done:
            self._steps.close()
            self.fail(error)

    def step(self) -> None:
        """Do one slice."""
        if not self.done:
            awaits, self._awaits = self._awaits, None
            self._run(awaits)

    def began(self, awaits: Future[Any] | None) -> None:
        """Go on after the first slice, which was done elsewhere and has yielded `awaits`."""
        if awaits is not None and awaits.done:
            self._run(awaits)
        elif awaits is not None:
            self._wait(awaits)

    def _run(self, awaits: Future[Any] | None) -> None:
        steps, self._running = self._steps, True
        try:
            while True:
                if awaits is None:
                    awaits = next(steps)
                elif awaits.error is not None:
                    awaits = steps.throw(awaits.error)
                else:
                    awaits = steps.send(awaits.result())
                if awaits is None or not awaits.done:
                    break
        except StopIteration as end:
            self._running, result = False, end.value
        except Exception as error:
            self._running = False
            self.fail(caught(error))
            return
        else:
            self._running = False
            if awaits is not None:
                self._wait(awaits)
            return
        self.complete(result)

    def _wait(self, awaits: Future[Any]) -> None:
        self.waits, self._awaits = True, awaits
        awaits.add_done_callback(self._go_on)

    def _go_on(self, _: Future[Any]) -> None:
        self.waits = False
        if not self.done:
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

    def reply(self, steps: Steps[Answer[R]], *, outlives_client: bool = False) -> Answer[R]:
        """For a handler to return: the response (or a further wait) that the work returns in the end."""
        try:
            awaits = next(steps)
        except StopIteration as end:  # as nearly all work
            response: Answer[R] = end.value
            return response
        work = Work(steps, self._take, outlives_client=outlives_client)
        work.began(awaits)
        if not (work.done or work.waits):
            self._take(work)
        later: Any = work  # which may end in a further wait: the router follows it
        return work.result() if work.done else later

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
