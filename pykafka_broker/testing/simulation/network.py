"""A virtual network: connections between hosts, with delays, cuts and broken connections.

Rule: within a connection frames arrive in their order, each whole, or the connection is broken and both sides hear of
it, sooner or later. Where a direction is cut, frames wait for its healing, as TCP repeats them; a sender that does not
want to wait has time-outs. The same holds for a machine without power: the sender of a frame hears that the connection
is gone once the machine is back. Nothing is ever lost in the middle of a connection that goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Protocol

from pykafka_broker.testing.simulation.timeline import Host, Timeline

HostPort = tuple[str, int]
_RETRY_MS = 1_000  # until TCP sends a frame once more; twice as long each time while it connects
_CLOSED = "the peer has closed it"
_LONG_DELAY = 0.02  # of all frames


class Receiver(Protocol):
    """The owner of one side of a connection, called in turns of its host."""

    def on_frame(self, frame: bytes) -> None: ...

    def on_end(self, why: str) -> None: ...


class End:
    """A side of a connection. life: the process of the host that has the side."""

    def __init__(self, network: Network, host: Host) -> None:
        self.network = network
        self.host = host
        self.life = host.life
        self.receiver: Receiver | None = None
        self.open = True
        self._arriving: deque[tuple[int, bytes | None]] = deque()  # frames by the earliest time; None: the end
        self._is_arrival_due = False
        self._undelivered: list[bytes | None] = []  # frames that came before there was a receiver; None: the end
        self.far: End = self

    def send(self, frame: bytes) -> None:
        """Send a frame to the other side."""
        if self.open:
            self.far.receive(frame)

    def close(self) -> None:
        """Close this side. The other side hears of the end after everything that was sent."""
        if self.open:
            self.open = False
            self.far.receive(None)

    def receive(self, frame: bytes | None) -> None:
        """Put a frame, or the end, on its way to this side."""
        network = self.network
        at = network.timeline.now + network.delay(self.far.host, self.host)
        if self._arriving:
            at = max(at, self._arriving[-1][0])
        self._arriving.append((at, frame))
        self.expect_arrival()

    def expect_arrival(self) -> None:
        """Let the first frame on its way arrive when it is due, unless the way is cut."""
        if self._arriving and not self._is_arrival_due and not self.network.is_cut(self.far.host, self.host):
            self._is_arrival_due = True
            self.network.timeline.after(self._arriving[0][0] - self.network.timeline.now, self._arrive)

    def _arrive(self) -> None:
        self._is_arrival_due = False
        if self.network.is_cut(self.far.host, self.host):
            return
        if self.host.name in self.network.dark:  # the sender's system repeats the frame until it is answered
            self._is_arrival_due = True
            self.network.timeline.after(_RETRY_MS, self._arrive)
            return
        _, frame = self._arriving.popleft()
        if self.network.on_arrival is not None:
            self.network.on_arrival(self.far.host, self.host, frame)
        self.expect_arrival()
        if self.life != self.host.life or (not self.open and frame is not None):  # nobody has such a connection
            self.far.broken("the connection was reset")
        elif self.open and frame is None:
            self.broken(_CLOSED)
        elif self.open and frame is not None:
            self.host.on_ready(self, lambda: self._deliver(frame))

    def _deliver(self, frame: bytes) -> None:
        if self.open and self.receiver is not None:
            self.receiver.on_frame(frame)
        elif self.open:
            self._undelivered.append(frame)

    def deliver_again(self) -> None:
        """Give a new receiver everything that came before there was one."""
        undelivered, self._undelivered = self._undelivered, []
        for frame in undelivered:
            self.host.on_ready(self, partial(self._deliver, frame) if frame is not None else self._deliver_end)

    def _deliver_end(self, why: str = _CLOSED) -> None:
        if self.receiver is not None:
            self.receiver.on_end(why)

    def broken(self, why: str) -> None:
        """End this side, and tell its receiver why."""
        if self.open and self.life == self.host.life:
            self.open = False
            if self.receiver is not None:
                self.host.later(0, lambda: self._deliver_end(why))
            else:
                self._undelivered.append(None)

    def setsockopt(self, *option: object) -> None:
        """Do nothing: a fault that resets a socket closes this side."""


class BoundListener(Protocol):
    """A listener of a host."""

    host: Host

    def accept(self, end: End) -> None: ...


class Dialling:
    """A connection that is being made. end: the caller's side, once the caller was told of the connection."""

    def __init__(self) -> None:
        self.wanted = True
        self.end: End | None = None

    def cancel(self) -> None:
        """Make no connection, and close one that was just made."""
        self.wanted = False
        if self.end is not None:
            self.end.close()


class Network:
    """All hosts by name, and the ways between them.

    `cut` are pairs of names, one direction each; `dark` machines have no power. on_arrival: called with the hosts of
    sender and receiver and with each frame that arrives, None for the end of a connection.
    """

    def __init__(self, timeline: Timeline, random: Random) -> None:
        self.timeline = timeline
        self.random = random
        self.cut: set[tuple[str, str]] = set()
        self.dark: set[str] = set()
        self.hosts: dict[str, Host] = {}
        self.listeners: dict[HostPort, BoundListener] = {}
        self.ends: list[End] = []
        self.slow: dict[str, int] = {}  # by name of a host: how much later each frame from and to it comes
        self.slow_ms = 200  # how long a frame is on its way that is late
        self.on_arrival: Callable[[Host, Host, bytes | None], object] | None = None

    def delay(self, *hosts: Host) -> int:
        """Return how long a frame is on its way between hosts."""
        is_late = self.random.random() < _LONG_DELAY
        delay = self.random.randrange(self.slow_ms if is_late else 3)
        return delay + sum(self.slow.get(host.name, 0) for host in hosts) if self.slow else delay

    def is_cut(self, source: Host, target: Host) -> bool:
        return (source.name, target.name) in self.cut

    def dial(
        self, host: Host, address: HostPort, connected: Callable[[End], None], failed: Callable[[str], None]
    ) -> Dialling:
        """Make a connection. Where the way is cut nobody answers, and the system tries again until the caller
        gives up.
        """
        dialling, life, pause_ms = Dialling(), host.life, _RETRY_MS

        def attempt() -> None:
            nonlocal pause_ms
            listener = self.listeners.get(address)
            target = self.hosts.get(address[0])
            if host.life != life or not dialling.wanted:
                return
            if target is None or self._is_mute(host, target):
                self.timeline.after(pause_ms, attempt)
                pause_ms *= 2
            elif listener is None:
                host.later(self.delay(), lambda: failed("refused") if dialling.wanted else None)
            else:
                self._connect(host, life, listener, dialling, connected, failed)

        self.timeline.after(self.delay(), attempt)
        return dialling

    def _is_mute(self, host: Host, target: Host) -> bool:
        return self.is_cut(host, target) or self.is_cut(target, host) or target.name in self.dark

    def _connect(
        self,
        host: Host,
        life: int,
        listener: BoundListener,
        dialling: Dialling,
        connected: Callable[[End], None],
        failed: Callable[[str], None],
    ) -> None:
        near, far = End(self, host), End(self, listener.host)
        near.far, far.far = far, near
        near.life = life
        self.ends = [each for each in self.ends if each.open or each.far.open]
        self.ends += near, far
        listener.host.later(0, lambda: listener.accept(far))

        def ready() -> None:
            if not dialling.wanted:
                near.close()
            elif near.open:
                dialling.end = near
                connected(near)
            else:
                failed("the connection was reset")

        host.later(self.delay(host, listener.host), ready)

    # -- what goes wrong

    def separate(self, *pairs: tuple[str, str]) -> None:
        """Cut the ways from the first to the second of each pair."""
        self.cut.update(pairs)

    def heal(self) -> None:
        """Let all hosts reach each other."""
        self.slow.clear()
        self.reconnect(lambda source, target: True)

    def reconnect(self, chosen: Callable[[str, str], bool]) -> None:
        """Let hosts reach each other again, by the names of the first and the second of a pair."""
        self.cut = {pair for pair in self.cut if not chosen(*pair)}
        for end in self.ends:
            end.expect_arrival()

    def hurry(self, host: Host) -> None:
        """Let frames from and to a host be as fast as others again."""
        self.slow.pop(host.name, None)

    def break_connections(self, chosen: Callable[[str, str], bool]) -> None:
        """Reset connections between hosts: one side hears of it now, the other a little later."""
        for end in list(self.ends):
            if end.open and chosen(end.host.name, end.far.host.name):
                end.broken("the connection was reset")
                end.far.receive(None)

    def process_ended(self, host: Host) -> None:
        """Close everything that a process had open, before the process is forgotten."""
        self._close_listeners(host)
        for end in self.ends:
            if end.host is host and end.life == host.life:
                end.close()

    def went_dark(self, host: Host) -> None:
        """Take the power from a machine: nobody is told."""
        self.dark.add(host.name)
        self._close_listeners(host)
        for end in self.ends:
            if end.host is host:
                end.open = False

    def _close_listeners(self, host: Host) -> None:
        self.listeners = {address: each for address, each in self.listeners.items() if each.host is not host}
