"""Both directions of one stream of frames.

Rule: a channel reads only while the received requests can be served: a peer that does not take its answers, or whose
request waits, is held up by TCP and costs no memory. A turn serves one channel no more than its share. Every failure
closes the channel and no other: `except Exception` stands here and in the router.

Why not a transport of asyncio: on the bare socket an answer leaves by `send` and `sendfile` in the same call that
served the request, and an idle channel owns no buffer. The watched events of a socket are changed only when the socket
reports an unwanted one, which saves system calls.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from pykafka_broker import system
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.server.event_loop import KEPT_BYTES, EventLoop
from pykafka_broker.server.framing import FrameReader
from pykafka_broker.server.transport import READ, WRITE, FilePiece, Transport

log = logging.getLogger(__name__)

_MOST_PIECES = 512  # of an answer, joined for one system call
_MOST_JOINED_BYTES = 256 << 10
_MANY_PIECES = 2048  # of an answer that is not copied as a whole
_FLUSHES_A_TURN = 64


class Channel:
    """A transport, the incoming frames, and bytes waiting to be sent.

    holds: no frame is wanted now; `go_on` is called when that has changed. A closed channel always holds.
    """

    __slots__ = (
        "_fd",
        "_out",
        "_reader",
        "_transport",
        "_turns",
        "_wanted",
        "_will_go_on",
        "closed",
        "holds",
        "last_active",
    )

    def __init__(self, turns: EventLoop, transport: Transport, reader: FrameReader) -> None:
        self._turns = turns
        self._transport = transport
        self._fd = transport.fileno()
        self._reader = reader
        self._out: deque[Any] = deque()
        self._will_go_on = self.closed = self.holds = False
        self.last_active = turns.clock.now
        self._wanted = transport.read_on
        turns.watch(self, self._fd, self._wanted)

    # -- for the subclass that serves the frames

    def _deliver(self, frame: memoryview) -> bool:
        """Serve a frame; the frame's bytes are gone on return.

        Returns False if no further frame may be served now.
        """
        raise NotImplementedError

    def _lost(self, why: str) -> None:
        """Handle the end of the channel, which has just been closed. `why` is for people."""
        raise NotImplementedError

    @property
    def peer(self) -> str:
        """Return the peer's name in the log."""
        raise NotImplementedError

    # -- incoming

    def on_ready(self, events: int) -> None:
        try:
            if events != READ or self._out or self.holds or self._will_go_on:
                self._on_more_than_input(events)
            else:
                self._receive()
        except Exception as error:
            self._failed(error)

    def _receive(self) -> None:
        reader = self._reader
        of_large_frame = reader.partial is not None
        if of_large_frame:
            self._turns.answers.flush()  # reading may take long
        count = self._transport.recv_into(reader.target())
        if not count:
            self._end_of_input()
            return
        self.last_active = self._turns.clock.now
        if reader.received(count, self._deliver, self._turns.share) or self._transport.has_buffered:
            self._go_on_soon()
        elif of_large_frame and reader.partial is not None:
            self._turns.in_parts += 1

    def _on_more_than_input(self, events: int) -> None:
        transport = self._transport
        if self._out and events & transport.write_on:
            events &= ~transport.write_on
            self._go_on_sending()
        if self.closed or not events:
            return
        if not (self._out or self.holds or self._will_go_on):
            self._receive()
            self._want_input()
        elif events & ~(READ | WRITE):
            self.close("the connection is broken")  # else the socket would be reported again and again
        elif not self._will_go_on:
            # Stop watching. Most peers wait for their answer before they send more, so this is done only now.
            self._want(transport.write_on if self._out else 0)

    def go_on(self) -> None:
        """Serve frames received in the meantime, then listen again."""
        if self.closed or self._out or self.holds or self._will_go_on:
            return
        try:
            if self._reader.has_waiting:
                self.last_active = self._turns.clock.now
                if self._reader.resume(self._deliver, self._turns.share):
                    self._go_on_soon()
                self._turns.answers.flush()  # a second frame of this channel may be served in this turn
            if self._transport.has_buffered and not (self.closed or self._out or self.holds or self._will_go_on):
                self._receive()
            self._want_input()
        except Exception as error:
            self._failed(error)

    def _go_on_if_needed(self) -> None:
        """Go on after an answer, with frames or events held back before."""
        transport = self._transport
        if self._reader.has_waiting or self._wanted != transport.read_on or transport.has_buffered:
            self._go_on_soon()

    def _go_on_soon(self) -> None:
        """Go on in the next turn, after other channels; while the channel holds, `go_on` is called instead."""
        if not (self.closed or self._out or self.holds or self._will_go_on):
            self._will_go_on = True
            self._turns.call_soon(self._go_on_now)

    def _go_on_now(self) -> None:
        self._will_go_on = False
        self.go_on()

    def _end_of_input(self) -> None:
        if self._reader.in_the_middle:
            log.info("%s went away in the middle of a frame", self.peer)
        self.close("the peer has closed the connection")

    def _failed(self, error: Exception) -> None:
        if isinstance(error, (BlockingIOError, InterruptedError)):
            self._want_input()  # under TLS something may have to be written before more can be read
        elif isinstance(error, OSError):
            self.close(error.strerror or str(error))
        elif isinstance(error, FrameError):
            self.refuse(error)
        else:
            log.error("a defect while serving %s", self.peer, exc_info=error)
            self.close("a defect")

    def refuse(self, error: FrameError) -> None:
        """Close the channel: the peer's frame makes no sense, or has no answer."""
        log.warning("closing %s: %s", self.peer, error)
        self.close(str(error))

    def _want_input(self) -> None:
        if not (self.closed or self._out or self.holds):
            self._want(self._transport.read_on)

    def _want(self, events: int) -> None:
        """Watch the socket for `events` from now on."""
        if events != self._wanted:
            self._wanted = events
            self._turns.change(self._fd, events)

    # -- outgoing

    @property
    def sending(self) -> bool:
        """Return whether bytes wait for the socket."""
        return bool(self._out)

    def send(self, pieces: Pieces) -> None:
        """Send a frame, at once as far as the socket allows, the rest when the socket is writable again."""
        if self.closed:
            return
        if self._out:
            self._out.extend(pieces)
            return
        try:
            frame = _joined(pieces)
            answers = self._turns.answers
            if answers.gathers and not self._reader.more and frame is not None and len(frame) <= KEPT_BYTES:
                answers.add(self, frame)
                return
            answers.flush()
            if self._out or frame is None:
                self._out.extend(pieces)
                self._flush()
            elif not self.closed:
                self._send_bytes(frame, 0)
        except OSError as error:
            self.close(error.strerror or str(error))
            return
        finally:
            if self._out and not self.closed:
                self._want(self._wanted | self._transport.write_on)

    def send_kept(self, data: bytes) -> None:
        """Send a frame left by `send` for later in the turn."""
        if self.closed:
            return
        if self._out:
            self._out.append(data)
            return
        try:
            if not self._send_bytes(data, 0):
                self._want(self._wanted | self._transport.write_on)
        except Exception as error:
            self._failed(error)

    def _go_on_sending(self) -> None:
        self.last_active = self._turns.clock.now
        self._flush()
        if self._out:
            self._want(self._transport.write_on)
            self._turns.in_parts += 1
        else:
            self._want(self._transport.read_on)
            self.go_on()

    def _flush(self) -> None:
        """Send as much as a turn's share."""
        for _ in range(_FLUSHES_A_TURN):
            if not (self._out and self._send_some()):
                return

    def _send_some(self) -> bool:
        """Send with a system call; return False when the socket has taken only a part."""
        out = self._out
        if hasattr(out[0], "fileno"):
            return self._send_file(out[0])
        gathered: list[Any] = []
        size = 0
        while out and len(gathered) < _MOST_PIECES and size < _MOST_JOINED_BYTES and not hasattr(out[0], "fileno"):
            size += len(out[0])
            gathered.append(out.popleft())
        flags = system.MORE if out else 0
        return self._send_bytes(gathered[0] if len(gathered) == 1 else b"".join(gathered), flags)

    def _send_bytes(self, data: Any, flags: int) -> bool:
        try:
            sent = self._transport.send(data, flags)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent == len(data):
            return True
        self._out.appendleft(memoryview(data)[sent:])
        return False

    def _send_file(self, piece: FilePiece) -> bool:
        size = len(piece)
        try:
            sent = self._transport.send_file(piece) if size else 0
        except (BlockingIOError, InterruptedError):
            return False
        if sent == size:
            self._out.popleft()
            return True
        if sent == 0:
            raise OSError(f"a segment ended {size} bytes before its slice")
        self._out[0] = piece.advance(sent)
        return False

    # -- the end

    def close(self, why: str) -> None:
        """Close the channel; `why` is for people."""
        if self.closed:
            return
        self._turns.answers.flush()
        if self.closed:  # closed by a failure to send a kept answer
            return
        self.closed = self.holds = True
        self._turns.forget(self._fd)
        self._transport.close()
        self._out.clear()
        self._reader.close()
        self._lost(why)


def _joined(pieces: Pieces) -> bytes | None:
    """Return the pieces joined, or None for very many pieces or slices of files."""
    if len(pieces) > _MANY_PIECES:
        return None
    try:
        return b"".join(pieces)
    except TypeError:
        return None
