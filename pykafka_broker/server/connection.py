"""One client connection on a raw non-blocking socket.

Rule: requests are served one after the other and answered in their order. While an answer is parked, or while the
client does not take what it was sent, nothing more is served for this connection, and only for this one. A parked
request that yields (a fetch) is answered as soon as another arrives.

Why not a transport of asyncio: the loop's reader and writer callbacks on the bare socket let a response leave by
`sendmsg` and `sendfile` in the same call that served the request, and an idle connection owns no buffer.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.broker.router import PendingReply, Pieces
from pykafka_broker.errors import FrameError

if TYPE_CHECKING:
    from pykafka_broker.server.server import Server

log = logging.getLogger(__name__)

_MOST_PIECES = 512  # below IOV_MAX


class Connection:
    """A socket, what is coming in, and what waits to go out."""

    __slots__ = (
        "_fd",
        "_loop",
        "_out",
        "_parked",
        "_reader",
        "_reading",
        "_server",
        "_sock",
        "_writing",
        "closed",
        "context",
        "last_active",
    )

    def __init__(self, server: Server, sock: socket.socket, context: ConnectionContext, now: int) -> None:
        self._server = server
        self._loop: asyncio.AbstractEventLoop = server.loop
        self._sock = sock
        self._fd = sock.fileno()
        self._reader = server.frame_reader(self._stall)
        self._out: deque[Any] = deque()
        self._parked: PendingReply | None = None
        self._reading = self._writing = self.closed = False
        self.context = context
        self.last_active = now
        self._read_on()

    # -- incoming

    def _on_readable(self) -> None:
        parked = self._parked
        if parked is not None and not parked.parked.yields:
            self._read_off()  # only now: most clients wait for their answer before they ask again
            return
        now = int(time.time() * 1000)
        try:
            count = self._sock.recv_into(self._reader.target())
            if not count:
                self._end_of_input()
                return
            self.last_active = now
            if not self._reader.received(count, self._deliver):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        except FrameError as error:
            self._refuse(error)
            return
        except Exception:
            self._defect()
            return
        self._settle(now)

    def _end_of_input(self) -> None:
        if self._reader.in_the_middle:
            log.info("%s:%d went away in the middle of a request", self.context.client_host, self.context.client_port)
        self.close()

    def _deliver(self, frame: memoryview) -> bool:
        """Serve one frame; False means that no further one may be served now."""
        now = self.last_active
        if self._parked is not None:
            self._server.purgatory.hurry(self._parked.parked, now)
        if self.closed:
            return False
        self._server.clock.set(now)
        result = self._server.router.dispatch(self.context, frame)
        if isinstance(result, PendingReply):
            return self._park(result)
        if result is not None:
            self.send(result)
        return not (self._out or self.closed)

    def _park(self, pending: PendingReply) -> bool:
        parked = pending.parked
        self._parked = pending
        parked.on_reply = self._on_reply
        return parked.yields

    def _on_reply(self, reply: Any) -> None:
        pending, self._parked = self._parked, None
        if pending is None or self.closed:
            return
        try:
            self.send(pending.pieces(reply))
        except FrameError as error:
            self._refuse(error)
            return
        if not self._out:
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Serve what arrived in the meantime, then listen again."""
        if self.closed or self._out or self._parked is not None:
            return
        if self._server.stopping:
            self.close()
            return
        self._read_on()
        if self._reader.has_waiting:
            self.last_active = now = int(time.time() * 1000)
            try:
                self._reader.resume(self._deliver)
            except FrameError as error:
                self._refuse(error)
                return
            except Exception:
                self._defect()
                return
            self._settle(now)

    def _settle(self, now: int) -> None:
        if self._out and not self.closed:
            self._read_off()
        self._server.settle(now)

    def _refuse(self, error: FrameError) -> None:
        log.warning("closing %s:%d: %s", self.context.client_host, self.context.client_port, error)
        self.close()

    def _defect(self) -> None:
        log.exception("a defect while serving %s:%d", self.context.client_host, self.context.client_port)
        self.close()

    def _read_on(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def _read_off(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _stall(self) -> None:
        """There is no memory for the request that is coming in."""
        self._read_off()
        self._server.request_memory.wait(self._go_on)

    # -- outgoing

    def send(self, pieces: Pieces) -> None:
        """Send a response, now as far as the socket takes it, the rest when it is writable again."""
        if self._out:
            self._out.extend(pieces)
            return
        try:
            answer = b"".join(pieces)
        except TypeError:  # there are slices of files among them
            self._out.extend(pieces)
            self._flush()
            return
        try:
            if not self._send_bytes(answer):
                self._write_on()
        except OSError:
            self.close()

    def _flush(self) -> None:
        try:
            while self._out and self._send_some():
                pass
        except OSError:
            self.close()
            return
        if self._out:
            self._write_on()

    def _write_on(self) -> None:
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _write_off(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)

    def _send_some(self) -> bool:
        """One system call's worth; False when the socket has taken less than it was given."""
        out = self._out
        if hasattr(out[0], "fileno"):
            return self._send_file(out[0])
        gathered: list[Any] = []
        while out and len(gathered) < _MOST_PIECES and not hasattr(out[0], "fileno"):
            gathered.append(out.popleft())
        flags = socket.MSG_MORE if out else 0
        return self._send_bytes(gathered[0] if len(gathered) == 1 else b"".join(gathered), flags)

    def _send_bytes(self, data: Any, flags: int = 0) -> bool:
        try:
            sent = self._sock.send(data, flags)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent == len(data):
            return True
        self._out.appendleft(memoryview(data)[sent:])
        return False

    def _send_file(self, piece: Any) -> bool:
        size = len(piece)
        try:
            sent = os.sendfile(self._fd, piece.fileno(), piece.position, size) if size else 0
        except (BlockingIOError, InterruptedError):
            return False
        if sent == size:
            self._out.popleft()
            return True
        if sent == 0:
            raise OSError(f"a segment ended {size} bytes before its slice")
        self._out[0] = piece.advance(sent)
        return False

    def _on_writable(self) -> None:
        self.last_active = int(time.time() * 1000)
        self._flush()
        if not self._out and not self.closed:
            self._write_off()
            self._go_on()

    # -- the end

    @property
    def sending(self) -> bool:
        """Part of an answer waits for the socket."""
        return bool(self._out)

    @property
    def waiting(self) -> bool:
        """A request of it waits for something to happen."""
        return self._parked is not None

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._read_off()
        self._write_off()
        self._sock.close()
        self._out.clear()
        self._reader.close()
        if self._parked is not None:
            parked, self._parked = self._parked.parked, None
            self._server.purgatory.cancel(parked)
        self._server.forget(self)
