"""asyncio's own loop with readiness by its epoll.

Rule: Linux alone has epoll, so `new_event_loop` imports this module there and nowhere else. It is a file of its own
because a check of types for macOS or Windows has to leave it out.
"""

from __future__ import annotations

import asyncio
import os
import select
import selectors
import sys
from collections.abc import Callable

from pykafka_broker.server.event_loop import Ready
from pykafka_broker.server.transport import READ, WRITE

assert sys.platform == "linux"  # what follows is checked for Linux alone

_MOST_AT_ONCE = 256


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
        self._nothing = select.epoll()  # watches nothing, so it is never ready
        self.bell = self._nothing.fileno()
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
        self._nothing.close()
        super().close()


class EpollReadiness:
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
