"""The clock of a process.

Rule: the system's clocks are read here and nowhere else below `cli/`. `tick` is called at the start of each turn of the
server, so everything in one turn happens at one time.
"""

from __future__ import annotations

import time

from pykafka_broker.clock import Clock


class SystemClock(Clock):
    """A clock set by `tick`.

    `now` begins as the wall clock's time and runs steadily, whatever happens to the wall clock.
    """

    __slots__ = ("_started",)

    def __init__(self) -> None:
        wall = time.time()
        super().__init__(int(wall * 1000))
        self._started = wall - time.monotonic()

    def tick(self) -> int:
        """Read the system's clocks; return `now`."""
        self.wall = int(time.time() * 1000)
        self.now = now = int((self._started + time.monotonic()) * 1000)
        return now


def seconds() -> float:
    """Return a time for measuring the process; the broker's behaviour never depends on it."""
    return time.monotonic()


def nanoseconds() -> int:
    """Return a fine time for measuring short work."""
    return time.perf_counter_ns()
