"""What one turn answers, sent together.

Why: who waits for an answer sleeps, and for the system it is dearer to wake somebody than for this broker to serve a
small request. Many connections often lead to one process: the first answer of a group wakes it, the others leave while
it is waking up. Where requests are served faster than the process behind them can look at the answers it does not
sleep, and is better told of each at once.

Rule: the answers of one channel leave in their order, and each before the next request of that channel is served: a
producer that has several batches under way is not told of one only when a kill -9 may have come after the next, since
the log's snapshots know each producer's last batch alone. Who sends something past this lets go first of what is kept,
and so does who closes a channel.
"""

from __future__ import annotations

from typing import Protocol

from pykafka_broker.server.system_clock import nanoseconds

KEPT_BYTES = 16 << 10  # of one answer; for a longer one a system call more is nothing
MOST_KEPT = 32  # the first one of them waits until as many have been served
_FEW = 16  # channels; where more are ready it is always worth it
_SERVED_AT_ONCE_NS = 12_000


class Sender(Protocol):
    """Whose answer it is."""

    def send_kept(self, data: bytes) -> None:
        """Send it now; never raises."""


class Answers:
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

    def keep(self, sender: Sender, data: bytes) -> None:
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
                self.let_go()

    def let_go(self) -> None:
        """Send what is kept."""
        if self._kept:
            kept, self._kept = self._kept, []
            for sender, data in kept:
                sender.send_kept(data)

    def send(self) -> None:
        """The end of what `gather` began."""
        self.gathers = False
        self.let_go()
