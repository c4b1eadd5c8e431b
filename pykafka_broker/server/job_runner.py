"""Threads for what may block: syncs, removals, recovery, cleaning.

Rule: a job runs in a thread and its outcome is applied on the loop, so that everything else stays single-threaded.
The threads are made with the first jobs, and `drain` waits for the last one. A hand-over between threads costs more
than most jobs, and each one takes the interpreter away from the loop: so what one turn of the loop submits is handed
over at its end, a thread takes jobs until there are none, and what ends while the loop is busy is applied in one go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pykafka_broker.log.jobs import Job

log = logging.getLogger(__name__)


class JobRunner:
    """Runs jobs beside the event loop; outcomes are applied in what is handed to `in_turn`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, threads: int, in_turn: Callable[[Callable[[], None]], None]
    ) -> None:
        self._loop = loop
        self._in_turn = in_turn
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="disk")
        self._resting = threads  # those that don't look for jobs
        self._rested: deque[None] = deque()  # one for each that has just found none
        self._left = 0  # jobs that were not applied yet
        self._none_left = asyncio.Event()
        self._waiting: deque[Job] = deque()
        self._done: deque[tuple[Job, Exception | None]] = deque()
        self._handing_over = False  # the loop will wake threads
        self._called = False  # the loop will look at what is done

    def submit(self, job: Job) -> None:
        self._left += 1
        self._waiting.append(job)
        if not self._handing_over:
            self._handing_over = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._handing_over = False
        while self._rested:
            self._rested.pop()
            self._resting += 1
        for _ in range(min(self._resting, len(self._waiting))):
            self._resting -= 1
            self._executor.submit(self._work)

    def _work(self) -> None:
        """In a thread, as long as there are jobs."""
        while True:
            try:
                job = self._waiting.popleft()
            except IndexError:
                break
            error: Exception | None = None
            try:
                job.run()
            except Exception as raised:
                error = raised
            self._done.append((job, error))
            if not self._called:
                self._called = True
                self._loop.call_soon_threadsafe(self._finish)
        self._rested.append(None)
        if self._waiting:  # submitted in between, when this thread still seemed to look for jobs
            self._loop.call_soon_threadsafe(self._hand_over)

    def _finish(self) -> None:
        self._called = False  # before the first look: whatever ends from now on calls again, or is seen here
        self._in_turn(self._apply)

    def _apply(self) -> None:
        while self._done:
            job, error = self._done.popleft()
            self._left -= 1
            try:
                _conclude(job, error)
            except Exception:
                log.exception("a defect in %s", type(job).__name__)
        if not self._left:
            self._none_left.set()

    @property
    def is_idle(self) -> bool:
        """Every job was applied."""
        return not self._left

    async def all_done(self) -> None:
        """Wait until every job was applied, those included that came meanwhile."""
        while self._left:
            self._none_left.clear()
            await self._none_left.wait()

    async def drain(self) -> None:
        """The same, and there will be no more."""
        await self.all_done()
        self._executor.shutdown()


def _conclude(job: Job, error: Exception | None) -> None:
    if error is None:
        job.apply()
    elif isinstance(error, OSError):
        job.failed(error)
    else:
        log.error("a defect in %s", type(job).__name__, exc_info=error)
        job.failed(OSError(f"{type(error).__name__}: {error}"))
