"""Work that may block for long, kept off the event loop.

Rule: `run` is called in a thread and touches only what the job holds; `apply` is called on the loop afterwards and may
touch anything. Whoever owns the threads is handed each job through a `Submit`; without one jobs run where they arise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Job(Protocol):
    """`run` may raise OSError; then `failed` is called in the place of `apply`."""

    def run(self) -> None: ...

    def apply(self) -> None: ...

    def failed(self, error: OSError) -> None: ...


Submit = Callable[[Job], None]


def run_inline(job: Job) -> None:
    try:
        job.run()
    except OSError as error:
        job.failed(error)
    else:
        job.apply()
