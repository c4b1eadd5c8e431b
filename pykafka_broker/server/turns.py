"""The turns of a process: who is ready is served, then what that has moved is settled, once for all of them.

Rule: a turn begins with a tick of the clock and ends with `settle`. All sockets are watched by one epoll of their own,
which the event loop watches as a single descriptor, so that many that are ready cost the loop one callback. Nobody is
starved: a turn takes so many sockets and gives each its share of requests, the next one goes on from there, and after a
few turns the loop does everything else.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Protocol

from pykafka_broker.server.framing import BufferPool
from pykafka_broker.server.system_clock import SystemClock
from pykafka_broker.server.transport import READ, WRITE

SCRATCH_BYTES = 256 << 10
_TURNS_AT_ONCE = 4
_SOCKETS_A_TURN = 256
_REQUESTS_A_TURN = 256
_SMALLEST_SHARE = 16  # what is left of a read is copied: that is worth it only after some requests


class Source(Protocol):
    """Whoever owns a descriptor. It never raises: what goes wrong with one concerns only that one."""

    def on_ready(self, events: int) -> None:
        """READ, WRITE or both; other bits stand for trouble, which shows when it reads or writes."""


class Readiness(Protocol):
    """Tells which descriptors are ready, as long as they are."""

    def register(self, fd: int, events: int) -> object: ...
    def modify(self, fd: int, events: int) -> object: ...
    def unregister(self, fd: int) -> object: ...
    def close(self) -> None: ...


class Turns:
    """The loop, the clock, and what all streams of a process share.

    settle: called at the end of each turn, for who waits for what it has done.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: SystemClock) -> None:
        self.loop = loop
        self.clock = clock
        self.settle: Callable[[], None] = _nothing_to_settle
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.buffers = BufferPool()
        self.share = _REQUESTS_A_TURN  # of requests that one stream is served in this turn
        self._sources: dict[int, Source] = {}
        self._soon: list[Callable[[], None]] = []
        self._readiness: Readiness
        self._poll: Callable[[float, int], list[tuple[int, int]]] = _nothing_polled
        self._watched_by_loop: int | None = None
        if hasattr(select, "epoll"):
            epoll = self._readiness = select.epoll()
            self._poll = epoll.poll
            self._watched_by_loop = epoll.fileno()
            loop.add_reader(self._watched_by_loop, self._on_ready)
        else:
            self._readiness = LoopReadiness(loop, self._on_one_ready)

    # -- who is watched

    def watch(self, source: Source, fd: int, events: int) -> None:
        self._sources[fd] = source
        self._readiness.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        self._readiness.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Before it is closed."""
        if self._sources.pop(fd, None) is not None:
            self._readiness.unregister(fd)

    # -- turns

    def soon(self, step: Callable[[], None]) -> None:
        """Call it in the next turn."""
        if not self._soon:
            self.loop.call_soon(self._on_ready)
        self._soon.append(step)

    def run(self, step: Callable[[], None]) -> None:
        """A turn for what the loop calls for another reason than a socket."""
        self.clock.tick()
        try:
            step()
        finally:
            self.settle()

    def _on_ready(self) -> None:
        """While somebody is ready the loop, which looks at much else, is passed over a few times."""
        for _ in range(_TURNS_AT_ONCE):
            if not self._turn():
                return

    def _turn(self) -> bool:
        ready = self._poll(0, _SOCKETS_A_TURN)
        if not (ready or self._soon):
            return False
        self.clock.tick()
        count = len(ready)
        self.share = max(_SMALLEST_SHARE, _REQUESTS_A_TURN // count) if count > 1 else _REQUESTS_A_TURN
        try:
            if self._soon:
                self._do_soon()
            find = self._sources.get
            for fd, events in ready:
                source = find(fd)
                if source is not None:  # one before it in this turn may have closed it
                    source.on_ready(events)
        finally:
            self.settle()
        return True

    def _do_soon(self) -> None:
        soon, self._soon = self._soon, []
        for step in soon:
            step()

    def _on_one_ready(self, fd: int, events: int) -> None:
        source = self._sources.get(fd)
        if source is not None:
            self.run(lambda: source.on_ready(events))

    def close(self) -> None:
        if self._watched_by_loop is not None:
            self.loop.remove_reader(self._watched_by_loop)
            self._poll = _nothing_polled
        self._readiness.close()


class LoopReadiness:
    """For platforms without epoll: the loop watches each descriptor, and each one that is ready has its own turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_ready: Callable[[int, int], None]) -> None:
        self._loop = loop
        self._on_ready = on_ready

    def register(self, fd: int, events: int) -> None:
        self.modify(fd, events)

    def modify(self, fd: int, events: int) -> None:
        self.unregister(fd)
        if events & READ:
            self._loop.add_reader(fd, self._on_ready, fd, READ)
        if events & WRITE:
            self._loop.add_writer(fd, self._on_ready, fd, WRITE)

    def unregister(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)

    def close(self) -> None:
        """There is nothing of its own."""


def _nothing_to_settle() -> None: ...


def _nothing_polled(timeout: float, most: int) -> list[tuple[int, int]]:
    return []
