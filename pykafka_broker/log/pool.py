"""Several threads for work on many things of a kind.

Rule: only at a start and at a stop, when nothing else goes on that could wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

_Item = TypeVar("_Item")

ThreadPool = Callable[[int], "Executor"]  # makes so many threads, as `ThreadPoolExecutor` does


def in_threads(
    thread_pool: ThreadPool | None, threads: int, work: Callable[[_Item], object], items: Sequence[_Item]
) -> None:
    """`work` on each of the items; without a thread pool one after the other."""
    if thread_pool is None or len(items) < 2:
        for item in items:
            work(item)
        return
    with thread_pool(min(threads, len(items))) as pool:
        for _ in pool.map(work, items):
            pass
