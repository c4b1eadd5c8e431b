"""Removing files and folders some time after they went out of use (`file.delete.delay.ms`).

Rule: what waits here has a name that says so on disk (`.deleted`, `-delete`), so that after a crash the next start
removes it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka_broker.log.filesystem import FileSystem, is_passing
from pykafka_broker.log.jobs import Submit

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog

Removal = Callable[[], None]

_RETRY_MS = 10_000
_A_JOB = 1000  # removals; what else is due comes after others were served


class RemovalJob:
    """Lets go of each as soon as it is done: a removed file stays open as long as somebody may read from it."""

    def __init__(
        self,
        removals: list[Removal],
        on_error: Callable[[OSError], None],
        again: Callable[[list[Removal]], None] | None = None,
    ) -> None:
        self._removals = removals
        self._on_error = on_error
        self._again = again
        self._refused: list[Removal] = []  # for the moment

    def run(self) -> None:
        """All of them, also if one fails; then the first failure is raised."""
        first: OSError | None = None
        self._removals.reverse()
        while self._removals:
            removal = self._removals.pop()
            try:
                removal()
            except FileNotFoundError:
                continue
            except OSError as error:
                first = first or error
                if is_passing(error):
                    self._refused.append(removal)
        if first is not None:
            raise first

    def apply(self) -> None:
        """Nothing waits for it."""

    def failed(self, error: OSError) -> None:
        self._on_error(error)
        if self._again is not None:
            self._again(self._refused)


class Remover:
    """A queue of things to remove, each at its time."""

    def __init__(self, fs: FileSystem, submit: Submit, on_error: Callable[[OSError], None]) -> None:
        self._fs = fs
        self._submit = submit
        self._on_error = on_error
        self._queue: list[tuple[int, int, Removal]] = []
        self._count = 0  # keeps the order of what is due at the same time
        self._now = 0

    def later(self, due: int, removal: Removal) -> None:
        self._count += 1
        heapq.heappush(self._queue, (due, self._count, removal))

    def folder_later(self, due: int, path: str) -> None:
        self.later(due, lambda: self._fs.remove_tree(path))

    def log_later(self, due: int, folder: str, log: PartitionLog | None) -> None:
        """A folder that has just got this name, and the log that was loaded from it, whose files may be open."""
        if log is not None:
            log.folder_renamed(folder)
            for segment in log.segments:
                self.later(due, segment.remove)
        self.folder_later(due, folder)

    def next_deadline(self) -> int | None:
        return self._queue[0][0] if self._queue else None

    def on_deadline(self, now: int) -> None:
        self._now = now
        removals: list[Removal] = []
        while self._queue and self._queue[0][0] <= now and len(removals) < _A_JOB:
            removals.append(heapq.heappop(self._queue)[2])
        if removals:
            self._submit(RemovalJob(removals, self._on_error, self._try_again))

    def _try_again(self, refused: list[Removal]) -> None:
        """For want of a descriptor, say."""
        for removal in refused:
            self.later(self._now + _RETRY_MS, removal)
