"""Threads for what may block: syncs, removals, recovery, cleaning.

Rule: a job runs in a thread and its outcome is applied on the loop, so that everything else stays single-threaded.
The threads are made with the first job, and `drain` waits for the last one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from pykafka_broker.log.jobs import Job

log = logging.getLogger(__name__)


class JobRunner:
    """Runs jobs beside the event loop; `after` is called on the loop once an outcome was applied."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int, after: Callable[[], None]) -> None:
        self._loop = loop
        self._after = after
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="disk")
        self._running: set[Future[None]] = set()

    def submit(self, job: Job) -> None:
        future = self._executor.submit(job.run)
        self._running.add(future)
        future.add_done_callback(lambda done: self._loop.call_soon_threadsafe(self._finish, job, done))

    def _finish(self, job: Job, future: Future[None]) -> None:
        self._running.discard(future)
        error = future.exception()
        if error is None:
            job.apply()
        elif isinstance(error, OSError):
            job.failed(error)
        else:
            log.error("a defect in %s", type(job).__name__, exc_info=error)
            job.failed(OSError(f"{type(error).__name__}: {error}"))
        self._after()

    async def drain(self) -> None:
        """Wait until every job was applied."""
        while self._running:
            await asyncio.wait({asyncio.wrap_future(future) for future in self._running})
            await asyncio.sleep(0)  # the callbacks that apply them come right after
        self._executor.shutdown()
