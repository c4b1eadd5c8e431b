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

Place = tuple[str, int]  # host and port
_KNOCK_MS = 1_000  # as TCP does it at first
_CLOSED = "the peer has closed it"
_LONG_DELAY = 0.02  # of all frames


class Ear(Protocol):
    """The owner of one side of a connection, called in turns of its host."""

    def on_frame(self, frame: bytes) -> None: ...

    def on_end(self, why: str) -> None: ...


class End:
    """A side of a connection."""

    def __init__(self, network: Network, host: Host) -> None:
        self.network = network
        self.host = host
        self.life = host.life
        self.ear: Ear | None = None
        self.open = True
        self._arriving: deque[tuple[int, bytes | None]] = deque()  # when it may, and what; None: the end
        self._pumping = False
        self._unheard: list[bytes | None] = []  # that have come before there was an ear; None: the end
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
        self.pump()

    def pump(self) -> None:
        """See to the first frame on its way."""
        if self._arriving and not self._pumping and not self.network.is_cut(self.far.host, self.host):
            self._pumping = True
            self.network.timeline.after(self._arriving[0][0] - self.network.timeline.now, self._arrive)

    def _arrive(self) -> None:
        self._pumping = False
        if self.network.is_cut(self.far.host, self.host):
            return
        if self.host.name in self.network.dark:  # the sender's system repeats the frame until it is answered
            self._pumping = True
            self.network.timeline.after(_KNOCK_MS, self._arrive)
            return
        _, frame = self._arriving.popleft()
        if self.network.on_arrival is not None:
            self.network.on_arrival(self.far.host, self.host, frame)
        self.pump()
        if self.life != self.host.life or (not self.open and frame is not None):  # nobody has such a connection
            self.far.broken("the connection was reset")
        elif self.open and frame is None:
            self.broken(_CLOSED)
        elif self.open and frame is not None:
            self.host.on_ready(self, lambda: self._hear(frame))

    def _hear(self, frame: bytes) -> None:
        if self.open and self.ear is not None:
            self.ear.on_frame(frame)
        elif self.open:
            self._unheard.append(frame)

    def hear_again(self) -> None:
        """Give a new ear everything that has come before it."""
        unheard, self._unheard = self._unheard, []
        for frame in unheard:
            self.host.on_ready(self, partial(self._hear, frame) if frame is not None else self._hear_end)

    def _hear_end(self, why: str = _CLOSED) -> None:
        if self.ear is not None:
            self.ear.on_end(why)

    def broken(self, why: str) -> None:
        """End this side, which hears why."""
        if self.open and self.life == self.host.life:
            self.open = False
            if self.ear is not None:
                self.host.later(0, lambda: self._hear_end(why))
            else:
                self._unheard.append(None)

    def setsockopt(self, *option: object) -> None:
        """Do nothing: a fault that resets a socket closes this side."""


class Door(Protocol):
    """A listener."""

    host: Host

    def accept(self, end: End) -> None: ...


class Dialling:
    """A connection that is being made."""

    def __init__(self) -> None:
        self.wanted = True

    def cancel(self) -> None:
        self.wanted = False


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
        self.doors: dict[Place, Door] = {}
        self.ends: list[End] = []
        self.slow: dict[str, int] = {}  # by name of a host: how much later each frame from and to it comes
        self.slow_ms = 200  # how long a frame is on its way that is late
        self.on_arrival: Callable[[Host, Host, bytes | None], object] | None = None

    def delay(self, *hosts: Host) -> int:
        """Return how long a frame is on its way between hosts."""
        delay = self._delay()
        return delay + sum(self.slow.get(host.name, 0) for host in hosts) if self.slow else delay

    def _delay(self) -> int:
        if self.random.random() < _LONG_DELAY:
            return self.random.randrange(self.slow_ms)
        return self.random.randrange(3)

    def is_cut(self, source: Host, target: Host) -> bool:
        return (source.name, target.name) in self.cut

    def dial(
        self, host: Host, place: Place, connected: Callable[[End], None], failed: Callable[[str], None]
    ) -> Dialling:
        """Make a connection. Where the way is cut nobody answers, and the system knocks again until the caller
        gives up.
        """
        dialling, life, pause_ms = Dialling(), host.life, _KNOCK_MS

        def knock() -> None:
            nonlocal pause_ms
            door = self.doors.get(place)
            target = self.hosts.get(place[0])
            if host.life != life or not dialling.wanted:
                return
            if target is None or self._is_mute(host, target):
                self.timeline.after(pause_ms, knock)
                pause_ms *= 2
                return
            if door is None:
                host.later(self.delay(), lambda: failed("refused") if dialling.wanted else None)
            else:
                self._connect(host, life, door, dialling, connected, failed)

        self.timeline.after(self.delay(), knock)
        return dialling

    def _is_mute(self, host: Host, target: Host) -> bool:
        return self.is_cut(host, target) or self.is_cut(target, host) or target.name in self.dark

    def _connect(
        self,
        host: Host,
        life: int,
        door: Door,
        dialling: Dialling,
        connected: Callable[[End], None],
        failed: Callable[[str], None],
    ) -> None:
        near, far = End(self, host), End(self, door.host)
        near.far, far.far = far, near
        near.life = life
        self.ends = [each for each in self.ends if each.open or each.far.open]
        self.ends += near, far
        door.host.later(0, lambda: door.accept(far))

        def ready() -> None:
            if not dialling.wanted:
                near.close()
            elif near.open:
                connected(near)
            else:
                failed("the connection was reset")

        host.later(self.delay(host, door.host), ready)

    # -- what goes wrong

    def separate(self, *pairs: tuple[str, str]) -> None:
        """Cut the ways from the first to the second of each pair."""
        self.cut.update(pairs)

    def heal(self) -> None:
        """Let all hosts reach each other."""
        self.cut.clear()
        self.slow.clear()
        for end in list(self.ends):
            end.pump()

    def reconnect(self, chosen: Callable[[str, str], bool]) -> None:
        """Let hosts reach each other again, by the names of the first and the second of a pair."""
        self.cut = {pair for pair in self.cut if not chosen(*pair)}
        for end in list(self.ends):
            end.pump()

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
        for place in [place for place, door in self.doors.items() if door.host is host]:
            del self.doors[place]
        for end in self.ends:
            if end.host is host and end.life == host.life:
                end.close()

    def went_dark(self, host: Host) -> None:
        """Take the power from a machine: nobody is told."""
        self.dark.add(host.name)
        for place in [place for place, door in self.doors.items() if door.host is host]:
            del self.doors[place]
        for end in self.ends:
            if end.host is host:
                end.open = False
