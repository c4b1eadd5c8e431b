"""The turns of a process: who is ready is served, then what that has moved is settled, once for all of them.

Rule: a turn begins with a tick of the clock and ends with `settle`, then what it has answered leaves; many sockets that
are ready cost the event loop one callback. Nobody is starved: a turn takes so many sockets and gives each its share of
requests, the next one goes on from there, and after a few turns the loop does everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from pykafka_broker.server.answers import Answers
from pykafka_broker.server.framing import BufferPool
from pykafka_broker.server.readiness import NoneReady, Readiness, readiness_of
from pykafka_broker.server.system_clock import SystemClock

SCRATCH_BYTES = 256 << 10
_TURNS_IN_PASSING = 3
_REQUESTS_A_TURN = 256
_SMALLEST_SHARE = 16  # what is left of a read is copied: that is worth it only after some requests


class Source(Protocol):
    """Whoever owns a descriptor. It never raises: what goes wrong with one concerns only that one."""

    def on_ready(self, events: int) -> None:
        """READ, WRITE or both; other bits stand for trouble, which shows when it reads or writes."""


class Turns:
    """The loop, the clock, and what all streams of a process share.

    settle: called at the end of each turn, for who waits for what it has done; not where it has only moved parts of
    frames.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: SystemClock) -> None:
        self.loop = loop
        self.clock = clock
        self.settle: Callable[[], None] = _nothing_to_settle
        self.observers: list[Callable[[], None]] = []  # who looks, after each `settle`, at what has become of things
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.buffers = BufferPool()
        self.share = _REQUESTS_A_TURN  # of requests that one stream is served in this turn
        self.answers = Answers()
        self.in_parts = 0  # streams that have only moved a part of a frame in this turn, in or out
        self._sources: dict[int, Source] = {}
        self._soon: list[Callable[[], None]] = []  # of the next turn
        self._due: list[Callable[[], None]] = []  # of this one
        self._readiness: Readiness = readiness_of(loop)
        self._readiness.start(self._on_ready)

    # -- who is watched

    def watch(self, source: Source, fd: int, events: int) -> None:
        self._sources[fd] = source
        self._readiness.watch(fd, events)

    def change(self, fd: int, events: int) -> None:
        self._readiness.change(fd, events)

    def forget(self, fd: int) -> None:
        """Before it is closed."""
        if self._sources.pop(fd, None) is not None:
            self._readiness.forget(fd)

    def rest(self) -> None:
        """Let all of them wait until `go_on`: bytes and connections that come meanwhile stay with the system."""
        self._readiness = NoneReady(self._readiness)

    def go_on(self) -> None:
        """The end of `rest`."""
        if isinstance(self._readiness, NoneReady):
            self._readiness = self._readiness.resting

    # -- turns

    def soon(self, step: Callable[[], None]) -> None:
        """Call it in the next turn, after a look at the sockets."""
        if not self._soon:
            self.loop.call_soon(self._on_soon)
        self._soon.append(step)

    def run(self, step: Callable[[], None]) -> None:
        """A turn for what the loop calls for another reason than a socket."""
        self.clock.tick()
        try:
            step()
        finally:
            self.settle()

    def _on_soon(self) -> None:
        """Once for all that there is to do soon: sockets that are ready meanwhile do not make it come sooner."""
        self._due, self._soon = self._soon, []
        self._on_ready()

    def _on_ready(self) -> None:
        """While several are ready the loop, which looks at much else, is passed over a few times."""
        ready = self._readiness.take()
        passing = _TURNS_IN_PASSING
        while ready or self._due:
            self.clock.tick()
            count, self.in_parts, gone_on = len(ready), 0, bool(self._due)
            self.share = max(_SMALLEST_SHARE, _REQUESTS_A_TURN // count) if count > 1 else _REQUESTS_A_TURN
            answers = self.answers
            if count > 1:
                answers.gather(count)
            try:
                if gone_on:
                    self._do_due()
                for fd, events in ready:
                    source = self._sources.get(fd)
                    if source is not None:  # one before it in this turn may have closed it
                        source.on_ready(events)
            finally:
                try:
                    if gone_on or self.in_parts < count:
                        self.settle()
                finally:
                    answers.send()
            if count < 2 or not passing:
                return
            passing -= 1
            ready = self._readiness.look()

    def _do_due(self) -> None:
        due, self._due = self._due, []
        for step in due:
            step()

    def close(self) -> None:
        self._readiness.stop()


def _nothing_to_settle() -> None: ...
