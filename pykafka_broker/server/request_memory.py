"""How much memory requests may take that are still coming in (`queued.max.request.bytes`).

Rule: a frame that is not there with its first bytes is begun only while the frames under way are below the limit; one
more may then exceed it, and once begun it is read to its end. Until then its connection is not read from, so that TCP
holds up the client. Frames that are served where they were received take no memory and are never held up. Without a
limit, which is the default, none of this runs. What comes before a client has authenticated does not count: who has
not could hold up all the others with a few bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.server.framing import BufferPool, FrameReader


class RequestMemory:
    """What the frames under way take, and who waits for there to be less of it."""

    def __init__(self, limit_bytes: int, later: Callable[[Callable[[], None]], object]) -> None:
        """`later` calls what it is given in a next turn of the loop."""
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
            for go_on in waiting:  # in the order in which they came; who finds it full again waits again
                self._later(go_on)

    def wait(self, go_on: Callable[[], None]) -> None:
        self._waiting[go_on] = None


class LimitedFrameReader(FrameReader):
    """Waits with a large frame until there is memory for it: `stall` is called then, and whoever reads for it stops
    until `resume`."""

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
