"""Work that may block for long, kept off the event loop.

Rule: `run` is called in a thread and touches only what the job holds; `apply` is called on the loop afterwards and may
touch anything. The owner of the threads is handed each job through a `Submit`; without threads a job runs where it
arises. `in_threads` is for a start and a stop alone, when no request waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

_Item = TypeVar("_Item")
_SHARES_OF_A_THREAD = 16
ThreadPool = Callable[[int], "Executor"]  # makes an executor with so many threads, as `ThreadPoolExecutor` does


class Job(Protocol):
    """Work for a thread. `run` may raise OSError; then `failed` is called in the place of `apply`."""

    def run(self) -> object: ...

    def apply(self) -> object: ...

    def failed(self, error: OSError) -> object: ...


@dataclass(slots=True, eq=False)
class Errand:
    """A job of functions. Without `apply` no caller waits for the end."""

    run: Callable[[], object]
    failed: Callable[[OSError], object]
    apply: Callable[[], object] = lambda: None


Submit = Callable[[Job], None]


def run_inline(job: Job) -> None:
    try:
        job.run()
    except OSError as error:
        job.failed(error)
    else:
        job.apply()


def in_threads(
    thread_pool: ThreadPool | None, threads: int, work: Callable[[_Item], object], items: Sequence[_Item]
) -> None:
    """Call `work` with each of the items, in threads; without a thread pool in the calling thread."""

    def work_on(some: Sequence[_Item]) -> None:
        for item in some:
            work(item)

    if thread_pool is None or len(items) < 2:
        work_on(items)
        return
    # handing over many small items costs more than the work; shares are small, so that all threads end together
    size = max(1, len(items) // (threads * _SHARES_OF_A_THREAD))
    shares = [items[start : start + size] for start in range(0, len(items), size)]
    with thread_pool(min(threads, len(shares))) as pool:
        for _ in pool.map(work_on, shares):
            pass
