"""The turns of a process: ready sockets are served, what that has moved is settled once, then answers leave.

Rule: a turn begins with a tick of the clock and ends with `settle`, and what the turn has answered leaves after that.
Many sockets that are ready cost the event loop one callback. Nobody is starved: a turn serves a bounded number of
sockets and gives each its share of requests; the next turn goes on from there, and after a few turns the loop does
everything else.

Answers of one turn leave together. Why: a client that waits for an answer sleeps, and waking a process costs the system
more than this broker needs for a small request. Many connections often lead to one process: the first answer of a group
wakes it, and the others leave while it is waking up. Where requests are served faster than the process behind them can
read the answers, that process does not sleep, and each answer is better sent at once.

The answers of one channel leave in their order, and each before the next request of that channel is served. Otherwise
a crash (kill -9) after the next batch could leave a producer without the answer to an earlier one, and the log's
snapshots know only the last batch of each producer. A channel that sends in another way, or closes, first sends its
kept answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from pykafka_broker.server.framing import BufferPool
from pykafka_broker.server.readiness import NoneReady, Readiness, readiness_of
from pykafka_broker.server.system_clock import SystemClock, nanoseconds

KEPT_BYTES = 16 << 10  # of one answer; a longer one is worth a system call of its own
MOST_KEPT = 32  # the first answer waits until as many have been served
_FEW = 16  # channels; where more are ready, keeping answers is always worth it
_SERVED_AT_ONCE_NS = 12_000


class Sender(Protocol):
    """The channel of an answer."""

    def send_kept(self, data: bytes) -> None:
        """Send the answer now; never raises."""


class ResponseBatch:
    """Answers of a turn, sent together.

    gathers: an answer may be kept until the batch is full or the turn ends.
    """

    __slots__ = ("_begun_ns", "_kept", "gathers")

    def __init__(self) -> None:
        self.gathers = False
        self._kept: list[tuple[Sender, bytes]] = []
        self._begun_ns = 0  # while the first request of a few is being served

    def gather(self, channels: int) -> None:
        """Begin to keep answers, until `send`: `channels` channels are ready.

        With few channels, the time of the first request decides whether keeping is worth it.
        """
        self.gathers = True
        self._begun_ns = nanoseconds() if 1 < channels <= _FEW else 0

    def add(self, sender: Sender, data: bytes) -> None:
        """Keep an answer until the batch is sent, by `send` at the latest."""
        kept = self._kept
        if not kept:
            kept.append((sender, data))
            if self._begun_ns and nanoseconds() - self._begun_ns < _SERVED_AT_ONCE_NS:
                self.send()
            self._begun_ns = 0
        elif kept[-1][0] is sender and len(kept[-1][1]) < KEPT_BYTES:
            kept[-1] = sender, kept[-1][1] + data
        else:
            kept.append((sender, data))
            if len(kept) >= MOST_KEPT:
                self.flush()

    def flush(self) -> None:
        """Send the kept answers."""
        if self._kept:
            kept, self._kept = self._kept, []
            for sender, data in kept:
                sender.send_kept(data)

    def send(self) -> None:
        """End the batch begun by `gather`, and send the answers."""
        self.gathers = False
        self.flush()


SCRATCH_BYTES = 256 << 10
_TURNS_IN_PASSING = 3
_REQUESTS_A_TURN = 256
_SMALLEST_SHARE = 16  # unserved bytes of a read are copied, which pays only after some requests


class SocketOwner(Protocol):
    """The owner of a descriptor.

    Never raises: a failure concerns that descriptor alone.
    """

    def on_ready(self, events: int) -> None:
        """Handle READ, WRITE or both; other bits stand for errors, seen when the socket is read or written."""


class EventLoop:
    """The turns of a process, with asyncio's loop, the clock, and the buffers shared by all streams.

    settle: called at the end of each turn, for requests that wait for its changes; skipped where a turn has only moved
    parts of frames.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: SystemClock) -> None:
        self.loop = loop
        self.clock = clock
        self.settle: Callable[[], None] = _nothing_to_settle
        self.observers: list[Callable[[], None]] = []  # called after each `settle`
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.buffers = BufferPool()
        self.share = _REQUESTS_A_TURN  # how many requests of one stream are served in this turn
        self.answers = ResponseBatch()
        self.in_parts = 0  # streams that moved only a part of a frame in this turn, in or out
        self._sources: dict[int, SocketOwner] = {}
        self._soon: list[Callable[[], None]] = []  # steps of the next turn
        self._due: list[Callable[[], None]] = []  # steps of this turn
        self._readiness: Readiness = readiness_of(loop)
        self._readiness.start(self._on_ready)

    # -- watched descriptors

    def watch(self, source: SocketOwner, fd: int, events: int) -> None:
        self._sources[fd] = source
        self._readiness.watch(fd, events)

    def change(self, fd: int, events: int) -> None:
        self._readiness.change(fd, events)

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor, before the owner closes the socket."""
        if self._sources.pop(fd, None) is not None:
            self._readiness.forget(fd)

    def pause(self) -> None:
        """Serve no socket until `resume`: bytes and connections coming meanwhile stay with the system."""
        self._readiness = NoneReady(self._readiness)

    def resume(self) -> None:
        """End a `pause`."""
        if isinstance(self._readiness, NoneReady):
            self._readiness = self._readiness.resting

    # -- turns

    def call_soon(self, step: Callable[[], None]) -> None:
        """Call `step` in the next turn, after a look at the sockets."""
        if not self._soon:
            self.loop.call_soon(self._on_soon)
        self._soon.append(step)

    def run(self, step: Callable[[], None]) -> None:
        """Run a turn for a call coming from the loop, not from a socket."""
        self.clock.tick()
        try:
            step()
        finally:
            self.settle()

    def _on_soon(self) -> None:
        """Run a single turn for all due steps, never hastened by ready sockets."""
        self._due, self._soon = self._soon, []
        self._on_ready()

    def _on_ready(self) -> None:
        """Run turns. While several sockets are ready, asyncio's own loop is skipped a few times."""
        ready = self._readiness.take()
        passing = _TURNS_IN_PASSING
        while ready or self._due:
            self.clock.tick()
            count, self.in_parts, gone_on = len(ready), 0, bool(self._due)
            self.share = max(_SMALLEST_SHARE, _REQUESTS_A_TURN // count) if count > 1 else _REQUESTS_A_TURN
            answers = self.answers
            if count > 1:
                answers.gather(count)
            try:
                if gone_on:
                    self._do_due()
                for fd, events in ready:
                    source = self._sources.get(fd)
                    if source is not None:  # an earlier source of this turn may have closed it
                        source.on_ready(events)
            finally:
                try:
                    if gone_on or self.in_parts < count:
                        self.settle()
                finally:
                    answers.send()
            if count < 2 or not passing:
                return
            passing -= 1
            ready = self._readiness.look()

    def _do_due(self) -> None:
        due, self._due = self._due, []
        for step in due:
            step()

    def close(self) -> None:
        self._readiness.stop()


def _nothing_to_settle() -> None: ...
