"""The virtual time of a simulation, and the events in it.

Rule: nothing happens but by an event of the timeline, so the order of everything is decided by the seed. What is due
at the same millisecond happens in the order in which it was asked for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import ceil

from pykafka_broker.clock import Clock

START_MS = 1_700_000_000_000
Step = Callable[[], None]


class Event:
    """A step at a time to come, unless it is cancelled."""

    __slots__ = ("at", "step")

    def __init__(self, at: int, step: Step | None) -> None:
        self.at = at
        self.step = step

    def cancel(self) -> None:
        self.step = None


class Timeline:
    """Virtual milliseconds."""

    def __init__(self) -> None:
        self.now = START_MS
        self.happened = 0
        self._number = 0
        self._events: list[tuple[int, int, Event]] = []

    def after(self, delay_ms: int, step: Step) -> Event:
        """Take a step later; never before the caller has returned."""
        event = Event(self.now + max(0, delay_ms), step)
        self._number += 1
        heapq.heappush(self._events, (event.at, self._number, event))
        return event

    def run(self, until: int) -> None:
        """Let everything up to a time happen."""
        events = self._events
        while events and events[0][0] <= until:
            at, _, event = heapq.heappop(events)
            step, event.step = event.step, None
            if step is not None:
                self.now = at
                self.happened += 1
                step()
        self.now = until

    @property
    def next_due(self) -> int | None:
        """Return when the next event is due."""
        events = self._events
        while events and events[0][2].step is None:
            heapq.heappop(events)
        return events[0][0] if events else None


class Host:
    """A machine with one process on it: what runs there, runs in turns with one clock.

    A process that has ended does nothing more: what was to happen in it is forgotten. One that is paused does it all
    when it goes on.
    """

    def __init__(self, timeline: Timeline, name: str) -> None:
        self.timeline = timeline
        self.name = name
        self.clock = Clock(timeline.now)
        self._rate, self._since, self._shown = 1.0, timeline.now, timeline.now  # its clock showed that then
        self.wall_ahead_ms = 0
        self.life = 0  # the number of the process
        self.paused = False
        self.held = False  # its clock stands
        self._stalled: list[tuple[int, Step]] = []

    def turn(self, step: Step) -> None:
        """Take a step in a turn now."""
        self.set_clock()
        step()
        self.settle()

    def set_clock(self) -> None:
        """Set the clock to the present time, unless the clock stands."""
        if self.held:
            return
        now = self._shown + round((self.timeline.now - self._since) * self._rate)
        self.clock.set(now, now + self.wall_ahead_ms)

    def drift(self, rate: float) -> None:
        """Let the clock go by another rate from now on: its milliseconds in one of the timeline."""
        self.set_clock()
        self._rate, self._since, self._shown = rate, self.timeline.now, self.clock.now

    def hold(self) -> None:
        """Stop the clock, for `release`."""
        self.set_clock()
        self.held = True

    def release(self) -> None:
        """Let the clock go on from the time that it shows."""
        if self.held:
            self.held = False
            self._since, self._shown = self.timeline.now, self.clock.now
            self.wall_ahead_ms = self.clock.wall - self.clock.now

    def settle(self) -> None:
        """End a turn."""

    def later(self, delay_ms: int, step: Step) -> Event:
        """Take a step in a turn of this process, later by the clock of the host."""
        life = self.life

        def happen() -> None:
            if life != self.life:
                return
            if self.paused:
                self._stalled.append((life, step))
            else:
                self.turn(step)

        return self.timeline.after(ceil(delay_ms / self._rate), happen)

    def soon(self, step: Step) -> None:
        """Take a step in the next turn."""
        self.later(0, step)

    def on_ready(self, source: object, step: Step) -> None:
        """Take a step for a connection that something has come over, in a turn of its own."""
        self.later(0, step)

    def end_process(self) -> None:
        """Forget everything that was to happen in the process."""
        self.life += 1
        self.paused = False
        self._stalled.clear()
        self.release()

    def pause(self) -> None:
        self.paused = True

    def go_on(self) -> None:
        """End a pause: everything that has come meanwhile is there at once."""
        self.paused = False
        stalled, self._stalled = self._stalled, []
        for _, step in stalled:
            self.later(0, step)
