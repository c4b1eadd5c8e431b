"""Both directions of one stream of frames: a 4-byte length, then as many bytes.

Rule: a channel reads only while the received requests can be served: a peer that does not take its answers, or whose
request waits, is held up by TCP and costs no memory. A turn serves one channel no more than its share. Every failure
closes the channel and no other: `except Exception` stands here and in the router.

Why not a transport of asyncio: on the bare socket an answer leaves by `send` and `sendfile` in the same call that
served the request, and an idle channel owns no buffer. The watched events of a socket are changed only when the socket
reports an unwanted one, which saves system calls.

The length of a frame is checked when its four bytes are there, before anything is allocated for the frame. A frame that
arrives whole is served where it was received, in the buffer that all connections share; only an incomplete frame gets
memory of its own, of exactly its size.

`queued.max.request.bytes` bounds the memory of incomplete frames: a new one begins only while the frames under way are
below the limit; the last one may exceed it, and a frame that has begun is read to its end. Until then its connection is
not read from, so TCP holds up the client. Without a limit, which is the default, none of this runs. Frames of clients
that have not authenticated do not count: otherwise such a client could hold up all others with a few bytes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any

from pykafka_broker import platform
from pykafka_broker.broker.requests.encoded_reply import UnwrittenReply
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.server.event_loop import KEPT_BYTES, BufferPool, EventLoop
from pykafka_broker.server.transport import READ, SENT_A_TURN, WRITE, FilePiece, Transport

log = logging.getLogger(__name__)

_LENGTH = Struct(">i")
_STRANGERS_BYTES = 1 << 10  # first buffer for a client that has not authenticated; there may be very many
_OTHER_PROTOCOLS = {b"\x16\x03": "TLS", b"GET ": "HTTP", b"POST": "HTTP", b"HEAD": "HTTP", b"PRI ": "HTTP"}
_MOST_PIECES = 512  # of an answer, joined for one system call
_MOST_JOINED_BYTES = 256 << 10
_MANY_PIECES = 2048  # of an answer that is not copied as a whole
_FLUSHES_A_TURN = 64


class FrameReader:
    """The incoming half of a connection.

    `target()` names where the next bytes go; `received(n, deliver, most)` hands at most `most` complete frames to
    `deliver`, which returns False to stop (the connection waits for an answer, or was closed). Later frames are kept
    until `resume`.
    """

    __slots__ = (
        "_filled",
        "_paused",
        "_pool",
        "_size",
        "_waiting",
        "is_known",
        "max_bytes",
        "more",
        "partial",
        "scratch",
    )

    def __init__(self, scratch: memoryview, pool: BufferPool, max_bytes: int) -> None:
        self.scratch = scratch  # shared: nothing of it survives the call in which it was filled
        self._pool = pool
        self.max_bytes = max_bytes
        self.is_known = True  # False before authentication: frames are short then, and outside the memory for requests
        self.partial: bytearray | None = None  # own memory of the incomplete frame, without its length prefix
        self.more = False  # further frames have arrived behind the one that is being served
        self._size = 0  # of the incomplete frame
        self._filled = 0
        self._paused = False  # the waiting bytes may hold a whole frame
        self._waiting = b""  # received, not served yet: from a length prefix on

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def in_the_middle(self) -> bool:
        """Return whether a frame has begun and is incomplete."""
        return self.partial is not None or bool(self._waiting)

    def target(self) -> memoryview:
        """Return the memory to receive into."""
        partial = self.partial
        if partial is None:
            return self.scratch
        if self._filled == len(partial) < self._size:
            partial = self.partial = _larger(partial, min(2 * len(partial), self._size))
        return memoryview(partial)[self._filled : self._size]

    def received(self, count: int, deliver: Callable[[memoryview], bool], most: int) -> bool:
        """Serve `count` bytes just written to `target()`; return whether complete frames are left."""
        if self.partial is not None:
            self._filled += count
            if self._filled == self._size:
                self._deliver_partial(deliver)
            return False
        if self._waiting:
            self._waiting += bytes(self.scratch[:count])
            # The bytes were part of a length prefix, or their frames are served later.
            return True if self._paused else self.resume(deliver, most)
        scratch = self.scratch
        (size,) = _LENGTH.unpack_from(scratch)
        if size == count - 4 and 0 <= size <= self.max_bytes:  # one frame, as of most clients
            self._paused = self.more = False
            deliver(scratch[4:count])
            return False
        return self._serve(scratch, count, deliver, most)

    def resume(self, deliver: Callable[[memoryview], bool], most: int) -> bool:
        """Serve waiting frames; return as `received` does."""
        if not self._waiting:
            return False
        # A copy of its own: `deliver` may write into it, as into the shared buffer.
        waiting, self._waiting = memoryview(bytearray(self._waiting)), b""
        return self._serve(waiting, len(waiting), deliver, most)

    def close(self) -> None:
        self.partial = None
        self._waiting = b""

    def _deliver_partial(self, deliver: Callable[[memoryview], bool]) -> None:
        buffer = self.partial
        assert buffer is not None
        self.partial = None
        self.more = False
        deliver(memoryview(buffer)[: self._size])
        self._pool.give(buffer)

    def _serve(self, data: memoryview, end: int, deliver: Callable[[memoryview], bool], most: int) -> bool:
        self._paused = False
        position = 0
        while end - position >= 4:
            (size,) = _LENGTH.unpack_from(data, position)
            if size < 0 or size > self.max_bytes:
                raise _wrong_length(size, self.max_bytes, bytes(data[position : position + 4]))
            stop = position + 4 + size
            if stop > end:
                self._begin_partial(size, data[position + 4 : end])
                return self._paused
            self.more = stop < end
            more = deliver(data[position + 4 : stop])
            position = stop
            most -= 1
            if not (more and most):
                self._paused = position < end
                break
        if position < end:
            self._waiting = bytes(data[position:end])
        return self._paused

    def _begin_partial(self, size: int, start: memoryview) -> None:
        buffer = self._pool.take(size) if self.is_known else bytearray(min(size, _STRANGERS_BYTES))
        if len(start) > len(buffer):
            buffer = bytearray(len(start))
        buffer[: len(start)] = start
        self.partial, self._size, self._filled = buffer, size, len(start)


def _larger(buffer: bytearray, size: int) -> bytearray:
    """Return a larger copy; the old buffer can't be extended in place while a view of it exists."""
    grown = bytearray(size)
    grown[: len(buffer)] = buffer
    return grown


def _wrong_length(size: int, max_bytes: int, start: bytes) -> FrameError:
    spoken = spoken_in(start)
    hint = f"; the client speaks {spoken}" if spoken else ""
    return FrameError(f"frame length {size} is not within 0 to {max_bytes}{hint}")


def spoken_in(start: bytes) -> str | None:
    """Return the protocol known by the first bytes."""
    return next((name for first, name in _OTHER_PROTOCOLS.items() if start.startswith(first)), None)


class RequestMemory:
    """The memory of incomplete frames, and the connections waiting for memory."""

    def __init__(self, limit_bytes: int, later: Callable[[Callable[[], None]], object]) -> None:
        """Begin with nothing taken; `later` calls the argument in a next turn of the loop."""
        self.is_limited = limit_bytes > 0
        self._limit_bytes = limit_bytes
        self._later = later
        self._held_bytes = 0
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def is_full(self) -> bool:
        return self._held_bytes >= self._limit_bytes

    def take(self, size: int) -> None:
        self._held_bytes += size

    def give(self, size: int) -> None:
        self._held_bytes -= size
        if self._waiting and not self.is_full:
            waiting, self._waiting = self._waiting, {}
            for go_on in waiting:  # in their order; a connection that finds the memory full again waits again
                self._later(go_on)

    def wait(self, go_on: Callable[[], None]) -> None:
        self._waiting[go_on] = None


class LimitedFrameReader(FrameReader):
    """A frame reader for limited memory, which waits with a large frame.

    `stall` is called then, and the connection stops reading until `resume`.
    """

    __slots__ = ("_memory", "_stall", "_taken")

    def __init__(
        self, scratch: memoryview, pool: BufferPool, max_bytes: int, memory: RequestMemory, stall: Callable[[], None]
    ) -> None:
        super().__init__(scratch, pool, max_bytes)
        self._memory = memory
        self._stall = stall
        self._taken = 0  # for the frame that is coming in

    def _begin_partial(self, size: int, start: memoryview) -> None:
        if not self.is_known:
            super()._begin_partial(size, start)
        elif self._memory.is_full:
            self._paused = True
            self._waiting = size.to_bytes(4, "big") + bytes(start)
            self._stall()
        else:
            super()._begin_partial(size, start)
            self._memory.take(size)
            self._taken = size

    def _deliver_partial(self, deliver: Callable[[memoryview], bool]) -> None:
        try:
            super()._deliver_partial(deliver)
        finally:
            self._give()

    def close(self) -> None:
        if self.partial is not None:
            self._give()
        super().close()

    def _give(self) -> None:
        taken, self._taken = self._taken, 0
        if taken:
            self._memory.give(taken)


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
        """Serve a frame; the frame's bytes are gone on return. Returns False if no further frame may be served now."""
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
        count = self._transport.recv_into(reader.target() if of_large_frame else reader.scratch)
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
        answers = self._turns.answers
        if type(pieces) is UnwrittenReply:
            if answers.gathers and not (self._out or self._reader.more):
                answers.add(self, pieces)
                return
            answers.flush()  # now the answer stands
        if self._out:
            self._out.extend(pieces)
            return
        try:
            frame = _joined(pieces)
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

    def send_kept(self, answer: bytes | UnwrittenReply) -> None:
        """Send a frame left by `send` for later in the turn."""
        if self.closed:
            return
        data = answer if isinstance(answer, bytes) else b"".join(answer)
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
        left = SENT_A_TURN
        for _ in range(_FLUSHES_A_TURN):
            if not self._out or left <= 0:
                return
            left -= len(self._out[0])
            if not self._send_some():
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
        flags = platform.MORE if out else 0
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
