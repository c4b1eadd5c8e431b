"""Frames in a stream of bytes: a 4-byte length, then as many bytes.

Rule: the length is checked when its four bytes are there, before anything is allocated for the frame. A frame that
arrives whole is served where it was received, in the buffer that all connections share; only an incomplete frame gets
memory of its own, of exactly its size.

`queued.max.request.bytes` bounds the memory of incomplete frames: a new one begins only while the frames under way are
below the limit; the last one may exceed it, and a frame that has begun is read to its end. Until then its connection is
not read from, so TCP holds up the client. Without a limit, which is the default, none of this runs. Frames of clients
that have not authenticated do not count: otherwise such a client could hold up all others with a few bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from pykafka_broker.errors import FrameError

_LENGTH = Struct(">i")
FIRST_BUFFER_BYTES = 64 << 10  # a frame's memory grows with what has arrived, not with what its length promises
KEPT_BUFFER_BYTES = 2 << 20  # buffers up to this size are kept for the next frame; larger ones go back to the system
KEPT_BUFFERS = 4
_STRANGERS_BYTES = 1 << 10  # first buffer for a client that has not authenticated; there may be very many
_OTHER_PROTOCOLS = {b"\x16\x03": "TLS", b"GET ": "HTTP", b"POST": "HTTP", b"HEAD": "HTTP", b"PRI ": "HTTP"}


class BufferPool:
    """A few buffers for frames arriving in pieces, shared by all connections of a loop.

    A fresh megabyte costs some 250 page faults; a used one costs nothing.
    """

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """Return a buffer for a frame of `size` bytes, or a smaller buffer, to be extended later."""
        for index, buffer in enumerate(self._free):
            if len(buffer) >= size:
                return self._free.pop(index)
        return bytearray(min(size, FIRST_BUFFER_BYTES))

    def give(self, buffer: bytearray) -> None:
        """Take a buffer back for the next frame."""
        if FIRST_BUFFER_BYTES <= len(buffer) <= KEPT_BUFFER_BYTES:
            if len(self._free) == KEPT_BUFFERS:
                self._free.pop(0)
            self._free.append(buffer)


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
        "_scratch",
        "_size",
        "_waiting",
        "is_known",
        "max_bytes",
        "more",
        "partial",
    )

    def __init__(self, scratch: memoryview, pool: BufferPool, max_bytes: int) -> None:
        self._scratch = scratch  # shared: nothing of it survives the call in which it was filled
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
            return self._scratch
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
            self._waiting += bytes(self._scratch[:count])
            # The bytes were part of a length prefix, or their frames are served later.
            return True if self._paused else self.resume(deliver, most)
        return self._serve(self._scratch, count, deliver, most)

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
