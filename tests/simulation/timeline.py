"""The one virtual time of a simulation, and what happens when.

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
    """Something that will happen, unless it is cancelled."""

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
        """`step` is taken so much later; never before whoever asks has returned."""
        event = Event(self.now + max(0, delay_ms), step)
        self._number += 1
        heapq.heappush(self._events, (event.at, self._number, event))
        return event

    def run(self, until: int) -> None:
        """Let things happen up to a time."""
        events = self._events
        while events and events[0][0] <= until:
            at, _, event = heapq.heappop(events)
            step, event.step = event.step, None
            if step is not None:
                self.now = at
                self.happened += 1
                step()
        self.now = until


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
        self._stalled: list[tuple[int, Step]] = []

    def turn(self, step: Step) -> None:
        """Now."""
        self.set_clock()
        step()
        self.settle()

    def set_clock(self) -> None:
        """It is now."""
        now = self._shown + round((self.timeline.now - self._since) * self._rate)
        self.clock.set(now, now + self.wall_ahead_ms)

    def drift(self, rate: float) -> None:
        """From now on so many of its milliseconds pass in one."""
        self.set_clock()
        self._rate, self._since, self._shown = rate, self.timeline.now, self.clock.now

    def settle(self) -> None:
        """At the end of each turn."""

    def later(self, delay_ms: int, step: Step) -> Event:
        """A turn of this process, so much later by its own clock."""
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
        """In the next turn."""
        self.later(0, step)

    def end_process(self) -> None:
        """Whatever was to happen in it does not."""
        self.life += 1
        self.paused = False
        self._stalled.clear()

    def pause(self) -> None:
        self.paused = True

    def go_on(self) -> None:
        """The end of a pause: what has come meanwhile is there at once."""
        self.paused = False
        stalled, self._stalled = self._stalled, []
        for _, step in stalled:
            self.later(0, step)
