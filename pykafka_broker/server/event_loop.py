"""The turns of a process: ready sockets are served, what that has moved is settled once, then answers leave.

Rule: the system's clocks are read here and nowhere else below `cli/`. A turn begins with a tick of the clock, so that
everything in one turn happens at one time, and ends with `settle`; what the turn has answered leaves after that. Many
sockets that are ready cost the event loop one callback. Nobody is starved: a turn serves a bounded number of sockets,
gives each its share of requests, and takes no further socket after 50 ms; the next turn goes on from there, and after a
few turns, or a long one, the loop does everything else. So a heartbeat to the controller, which a timer sends, waits
for 50 ms and one request, not for 256 requests, whatever these cost.

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
import logging
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

from pykafka_broker.broker.requests.encoded_reply import UnwrittenReply
from pykafka_broker.clock import Clock
from pykafka_broker.platform import unused_memory
from pykafka_broker.server.transport import READ, WRITE

log = logging.getLogger(__name__)


class SystemClock(Clock):
    """A clock set by `tick`.

    `now` begins as the wall clock's time and runs steadily, whatever happens to the wall clock.
    """

    __slots__ = ("_started",)

    def __init__(self) -> None:
        wall = time.time()
        super().__init__(int(wall * 1000))
        self._started = wall - time.monotonic()

    def tick(self) -> int:
        """Read the system's clocks; return `now`."""
        self.wall = int(time.time() * 1000)
        self.now = now = int((self._started + time.monotonic()) * 1000)
        return now

    def release(self) -> None:
        """Run on where something holds the clock; the system's never stands."""


def seconds() -> float:
    """Return a time for measuring the process; the broker's behaviour never depends on it."""
    return time.monotonic()


nanoseconds = time.perf_counter_ns  # a fine time for measuring short work; asked for with every request


KEPT_BYTES = 16 << 10  # of one answer; a longer one is worth a system call of its own
MOST_KEPT = 32  # the first answer waits until as many have been served
FEW = 16  # channels; where more are ready, keeping answers is always worth it
_SERVED_AT_ONCE_NS = 12_000


class Sender(Protocol):
    """The channel of an answer."""

    def send_kept(self, answer: bytes | UnwrittenReply) -> None:
        """Send the answer now; never raises."""


class ResponseBatch:
    """Answers of a turn, sent together, and the steps that come before.

    gathers: an answer may be kept until the batch is full or the turn ends.
    """

    __slots__ = ("_begun_ns", "_kept", "_steps", "gathers")

    def __init__(self) -> None:
        self.gathers = False
        self._kept: list[tuple[Sender, bytes | UnwrittenReply]] = []
        self._steps: list[Callable[[], None]] = []
        self._begun_ns = 0  # while the first request of a few is being served

    def gather(self, channels: int) -> None:
        """Begin to keep answers, until `send`: `channels` channels are ready.

        With few channels, the time of the first request decides whether keeping is worth it.
        """
        self.gathers = True
        self._begun_ns = nanoseconds() if 1 < channels <= FEW else 0

    def add(self, sender: Sender, answer: bytes | UnwrittenReply) -> None:
        """Keep an answer until the batch is sent, by `send` at the latest."""
        kept = self._kept
        if not kept:
            kept.append((sender, answer))
            if self._begun_ns and not self._steps and nanoseconds() - self._begun_ns < _SERVED_AT_ONCE_NS:
                self.send()
            self._begun_ns = 0
        elif kept[-1][0] is sender and isinstance(last := kept[-1][1], bytes) and isinstance(answer, bytes):
            kept[-1] = sender, last + answer
        else:
            kept.append((sender, answer))
            if len(kept) >= MOST_KEPT:
                self.flush()

    def before(self, step: Callable[[], None]) -> bool:
        """Call `step` before any answer that is kept from now on leaves.

        Returns False, and does not call the step, while no answers are kept. The step never raises.
        """
        if self.gathers:
            self._steps.append(step)
        return self.gathers

    def take_steps(self) -> None:
        """Call the steps. The answers kept so far are lost if one raises after all: they may be untrue."""
        if not self._steps:
            return
        kept, self._kept = self._kept, []
        while self._steps:
            steps, self._steps = self._steps, []
            for step in steps:
                step()
        self._kept = kept + self._kept

    def flush(self) -> None:
        """Send the kept answers, after the steps."""
        self.take_steps()
        if self._kept:
            kept, self._kept = self._kept, []
            for sender, answer in kept:
                sender.send_kept(answer)

    def send(self) -> None:
        """End the batch begun by `gather`, and send the answers."""
        self.gathers = False
        self.flush()


FIRST_BUFFER_BYTES = 64 << 10  # a frame's memory grows with what has arrived, not with what its length promises
KEPT_BUFFER_BYTES = 2 << 20  # buffers up to this size are kept for the next frame; larger ones go back to the system
KEPT_BUFFERS = 4


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


SCRATCH_BYTES = 256 << 10
_TURNS_IN_PASSING = 3
_REQUESTS_A_TURN = 256
_LONGEST_TURN_NS = 50_000_000
_SMALLEST_SHARE = 16  # unserved bytes of a read are copied, which pays only after some requests


class SocketOwner(Protocol):
    """The owner of a descriptor. Never raises: a failure concerns that descriptor alone."""

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
        self.settle: Callable[[], None] = lambda: None
        self.observers: list[Callable[[], None]] = []  # called after each `settle`
        self.scratch = unused_memory(SCRATCH_BYTES)
        self.buffers = BufferPool()
        self.share = _REQUESTS_A_TURN  # how many requests of one stream are served in this turn
        self.answers = ResponseBatch()
        self.in_parts = 0  # streams that moved only a part of a frame in this turn, in or out
        self._sources: dict[int, SocketOwner] = {}
        self._soon: list[Callable[[], None]] = []  # steps of the next turn
        self._due: list[Callable[[], None]] = []  # steps of this turn
        self._rest: Ready = []  # sockets that a long turn did not reach; first in the next turn
        self._readiness: Readiness = getattr(loop, "readiness", None) or LoopReadiness(loop)  # first: of an EpollLoop
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
            if self._rest:
                self._rest = [pair for pair in self._rest if pair[0] != fd]

    def pause(self) -> None:
        """Serve no socket until `resume`: bytes and connections coming meanwhile stay with the system."""
        self._readiness = NoneReady(self._readiness)
        self._rest = []  # reported again afterwards

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

    def at_end(self, step: Callable[[], None]) -> bool:
        """Call `step` when the sockets of this turn are served, or earlier where their answers leave earlier.

        Returns False, and does not call the step, outside of a turn with several ready sockets. The step never raises.
        """
        return self.answers.before(step)

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
        if self._rest:
            ready = self._after_rest(ready)
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
                if count > 1:
                    self._serve(ready)
                elif count:
                    fd, events = ready[0]
                    source = self._sources.get(fd)
                    if source is not None:  # a due step may have closed it
                        source.on_ready(events)
            finally:
                try:
                    answers.take_steps()
                    if gone_on or self.in_parts < count:
                        self.settle()
                finally:
                    answers.send()
            if count < 2 or not passing or self._rest:
                return
            passing -= 1
            ready = self._readiness.look()

    def _serve(self, ready: Ready) -> None:
        """Serve sockets until the turn is long enough; keep the rest, still ready and told again, for the next turn."""
        until = nanoseconds() + _LONGEST_TURN_NS
        for served, (fd, events) in enumerate(ready, 1):
            source = self._sources.get(fd)
            if source is not None:  # an earlier source of this turn may have closed it
                source.on_ready(events)
                if nanoseconds() > until and served < len(ready):
                    self._rest = [pair for pair in ready[served:] if pair[0] in self._sources]
                    return

    def _after_rest(self, ready: Ready) -> Ready:
        """Return the rest of the last turn, and behind it the other ready sockets."""
        rest, self._rest = self._rest, []
        known = {fd for fd, _ in rest}
        return rest + [pair for pair in ready if pair[0] not in known]

    def _do_due(self) -> None:
        due, self._due = self._due, []
        for step in due:
            try:
                step()
            except Exception:  # the steps of others follow all the same
                log.exception("a defect in a step of the loop")

    def close(self) -> None:
        self._readiness.stop()


# -- ready sockets
#
# A watcher of many sockets is told of all ready ones in one call. `EpollLoop` (epoll_loop.py) is asyncio's loop with
# one epoll for its own descriptors and for these: events of the loop take the usual way, the rest is told at once, and
# one system call serves both. On any other loop, as on platforms without epoll, each ready socket is told by itself.


Ready = list[tuple[int, int]]  # descriptors and their events


class Readiness(Protocol):
    """A watch over sockets: `tell` is called from the loop when some are ready, and `take` names them."""

    def start(self, tell: Callable[[], None]) -> None: ...
    def watch(self, fd: int, events: int) -> object: ...
    def change(self, fd: int, events: int) -> object: ...
    def forget(self, fd: int) -> object: ...
    def take(self) -> Ready: ...

    def look(self) -> Ready:
        """Return sockets ready now, as far as the system can be asked."""

    def stop(self) -> None: ...


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return the platform's best loop of asyncio, for a single `EventLoop`."""
    if sys.platform == "linux" and hasattr(select, "epoll"):
        from pykafka_broker.server.epoll_loop import EpollLoop

        return EpollLoop()
    return plain_event_loop()


def plain_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of asyncio for any number of `EventLoop`s: with readers and writers of sockets."""
    # Not what asyncio itself takes on Windows: its proactor has no readers and writers of sockets.
    return asyncio.SelectorEventLoop() if hasattr(select, "poll") else WokenLoop()


class WokenLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, woken by signals.

    On Windows `select` waits on after a signal, and Python calls the signal's handler only afterwards: an idle process
    would not end by Ctrl-C. asyncio wakes its proactor alone.
    """

    def run_forever(self) -> None:
        if threading.current_thread() is not threading.main_thread():  # which alone may be woken
            return super().run_forever()
        heard, rung = socket.socketpair()
        with heard, rung:
            heard.setblocking(False)
            rung.setblocking(False)
            self.add_reader(heard, heard.recv, 4096)
            before = signal.set_wakeup_fd(rung.fileno(), warn_on_full_buffer=False)
            try:
                super().run_forever()
            finally:
                signal.set_wakeup_fd(before)
                self.remove_reader(heard)


class LoopReadiness:
    """Readiness by the readers and writers of any loop of asyncio."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: Ready = []

    def start(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def _on_ready(self, fd: int, events: int) -> None:
        self._ready.append((fd, events))
        self._tell()

    def watch(self, fd: int, events: int) -> None:
        if events & READ:
            self._loop.add_reader(fd, self._on_ready, fd, READ)
        if events & WRITE:
            self._loop.add_writer(fd, self._on_ready, fd, WRITE)

    def change(self, fd: int, events: int) -> None:
        self.forget(fd)
        self.watch(fd, events)

    def forget(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)

    def take(self) -> Ready:
        ready, self._ready = self._ready, []
        return ready

    def look(self) -> Ready:
        return []

    def stop(self) -> None: ...


class NoneReady:
    """A stand-in while sockets rest: no socket is ready. Sockets still ready afterwards are reported then."""

    def __init__(self, resting: Readiness) -> None:
        self.resting = resting
        self.start, self.stop = resting.start, resting.stop
        self.watch, self.change, self.forget = resting.watch, resting.change, resting.forget

    def take(self) -> Ready:
        self.resting.take()
        return []

    def look(self) -> Ready:
        return []
