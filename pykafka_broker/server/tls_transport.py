"""TLS over a socket that does not block.

Rule: no call of OpenSSL ever waits, and whoever was told "not now" by `send` comes back with bytes that begin with the
same ones, as a `Channel` does: OpenSSL has encrypted some of them already. A client that has sent nothing costs none of
its memory, and one that does not speak TLS never reaches it.

Why OpenSSL has the socket itself, and not memory between: of a gigabyte, sending costs a quarter less CPU, and a small
request needs no exception to tell that there is no more.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.runtime import Buffer
from pykafka_broker.server.framing import spoken_in
from pykafka_broker.server.transport import READ, WRITE, FilePiece, copy_file

_RECORD_BYTES = 16 << 10  # the most that is encrypted as one
_LINGERING_BYTES = 64 << 10
_HELLO = b"\x16\x03"  # how the record of a ClientHello begins


class Pace(Protocol):
    """What keeps handshakes from holding up others."""

    def begin(self, transport: TlsTransport) -> None:
        """There is one more that has not shaken hands."""

    def end(self, transport: TlsTransport) -> None:
        """It has, or is gone."""

    def step(self, do: Callable[[], None]) -> None:
        """Do one more step. BlockingIOError if this turn has no time for it: it is ready still in the next one."""


class TlsTransport:
    """on_established: called once, before the first bytes of the client are handed out."""

    __slots__ = (
        "_context",
        "_fd",
        "_late",
        "_pace",
        "_refusal",
        "_sock",
        "_stuck",
        "_tls",
        "established",
        "has_buffered",
        "on_established",
        "read_on",
        "recv_into",
        "write_on",
    )

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, pace: Pace) -> None:
        self._sock = sock
        self._fd = sock.fileno()
        self._context = context
        self._pace = pace
        pace.begin(self)
        self._tls: ssl.SSLSocket | None = None  # from the first byte on
        self._late = False
        self._refusal: FrameError | None = None
        self._stuck = False  # it has encrypted something that the socket has not taken
        self.established = False
        self.on_established: Callable[[ssl.SSLSocket], None] | None = None
        self.has_buffered = False
        self.read_on, self.write_on = READ, WRITE
        self.recv_into: Callable[[memoryview], int] = self._shake_hands

    # -- the handshake

    def _shake_hands(self, buffer: memoryview) -> int:
        """In place of `recv_into`, until it is done."""
        if self._late:
            return 0
        self.read_on = READ
        try:
            self._pace.step(self._step)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except ssl.SSLWantWriteError:
            self.read_on = WRITE
            raise BlockingIOError from None
        except ssl.SSLEOFError:
            return 0
        except ssl.SSLError as error:
            self._refusal = FrameError(f"the TLS handshake failed: {reason_of(error)}")
            self.recv_into = self._linger
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)
            return self._linger(buffer)
        return self._receive(buffer) if self.established else 0

    def _step(self) -> None:
        """As far as it comes with what has arrived; nothing at all if the client has gone."""
        tls = self._tls or self._begin()
        if tls is None:
            return
        tls.do_handshake()
        self.established = True
        self.recv_into = self._receive
        self._pace.end(self)
        if self.on_established is not None:
            self.on_established(tls)

    def _begin(self) -> ssl.SSLSocket | None:
        """None if the client has gone."""
        start = self._sock.recv(8, socket.MSG_PEEK)
        if not start:
            return None
        if start[:2] != _HELLO[: len(start)]:
            self._sock.recv(_RECORD_BYTES)  # or else the system would reset the connection
            spoken = spoken_in(start)
            raise FrameError(f"the client does not speak TLS{f', but {spoken}' if spoken else ''}")
        self._sock = self._tls = self._context.wrap_socket(self._sock, server_side=True, do_handshake_on_connect=False)
        return self._tls

    def _linger(self, buffer: memoryview) -> int:
        """In place of `recv_into` after a failed handshake, until the client goes: it may have sent its first request,
        and if that were not read the system would reset the connection, perhaps before the client has seen why.
        """
        left = _LINGERING_BYTES
        try:
            while left > 0 and not self._late and (count := socket.socket.recv_into(self._sock, buffer)):
                left -= count
        except BlockingIOError:
            raise
        except OSError:
            pass  # it has gone
        assert self._refusal is not None
        raise self._refusal

    def give_up(self) -> None:
        """It has taken too long: the stream is over, and whoever reads is told so."""
        self._late = True
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    # -- incoming

    def _receive(self, buffer: memoryview) -> int:
        """As long as whole records come: what follows a shorter one the system tells of."""
        tls = self._tls
        assert tls is not None
        total, size = 0, len(buffer)
        self.read_on = READ
        try:
            while True:
                count: int = tls.read(size - total, buffer[total:])  # type: ignore[assignment] # bytes without a buffer
                total += count
                if total == size:
                    self.has_buffered = tls.pending() > 0
                    return total
                if count < _RECORD_BYTES:
                    break
        except ssl.SSLWantReadError:
            if not total:
                self.has_buffered = False
                raise BlockingIOError from None
        except ssl.SSLWantWriteError:
            if not total:
                self.read_on = WRITE
                raise BlockingIOError from None
        except ssl.SSLError as error:
            if not total:
                raise FrameError(f"TLS: {reason_of(error)}") from None
        self.has_buffered = False
        return total

    # -- outgoing

    def send(self, data: Buffer, flags: int) -> int:
        """As `socket.send`; what is not taken has to be the beginning of what is sent next."""
        tls = self._tls
        assert tls is not None
        self._stuck = True
        try:
            count = tls.write(data)
        except ssl.SSLWantWriteError:
            self.write_on = WRITE
            raise BlockingIOError from None
        except ssl.SSLWantReadError:
            self.write_on = READ
            raise BlockingIOError from None
        except ssl.SSLError as error:
            raise OSError(reason_of(error)) from None
        self._stuck = False
        return count

    def send_file(self, piece: FilePiece) -> int:
        return copy_file(self.send, piece)

    # -- the rest

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if not self.established:
            self._pace.end(self)
        if self.established and self._tls is not None and not self._stuck:
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()  # says that this is all; it would then wait for the client to say so
        self._sock.close()


def reason_of(error: ssl.SSLError) -> str:
    """OpenSSL's own words without the place in its source."""
    verify = getattr(error, "verify_message", None)
    words = (error.reason or "").replace("_", " ").lower() or type(error).__name__
    return f"{words}: {verify}" if verify else words
