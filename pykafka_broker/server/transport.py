"""Bytes in and out of a socket, and sockets as brokers and links want them.

Rule: a transport never waits and never keeps what it is given: `BlockingIOError` says "not now", any other `OSError`
that the stream is over. The transport says which readiness of the socket a call has to wait for: under TLS a read may
have to wait until something can be written.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

from pykafka_broker import platform
from pykafka_broker.addresses import address_text
from pykafka_broker.protocol.runtime import Buffer

READ = 1  # the bits of epoll
WRITE = 4


class FilePiece(Protocol):
    """A part of a file, in the log's form."""

    position: int

    def __len__(self) -> int: ...
    def fileno(self) -> int: ...
    def advance(self, count: int) -> FilePiece: ...


class Transport(Protocol):
    """A stream of bytes over a non-blocking socket."""

    @property
    def read_on(self) -> int:
        """Return the event to wait for after `recv_into` has said "not now": READ or WRITE."""

    @property
    def write_on(self) -> int:
        """Return the event to wait for after `send` or `send_file` has said "not now", or has taken a part."""

    @property
    def has_buffered(self) -> bool:
        """Return whether bytes are left the socket does not report any more."""

    def has_input(self) -> bool:
        """Return whether bytes have arrived and are not received yet."""

    @property
    def recv_into(self) -> Callable[[memoryview], int]:
        """Receive into a buffer; return the number of bytes, 0 at the end of the stream."""

    @property
    def send(self) -> Callable[[Buffer, int], int]:
        """Send bytes with `platform.MORE` or 0; return how many were taken."""

    def send_file(self, piece: FilePiece) -> int:
        """Send a part of a file; return how many bytes were taken, fewer if the socket takes no more now."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class PlainTransport:
    """The socket itself: the methods are the transport's, so no call stands in between."""

    __slots__ = ("_fd", "_sock", "recv_into", "send")

    read_on = READ
    write_on = WRITE
    has_buffered = False

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._fd = sock.fileno()
        self.recv_into: Callable[[memoryview], int] = sock.recv_into
        self.send: Callable[[Buffer, int], int] = sock.send

    def has_input(self) -> bool:
        return has_come(self._sock)

    def send_file(self, piece: FilePiece) -> int:
        """Send without a copy, where the platform can."""
        if platform.SEND_FILE is not None:
            return platform.SEND_FILE(self._fd, piece.fileno(), piece.position, len(piece))
        return copy_file(self.send, piece)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        self._sock.close()


def has_come(sock: socket.socket) -> bool:
    """Return whether bytes have arrived; the end of the stream does not count."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


SENT_A_TURN = 4 << 20  # bytes to a peer that reads as fast as they are sent
_COPIED_BYTES = 256 << 10


def copy_file(send: Callable[[Buffer, int], int], piece: FilePiece, at_once: int = _COPIED_BYTES) -> int:
    """Send a part of a file through memory, `at_once` bytes at a time; no more than a turn's share."""
    done, size = 0, min(len(piece), SENT_A_TURN)
    while done < size:
        data = platform.read_at(piece.fileno(), min(size - done, at_once), piece.position + done)
        try:
            sent = send(data, 0)
        except BlockingIOError:
            if not done:
                raise
            break
        done += sent
        if not data or sent < len(data):
            break
    return done


def listening(host: str, port: int, backlog: int, receive_buffer_bytes: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free port, a buffer size of -1 is the system's.

    Raises OSError, which names the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, platform.NEEDS_REUSEADDR)
        if family == socket.AF_INET6 and host == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((host, port))
        sock.listen(backlog)
        sock.setblocking(False)
        if receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"{address_text(host, port)}: {error.strerror}") from error
    return sock


def prepare(sock: socket.socket, send_buffer_bytes: int = -1) -> None:
    """Set the options of a stream of requests or answers; a buffer size of -1 is the system's."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a request may wait for long: the peer may have gone
    if send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
