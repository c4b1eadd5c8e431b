"""TLS over a socket that does not block.

Rule: bytes go through OpenSSL in memory, so that no call of it ever waits, and after every call its output is sent,
alerts too. Encrypted bytes that the socket did not take are reported as not sent: the caller comes back with bytes that
begin with the same ones, as a `Channel` does, and is then told how many of them were encrypted. A client that has not
sent a whole record costs no memory of OpenSSL, and a client that does not speak TLS never reaches it.

Why not OpenSSL on the socket itself: it makes two system calls for each record, and a librdkafka makes two records of
each message. Sending would cost a quarter less, receiving from such a client nearly twice as much.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

from pykafka_broker.errors import FrameError, NotLetIn
from pykafka_broker.protocol.runtime import Buffer
from pykafka_broker.server.channel import spoken_in
from pykafka_broker.server.transport import READ, WRITE, FilePiece, copy_file, has_come

_PIECE_BYTES = 64 << 10  # encrypted at once
_HANDSHAKE_BYTES = 16 << 10  # read at once during the handshake
_LINGERING_BYTES = 64 << 10
_RECORD_HEADER_BYTES = 5
_LARGEST_RECORD_BYTES = _RECORD_HEADER_BYTES + (16 << 10) + 256
_HELLO = b"\x16\x03"  # how the record of a ClientHello begins


class HandshakePace(Protocol):
    """A bound on the work of handshakes, so other clients are served in between."""

    scratch: memoryview  # for bytes as they come from a socket

    def begin(self, transport: TlsTransport) -> None:
        """Watch a new handshake."""

    def end(self, transport: TlsTransport) -> None:
        """Forget a handshake after the end, or after the client has gone."""

    def step(self, do: Callable[[], None]) -> None:
        """Do another step.

        Raises BlockingIOError if this turn has no time left; the socket is still ready in the next turn.
        """


class TlsTransport:
    """TLS over a socket. on_established: called once, before the first bytes of the client are handed out."""

    __slots__ = (
        "_context",
        "_fd",
        "_incoming",
        "_late",
        "_outgoing",
        "_owed",
        "_pace",
        "_refusal",
        "_sock",
        "_start",
        "_tls",
        "_unsent",
        "established",
        "has_buffered",
        "on_established",
        "read_on",
        "recv_into",
    )

    write_on = WRITE

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, pace: HandshakePace) -> None:
        self._sock = sock
        self._fd = sock.fileno()
        self._context = context
        self._pace = pace
        pace.begin(self)
        self._start = b""  # bytes of the first record
        self._tls: ssl.SSLObject | None = None  # made, with its two buffers, when the first record is complete
        self._unsent = memoryview(b"")  # encrypted
        self._owed = 0  # bytes that were encrypted and not reported as sent
        self._late = False
        self._refusal: FrameError | None = None
        self.established = False
        self.on_established: Callable[[ssl.SSLObject], None] | None = None
        self.has_buffered = False
        self.read_on = READ
        self.recv_into: Callable[[memoryview], int] = self._shake_hands

    # -- the handshake

    def _shake_hands(self, buffer: memoryview) -> int:
        """Stand in for `recv_into` until the handshake is done."""
        if self._late:
            return 0
        try:
            if self._unsent:
                self._flush()
                self.read_on = READ
            self._pace.step(self._step)
        except ssl.SSLWantReadError:
            self._flush_soon()
            raise BlockingIOError from None
        except ssl.SSLError as error:
            self._refusal = _refusal("the TLS handshake failed", error)
            self.recv_into = self._linger
            with contextlib.suppress(OSError):
                self._flush()
                self._sock.shutdown(socket.SHUT_WR)
            return self._linger(buffer)
        if not self.established:
            return 0
        self._flush_soon()
        return self._receive(buffer)

    def _step(self) -> None:
        """Advance the handshake with received bytes; do nothing if the client has gone."""
        received = self._pace.scratch[:_HANDSHAKE_BYTES]
        count = self._sock.recv_into(received)
        if not count:
            return
        tls = self._tls
        if tls is None:
            tls = self._begin(bytes(received[:count]))
        else:
            self._incoming.write(received[:count])
        tls.do_handshake()
        self.established = True
        self.has_buffered = self._incoming.pending > 0  # the first request may have come with the end of the handshake
        self.recv_into = self._receive
        self._pace.end(self)
        if self.on_established is not None:
            self.on_established(tls)

    def _begin(self, received: bytes) -> ssl.SSLObject:
        """Make OpenSSL's object when the first record is complete: half a record costs the bytes only."""
        self._start = start = self._start + received
        if start[:2] != _HELLO[: len(start)]:
            spoken = spoken_in(start)
            raise FrameError(f"the client does not speak TLS{f', but {spoken}' if spoken else ''}")
        size = _RECORD_HEADER_BYTES + int.from_bytes(start[3:_RECORD_HEADER_BYTES], "big")
        if size > _LARGEST_RECORD_BYTES:
            raise FrameError(f"the TLS handshake failed: its first record has {size} bytes")
        if len(start) < max(size, _RECORD_HEADER_BYTES):
            raise BlockingIOError
        self._start = b""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._incoming.write(start)
        self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        return self._tls

    def _linger(self, buffer: memoryview) -> int:
        """Stand in for `recv_into` after a failed handshake, until the client goes.

        The client may have sent its first request. If those bytes were not read the system would reset the connection,
        perhaps before the client has seen the reason.
        """
        left = _LINGERING_BYTES
        try:
            while left > 0 and not self._late and (count := self._sock.recv_into(buffer)):
                left -= count
        except BlockingIOError:
            raise
        except OSError:
            pass  # the client has gone
        assert self._refusal is not None
        raise self._refusal

    def give_up(self) -> None:
        """End the stream: the handshake has taken too long."""
        self._late = True
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    # -- incoming

    def _receive(self, buffer: memoryview) -> int:
        if not self.has_buffered:
            scratch = self._pace.scratch
            count = self._sock.recv_into(scratch)
            if not count:
                return 0
            self._incoming.write(scratch[:count])
        total = self._decrypt(buffer)
        if self._outgoing.pending:
            self._flush_soon()
        if not total and not self.has_buffered:
            raise BlockingIOError  # no whole record has arrived yet
        return total

    def _decrypt(self, buffer: memoryview) -> int:
        tls = self._tls
        assert tls is not None
        total, size = 0, len(buffer)
        self.has_buffered = True
        try:
            while total < size:
                count: int = tls.read(size - total, buffer[total:])  # type: ignore[assignment] # bytes without a buffer
                if not count:
                    return total  # the client has ended the stream; bytes before that are returned first
                total += count
            self.has_buffered = bool(self._incoming.pending or tls.pending())
        except ssl.SSLWantReadError:
            self.has_buffered = False
        except ssl.SSLError as error:
            if not total:
                with contextlib.suppress(OSError):
                    self._flush()
                raise _refusal("TLS", error) from None
        return total

    # -- outgoing

    def send(self, data: Buffer, flags: int) -> int:
        """Send as `socket.send` does; bytes not taken have to begin the next call."""
        if self._unsent:
            self._flush()
        if self._owed:
            done, self._owed = self._owed, 0
            return done
        tls, view, done = self._tls, memoryview(data), 0
        assert tls is not None
        while done < len(view):
            piece = view[done : done + _PIECE_BYTES]
            tls.write(piece)
            try:
                self._flush()
            except BlockingIOError:
                self._owed = len(piece)
                if not done:
                    raise
                return done
            done += len(piece)
        return done

    def _flush(self) -> None:
        """Send encrypted bytes. Raises BlockingIOError if the socket does not take all of them."""
        unsent = self._unsent or memoryview(self._outgoing.read())
        try:
            while unsent:
                unsent = unsent[self._sock.send(unsent) :] or memoryview(self._outgoing.read())
        finally:
            self._unsent = unsent

    def _flush_soon(self) -> None:
        """Send OpenSSL's own messages; bytes the socket does not take go before anything else."""
        try:
            self._flush()
        except BlockingIOError:
            self.read_on = READ if self.established else WRITE

    def has_input(self) -> bool:
        return self.has_buffered or has_come(self._sock)

    def send_file(self, piece: FilePiece) -> int:
        return self.send(b"", 0) if self._owed else copy_file(self.send, piece, _PIECE_BYTES)

    # -- the rest

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if not self.established:
            self._pace.end(self)
        elif self._tls is not None and not self._unsent:
            with contextlib.suppress(OSError):
                self._tls.unwrap()  # writes our end, then asks for the peer's
            with contextlib.suppress(OSError):
                self._flush()
        self._sock.close()


def _refusal(what: str, error: ssl.SSLError) -> FrameError:
    """Return OpenSSL's error in its words, without the place in the source."""
    verify = getattr(error, "verify_message", None)
    words = (error.reason or "").replace("_", " ").lower() or type(error).__name__
    kind = NotLetIn if "CERTIFICATE" in (error.reason or "") else FrameError
    return kind(f"{what}: {words}: {verify}" if verify else f"{what}: {words}")
