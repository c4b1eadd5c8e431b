"""TLS over a socket that does not block.

Rule: bytes go through OpenSSL in memory, so that no call of it ever waits, and after every call what it wants to say is
sent, alerts too. What was encrypted and not taken by the socket is reported as not sent; whoever sends comes back with
the same bytes, as for the socket itself, and is then told how many of them had been encrypted. A client that has sent
nothing costs no memory of OpenSSL's, and one that does not speak TLS never reaches it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable

from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.runtime import Buffer
from pykafka_broker.server.framing import spoken_in
from pykafka_broker.server.transport import READ, WRITE, FilePiece, copy_file
from pykafka_broker.server.turns import SCRATCH_BYTES, Turns

_RECORD_BYTES = 16 << 10  # the most that TLS encrypts as one
_PIECE_BYTES = 4 * _RECORD_BYTES  # of an answer, encrypted at once
_HANDSHAKE_BYTES = 16 << 10  # of a handshake, read at once
_STEPS_A_TURN = 4
_HANDSHAKE = b"\x16\x03"  # how the record of a ClientHello begins


class Handshakes:
    """What the handshakes of one listener share: a step of one may cost two milliseconds, so that a turn does only a
    few. Whoever is put off is ready still in the next turn.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._left = _STEPS_A_TURN
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))  # for bytes as they come from a socket

    def may_step(self) -> bool:
        """Whether this turn has time for one more step of a handshake."""
        if not self._left:
            return False
        if self._left == _STEPS_A_TURN:
            self._turns.soon(self._next_turn)
        self._left -= 1
        return True

    def _next_turn(self) -> None:
        self._left = _STEPS_A_TURN


class TlsTransport:
    """on_established: called once, before the first bytes of the client are handed out."""

    __slots__ = (
        "_context",
        "_fd",
        "_handshakes",
        "_incoming",
        "_outgoing",
        "_owed",
        "_sock",
        "_tls",
        "_unsent",
        "established",
        "has_buffered",
        "on_established",
        "read_on",
        "recv_into",
    )

    write_on = WRITE

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, handshakes: Handshakes) -> None:
        self._sock = sock
        self._fd = sock.fileno()
        self._context = context
        self._handshakes = handshakes
        self._tls: ssl.SSLObject | None = None
        self._unsent = memoryview(b"")  # encrypted
        self._owed = 0  # bytes that were encrypted and not reported as sent
        self.established = False
        self.on_established: Callable[[ssl.SSLObject], None] | None = None
        self.has_buffered = False
        self.read_on = READ
        self.recv_into: Callable[[memoryview], int] = self._shake_hands

    # -- incoming

    def _shake_hands(self, buffer: memoryview) -> int:
        """In place of `recv_into`, until it is done."""
        if self._unsent:
            self._flush()
            self.read_on = READ
        if not self._handshakes.may_step():
            raise BlockingIOError
        received = self._handshakes.scratch[:_HANDSHAKE_BYTES]
        count = self._sock.recv_into(received)
        if not count:
            return 0
        tls = self._tls
        if tls is None:
            tls = self._begin(received[:count])
        self._incoming.write(received[:count])
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush_soon()
            raise BlockingIOError from None
        except ssl.SSLError as error:
            self._flush_what_goes()
            raise FrameError(f"the TLS handshake failed: {reason_of(error)}") from None
        self.established = True
        if self.on_established is not None:
            self.on_established(tls)
        self._flush_soon()
        self.has_buffered = bool(self._incoming.pending)  # its first request may have come with the end of this
        self.recv_into = self._receive
        return self._receive(buffer)

    def _begin(self, start: memoryview) -> ssl.SSLObject:
        first = bytes(start[:8])
        if first[:2] != _HANDSHAKE[: len(first)]:
            spoken = spoken_in(first) or spoken_in(first[4:])
            raise FrameError(f"the client does not speak TLS{f', but {spoken}' if spoken else ''}")
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        return self._tls

    def _receive(self, buffer: memoryview) -> int:
        if not self.has_buffered:
            scratch = self._handshakes.scratch
            count = self._sock.recv_into(scratch[: len(buffer) + _RECORD_BYTES])
            if not count:
                return 0
            self._incoming.write(scratch[:count])
        total = self._decrypt(buffer)
        if self._outgoing.pending:
            self._flush_soon()
        if not total and not self.has_buffered:
            raise BlockingIOError  # there is no whole record yet
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
                    return total  # the client has said that this is all; if something came before, the next call tells
                total += count
            self.has_buffered = bool(self._incoming.pending or tls.pending())
        except ssl.SSLWantReadError:
            self.has_buffered = False
        except ssl.SSLError as error:
            if not total:
                self._flush_what_goes()
                raise FrameError(f"TLS: {reason_of(error)}") from None
        return total

    # -- outgoing

    def send(self, data: Buffer, flags: int) -> int:
        """As `socket.send`; what is not taken has to be the beginning of what is sent next."""
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
                self._flush(flags)
            except BlockingIOError:
                self._owed = len(piece)
                if not done:
                    raise
                return done
            done += len(piece)
        return done

    def send_file(self, piece: FilePiece) -> int:
        if self._owed:
            return self.send(b"", 0)
        return copy_file(self.send, piece)

    def _flush(self, flags: int = 0) -> None:
        """Send what is encrypted. BlockingIOError if the socket does not take all of it."""
        if not self._unsent:
            self._unsent = memoryview(self._outgoing.read())
        while self._unsent:
            self._unsent = self._unsent[self._sock.send(self._unsent, flags) :]
            if not self._unsent and self._outgoing.pending:
                self._unsent = memoryview(self._outgoing.read())

    def _flush_soon(self) -> None:
        """What OpenSSL says of itself. What the socket does not take goes before anything else."""
        try:
            self._flush()
        except BlockingIOError:
            self.read_on = READ if self.established else WRITE

    def _flush_what_goes(self) -> None:
        with contextlib.suppress(OSError):
            self._flush()

    # -- the rest

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self.established and not self._unsent and self._tls is not None:
            with contextlib.suppress(OSError):
                self._tls.unwrap()  # writes the end into the outgoing bytes, then asks for the peer's
            self._flush_what_goes()
        self._sock.close()


def reason_of(error: ssl.SSLError) -> str:
    """OpenSSL's own words without the place in its source."""
    verify = getattr(error, "verify_message", None)
    words = (error.reason or "").replace("_", " ").lower() or type(error).__name__
    return f"{words}: {verify}" if verify else words
