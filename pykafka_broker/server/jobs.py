"""Threads for what may block: syncs, removals, recovery, cleaning.

Rule: a job runs in a thread and its outcome is applied on the loop, so that everything else stays single-threaded.
The threads are made with the first job, and `drain` waits for the last one.
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
    """Runs jobs beside the event loop; `after` is called on the loop once outcomes were applied."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int, after: Callable[[], None]) -> None:
        self._loop = loop
        self._after = after
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="disk")
        self._left = 0  # jobs that were not applied yet
        self._none_left = asyncio.Event()
        self._done: deque[tuple[Job, Exception | None]] = deque()
        self._called = False  # the loop will look at what is done

    def submit(self, job: Job) -> None:
        self._left += 1
        self._executor.submit(self._run, job)

    def _run(self, job: Job) -> None:
        """In a thread. What ends while the loop is busy is applied in one go: a wake-up costs more than most jobs."""
        error: Exception | None = None
        try:
            job.run()
        except Exception as raised:
            error = raised
        self._done.append((job, error))
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        self._called = False  # before the first look: whatever ends from now on calls again, or is seen here
        while self._done:
            job, error = self._done.popleft()
            self._left -= 1
            try:
                _conclude(job, error)
            except Exception:
                log.exception("a defect in %s", type(job).__name__)
        if not self._left:
            self._none_left.set()
        self._after()

    async def drain(self) -> None:
        """Wait until every job was applied."""
        while self._left:
            self._none_left.clear()
            await self._none_left.wait()
        self._executor.shutdown()


def _conclude(job: Job, error: Exception | None) -> None:
    if error is None:
        job.apply()
    elif isinstance(error, OSError):
        job.failed(error)
    else:
        log.error("a defect in %s", type(job).__name__, exc_info=error)
        job.failed(OSError(f"{type(error).__name__}: {error}"))
