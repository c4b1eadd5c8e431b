"""The sockets that are ready.

Rule: a watcher of many sockets is told of all ready ones in one call. `EpollLoop` is asyncio's loop with one epoll for
its own descriptors and for these: events of the loop take the usual way, the rest is told at once, and one system call
serves both. On any other loop, as on platforms without epoll, each ready socket is told by itself.
"""

from __future__ import annotations

import asyncio
import os
import select
import selectors
from collections.abc import Callable
from typing import Protocol

from pykafka_broker.server.transport import READ, WRITE

Ready = list[tuple[int, int]]  # descriptors and their events

_MOST_AT_ONCE = 256


class Readiness(Protocol):
    """A watch over sockets: `tell` is called from the loop when some are ready, and `take` names them."""

    def start(self, tell: Callable[[], None]) -> None: ...
    def watch(self, fd: int, events: int) -> object: ...
    def change(self, fd: int, events: int) -> object: ...
    def forget(self, fd: int) -> object: ...
    def take(self) -> Ready: ...

    def look(self) -> Ready:
        """Return sockets ready now, as far as the system can be asked."""

    def stop(self) -> None: ...


def readiness_of(loop: asyncio.AbstractEventLoop) -> Readiness:
    """Return the best implementation for the loop."""
    own: Readiness | None = getattr(loop, "readiness", None)  # of an EpollLoop
    return LoopReadiness(loop) if own is None else own


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return the platform's best loop of asyncio."""
    # Not what asyncio itself takes on Windows: its proactor has no readers and writers of sockets.
    return EpollLoop() if hasattr(select, "epoll") else asyncio.SelectorEventLoop()


class LoopReadiness:
    """Readiness by the readers and writers of any loop of asyncio."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: Ready = []

    def start(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def _on_ready(self, fd: int, events: int) -> None:
        self._ready.append((fd, events))
        self._tell()

    def watch(self, fd: int, events: int) -> None:
        if events & READ:
            self._loop.add_reader(fd, self._on_ready, fd, READ)
        if events & WRITE:
            self._loop.add_writer(fd, self._on_ready, fd, WRITE)

    def change(self, fd: int, events: int) -> None:
        self.forget(fd)
        self.watch(fd, events)

    def forget(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)

    def take(self) -> Ready:
        ready, self._ready = self._ready, []
        return ready

    def look(self) -> Ready:
        return []

    def stop(self) -> None: ...


class NoneReady:
    """A stand-in while sockets rest: no socket is ready. Sockets still ready afterwards are reported then."""

    def __init__(self, resting: Readiness) -> None:
        self.resting = resting
        self.start, self.stop = resting.start, resting.stop
        self.watch, self.change, self.forget = resting.watch, resting.change, resting.forget

    def take(self) -> Ready:
        self.resting.take()
        return []

    def look(self) -> Ready:
        return []


class EpollLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, with `readiness` beside it."""

    def __init__(self) -> None:
        selector = _SharedEpoll()
        self.readiness = EpollReadiness(self, selector)
        super().__init__(selector)


_Told = list[tuple[selectors.SelectorKey, int]]


class _SharedEpoll(selectors.EpollSelector):
    """The selector of the loop, without the descriptors watched by `EpollReadiness`.

    bell: a descriptor that is never ready by itself; the loop is told of it when other sockets are ready.
    """

    def __init__(self) -> None:
        super().__init__()
        self.epoll = select.epoll.fromfd(os.dup(self.fileno()))
        self.bell = os.eventfd(0)
        self.rung: _Told = []  # empty while nobody listens
        self.others: dict[int, int] = {}
        self.ready: Ready = []
        self._poll = self.epoll.poll

    def select(self, timeout: float | None = None) -> _Told:
        others = self.others
        ready = self._poll(timeout if timeout is None or timeout > 0 else 0, _MOST_AT_ONCE)
        for pair in ready:
            if pair[0] not in others:
                return self._sorted(ready)
        self.ready = ready
        return self.rung if ready else []

    def _sorted(self, ready: Ready) -> _Told:
        """Separate the loop's own descriptors from the others."""
        self.ready = [pair for pair in ready if pair[0] in self.others]
        told = list(self.rung) if self.ready else []
        for fd, events in ready:
            key = self.get_map().get(fd)
            if key is not None:
                mask = (events & ~WRITE and selectors.EVENT_READ) | (events & ~READ and selectors.EVENT_WRITE)
                told.append((key, mask & key.events))
        return told

    def close(self) -> None:
        self.epoll.close()
        os.close(self.bell)
        super().close()


class EpollReadiness:
    """Readiness by the epoll of the loop."""

    def __init__(self, loop: EpollLoop, selector: _SharedEpoll) -> None:
        self._loop = loop
        self._selector = selector
        self._poll = selector.epoll.poll
        self.change = selector.epoll.modify

    def start(self, tell: Callable[[], None]) -> None:
        selector = self._selector
        self._loop.add_reader(selector.bell, tell)
        selector.rung = [(selector.get_key(selector.bell), selectors.EVENT_READ)]

    def watch(self, fd: int, events: int) -> None:
        self._selector.others[fd] = events
        self._selector.epoll.register(fd, events)

    def forget(self, fd: int) -> None:
        del self._selector.others[fd]
        self._selector.epoll.unregister(fd)

    def take(self) -> Ready:
        selector = self._selector
        ready, selector.ready = selector.ready, []
        return ready

    def look(self) -> Ready:
        others = self._selector.others
        return [pair for pair in self._poll(0, _MOST_AT_ONCE) if pair[0] in others]

    def stop(self) -> None:
        self._selector.rung = []
        self._loop.remove_reader(self._selector.bell)
