"""The broker's time.

Rule: there is one `Clock` in a broker, and only its owner reads the system's clocks: the server sets it once a turn of
the event loop, a test moves it by hand. Everybody else asks this object or is told the time in a call.

Two clocks, since they answer two questions. `now` says how long something takes: it never goes back and never jumps,
so deadlines hold when somebody sets the system's clock. `wall` says what time it is: it is what Kafka writes into
records and compares with their timestamps, and it may be set back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Clock:
    """Two times in milliseconds since the epoch, the same until the wall clock is set.

    now: for deadlines, time-outs and intervals. wall: for timestamps of records, and for comparisons with them
    (retention, compaction lags, expiry of offsets).
    """

    __slots__ = ("now", "wall")

    def __init__(self, now: int = 0, wall: int | None = None) -> None:
        self.set(now, wall)

    def set(self, now: int, wall: int | None = None) -> None:
        """Set both times; `wall` is `now` by default."""
        self.now = now
        self.wall = now if wall is None else wall


class Timed(Protocol):
    """A machine with deadlines, in milliseconds of `Clock.now`."""

    def next_deadline(self) -> int | None: ...

    def on_deadline(self, now: int) -> None: ...


def earliest_deadline(machines: Iterable[Timed]) -> int | None:
    """Return the first deadline of all the machines."""
    earliest: int | None = None
    for machine in machines:
        due = machine.next_deadline()
        if due is not None and (earliest is None or due < earliest):
            earliest = due
    return earliest
