"""Taking connections from the sockets that listen.

Rule: a connection for which there is no room yet, or for which it is too early, waits in the backlog of its listener,
and so do all behind it. Many that come at once are taken in turns.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from pykafka_broker.server.connection_quota import ConnectionQuota
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.transport import READ
from pykafka_broker.server.turns import Turns

log = logging.getLogger(__name__)

_ACCEPTED_AT_ONCE = 50
_NO_ROOM_PAUSE_MS = 200  # after a connection for which there was no descriptor or memory

Adopt = Callable[[socket.socket, tuple[str, int], Listener], None]


class Accepting:
    """All sockets that listen. `follow` is called before limits are looked at, `on_pause` where there is a deadline."""

    def __init__(
        self,
        turns: Turns,
        quota: ConnectionQuota,
        *,
        follow: Callable[[], None],
        adopt: Adopt,
        on_pause: Callable[[], None],
    ) -> None:
        self._turns = turns
        self._loop: asyncio.AbstractEventLoop = turns.loop
        self._clock = turns.clock
        self._quota = quota
        self._follow = follow
        self._adopt = adopt
        self._acceptors: list[_Acceptor] = []
        self._on = False
        self.next_deadline: int | None = None  # a new connection has to wait until then
        self._on_pause = on_pause

    def add(self, sock: socket.socket, listener: Listener) -> None:
        """One more, of which connections are taken as soon as they are of all."""
        self._quota.add(listener.name)
        acceptor = _Acceptor(sock, listener, self._on_connect)
        self._acceptors.append(acceptor)
        if self._on:
            self._watch(acceptor)

    @property
    def listeners(self) -> list[Listener]:
        """That are bound."""
        return [acceptor.listener for acceptor in self._acceptors]

    def go_on(self) -> None:
        """Take connections, or look whether there is room again."""
        self._on = True
        for acceptor in self._acceptors:
            if not acceptor.watched:
                self._watch(acceptor)

    def close(self) -> None:
        """Take no more."""
        self._on = False
        acceptors, self._acceptors = self._acceptors, []
        for acceptor in acceptors:
            self._look_away(acceptor)
            acceptor.sock.close()

    def on_deadline(self, now: int) -> None:
        if self.next_deadline is not None and now >= self.next_deadline:
            self.next_deadline = None

    def _watch(self, acceptor: _Acceptor) -> None:
        acceptor.watched = True
        self._turns.watch(acceptor, acceptor.sock.fileno(), READ)

    def _look_away(self, acceptor: _Acceptor) -> None:
        if acceptor.watched:
            acceptor.watched = False
            self._turns.forget(acceptor.sock.fileno())

    def _on_connect(self, acceptor: _Acceptor) -> None:
        self._follow()
        listener, quota, now = acceptor.listener, self._quota, self._clock.now
        for _ in range(_ACCEPTED_AT_ONCE):
            if quota.full(listener.name):
                self._look_away(acceptor)  # until one has gone
                return
            if pause := quota.pause_ms(listener.name, now):
                self._look_away(acceptor)
                self.next_deadline = min(self.next_deadline or now + pause, now + pause)
                self._on_pause()
                return
            try:
                sock, address = acceptor.sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._failed(error)
                return
            self._adopt(sock, address, listener)

    def _failed(self, error: OSError) -> None:
        log.error("a connection can't be accepted: %s", error)
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            for acceptor in self._acceptors:
                self._look_away(acceptor)
            self._loop.call_later(_NO_ROOM_PAUSE_MS / 1000, self.go_on)


class _Acceptor:
    """A socket that listens, as a source of connections."""

    def __init__(self, sock: socket.socket, listener: Listener, on_connect: Callable[[_Acceptor], None]) -> None:
        self.sock = sock
        self.listener = listener
        self.watched = False
        self._on_connect = on_connect

    def on_ready(self, events: int) -> None:
        self._on_connect(self)
