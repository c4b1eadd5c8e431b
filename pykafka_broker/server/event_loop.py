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

KEPT_BYTES = 16 << 10  # of one answer; for a longer one a system call more is nothing
MOST_KEPT = 32  # the first one of them waits until as many have been served
_FEW = 16  # channels; where more are ready it is always worth it
_SERVED_AT_ONCE_NS = 12_000


class Sender(Protocol):
    """Whose answer it is."""

    def send_kept(self, data: bytes) -> None:
        """Send it now; never raises."""


class ResponseBatch:
    """gathers: an answer may be kept until others are there, or the turn ends."""

    __slots__ = ("_begun_ns", "_kept", "gathers")

    def __init__(self) -> None:
        self.gathers = False
        self._kept: list[tuple[Sender, bytes]] = []
        self._begun_ns = 0  # while the first request of a few is being served

    def gather(self, channels: int) -> None:
        """So many are ready: until `send` their answers may be kept. Of a few the time that the first one takes says
        whether that is worth it.
        """
        self.gathers = True
        self._begun_ns = nanoseconds() if 1 < channels <= _FEW else 0

    def add(self, sender: Sender, data: bytes) -> None:
        """It is sent with the next ones, by `send` at the latest."""
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
        """Send what is kept."""
        if self._kept:
            kept, self._kept = self._kept, []
            for sender, data in kept:
                sender.send_kept(data)

    def send(self) -> None:
        """The end of what `gather` began."""
        self.gathers = False
        self.flush()


SCRATCH_BYTES = 256 << 10
_TURNS_IN_PASSING = 3
_REQUESTS_A_TURN = 256
_SMALLEST_SHARE = 16  # what is left of a read is copied: that is worth it only after some requests


class SocketOwner(Protocol):
    """Whoever owns a descriptor. It never raises: what goes wrong with one concerns only that one."""

    def on_ready(self, events: int) -> None:
        """READ, WRITE or both; other bits stand for trouble, which shows when it reads or writes."""


class EventLoop:
    """The loop, the clock, and what all streams of a process share.

    settle: called at the end of each turn, for who waits for what it has done; not where it has only moved parts of
    frames.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: SystemClock) -> None:
        self.loop = loop
        self.clock = clock
        self.settle: Callable[[], None] = _nothing_to_settle
        self.observers: list[Callable[[], None]] = []  # who looks, after each `settle`, at what has become of things
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.buffers = BufferPool()
        self.share = _REQUESTS_A_TURN  # of requests that one stream is served in this turn
        self.answers = ResponseBatch()
        self.in_parts = 0  # streams that have only moved a part of a frame in this turn, in or out
        self._sources: dict[int, SocketOwner] = {}
        self._soon: list[Callable[[], None]] = []  # of the next turn
        self._due: list[Callable[[], None]] = []  # of this one
        self._readiness: Readiness = readiness_of(loop)
        self._readiness.start(self._on_ready)

    # -- who is watched

    def watch(self, source: SocketOwner, fd: int, events: int) -> None:
        self._sources[fd] = source
        self._readiness.watch(fd, events)

    def change(self, fd: int, events: int) -> None:
        self._readiness.change(fd, events)

    def forget(self, fd: int) -> None:
        """Before it is closed."""
        if self._sources.pop(fd, None) is not None:
            self._readiness.forget(fd)

    def pause(self) -> None:
        """Let all of them wait until `resume`: bytes and connections that come meanwhile stay with the system."""
        self._readiness = NoneReady(self._readiness)

    def resume(self) -> None:
        """The end of `pause`."""
        if isinstance(self._readiness, NoneReady):
            self._readiness = self._readiness.resting

    # -- turns

    def call_soon(self, step: Callable[[], None]) -> None:
        """Call it in the next turn, after a look at the sockets."""
        if not self._soon:
            self.loop.call_soon(self._on_soon)
        self._soon.append(step)

    def run(self, step: Callable[[], None]) -> None:
        """A turn for what the loop calls for another reason than a socket."""
        self.clock.tick()
        try:
            step()
        finally:
            self.settle()

    def _on_soon(self) -> None:
        """Once for all that there is to do soon: sockets that are ready meanwhile do not make it come sooner."""
        self._due, self._soon = self._soon, []
        self._on_ready()

    def _on_ready(self) -> None:
        """While several are ready the loop, which looks at much else, is passed over a few times."""
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
                    if source is not None:  # one before it in this turn may have closed it
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
