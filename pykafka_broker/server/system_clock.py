"""The clock of a process.

Rule: the system's clocks are read here and nowhere else below `cli/`. `tick` is called at the start of each turn of the
server, so everything that one turn does happens at one time.
"""

from __future__ import annotations

import time

from pykafka_broker.clock import Clock


class SystemClock(Clock):
    """Set by `tick`. `now` starts as the wall clock's time and goes on steadily, whatever becomes of the wall clock."""

    __slots__ = ("_started",)

    def __init__(self) -> None:
        wall = time.time()
        super().__init__(int(wall * 1000))
        self._started = wall - time.monotonic()

    def tick(self) -> int:
        """Read the system's clocks; returns `now`."""
        self.wall = int(time.time() * 1000)
        self.now = now = int((self._started + time.monotonic()) * 1000)
        return now


def seconds() -> float:
    """To measure how long something of the process itself took; nothing that the broker does depends on it."""
    return time.monotonic()


def nanoseconds() -> int:
    """The same for what is short."""
    return time.perf_counter_ns()
