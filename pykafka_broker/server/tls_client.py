"""TLS from the client's side, for links to other nodes.

Rule: as `TlsTransport`, but that this side speaks first. Nothing may be sent before `on_established`.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable

from pykafka_broker.server.tls_transport import TlsTransport

_SCRATCH_BYTES = 64 << 10


class Unhurried:
    """The `Pace` of links: there are few of them, and each was asked for."""

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))

    def begin(self, transport: TlsTransport) -> None: ...

    def end(self, transport: TlsTransport) -> None: ...

    def step(self, do: Callable[[], None]) -> None:
        do()


class TlsClientTransport(TlsTransport):
    """Of a socket that is connected to `host`."""

    __slots__ = ()

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, pace: Unhurried, host: str) -> None:
        super().__init__(sock, context, pace)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=False, server_hostname=host)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self._flush_soon()
