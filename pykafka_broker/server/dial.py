"""The attempt to open a connection to a host and port.

Rule: an attempt ends with exactly one call, of `connected` with a socket or of `failed`, in a later turn than it began;
after `cancel` neither is called. The loop never waits: a name is looked up in a thread, and its addresses are tried one
after the other.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Any

from pykafka_broker.server.event_loop import EventLoop
from pykafka_broker.server.transport import WRITE, prepare


class Dial:
    """An attempt to reach a host and port."""

    def __init__(
        self,
        turns: EventLoop,
        host: str,
        port: int,
        connected: Callable[[socket.socket], None],
        failed: Callable[[OSError], None],
    ) -> None:
        self._turns = turns
        # An ASCII name needs no table of all characters (IDNA), which takes a megabyte.
        self._host: str | bytes = host.encode() if host.isascii() else host
        self._port = port
        self._connected, self._failed = connected, failed
        self._addresses: list[Any] = []
        self._sock: socket.socket | None = None
        self._lookup: asyncio.Future[Any] | None = None
        self._cancelled = False
        turns.call_soon(self._begin)

    def cancel(self) -> None:
        """Stop the attempt; neither callback is called."""
        self._cancelled = True
        if self._lookup is not None:
            self._lookup.cancel()
        self._drop_socket()

    def _begin(self) -> None:
        if self._cancelled:
            return
        try:
            self._addresses = socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
        except UnicodeError as error:  # no label of a host name can have this form
            self._failed(OSError(errno.EINVAL, str(error)))
        except socket.gaierror:  # a name
            loop = self._turns.loop
            self._lookup = loop.create_task(loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM))
            self._lookup.add_done_callback(lambda lookup: self._turns.run(lambda: self._looked_up(lookup)))
        else:
            self._try_next(OSError(errno.EADDRNOTAVAIL, "no address"))

    def _looked_up(self, lookup: asyncio.Future[Any]) -> None:
        if self._cancelled:
            return
        error = lookup.exception()
        if error is None:
            self._addresses = lookup.result()
            self._try_next(OSError(errno.EADDRNOTAVAIL, "no address"))
        else:
            self._failed(error if isinstance(error, OSError) else OSError(str(error)))

    def _try_next(self, error: OSError) -> None:
        """Connect to the next address; `error` is the failure of the address before."""
        while self._addresses:
            family, kind, protocol, _, address = self._addresses.pop(0)
            try:
                self._sock = sock = socket.socket(family, kind, protocol)
                prepare(sock)
                sock.connect(address)
            except BlockingIOError:  # connecting goes on
                self._turns.watch(self, sock.fileno(), WRITE)
                return
            except OSError as refused:
                error = refused
                self._drop_socket()
            else:
                self._hand_over(sock)
                return
        self._failed(error)

    def on_ready(self, events: int) -> None:
        sock = self._sock
        if sock is None:
            return
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._drop_socket()
            self._try_next(OSError(code, os.strerror(code)))
        else:
            self._turns.forget(sock.fileno())
            self._hand_over(sock)

    def _hand_over(self, sock: socket.socket) -> None:
        self._sock = None
        self._connected(sock)

    def _drop_socket(self) -> None:
        if self._sock is not None:
            self._turns.forget(self._sock.fileno())
            self._sock.close()
            self._sock = None
