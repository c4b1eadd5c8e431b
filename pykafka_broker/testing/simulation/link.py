"""The links of a simulated host.

Rule: the `Link` of `server/` itself does it, with its queues, time-outs, pauses, greeting and choice of versions; only
what is below it, dialling and the wire, is virtual. What an answer's `records` were read from is wiped afterwards, as
the buffer of a real connection would be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka_broker.errors import FrameError
from pykafka_broker.log.filesystem import FileSlice
from pykafka_broker.peers import Address, Peer
from pykafka_broker.server.link import Link, LinkSettings, LinkState
from pykafka_broker.server.link_codec import Greeting
from pykafka_broker.testing.simulation.network import End, Network
from pykafka_broker.testing.simulation.timeline import Event, Host, Step


class _Loop:
    """The event loop of a link."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def call_later(self, delay_s: float, call: Callable[..., None], *args: Any) -> Event:
        return self._host.later(round(delay_s * 1000), lambda: call(*args))


class _Turns:
    """The turns of a link's process."""

    def __init__(self, host: Host) -> None:
        self.clock = host.clock
        self.loop = _Loop(host)
        self.call_soon = host.soon

    def run(self, step: Step) -> None:
        step()  # the timeline has begun a turn for it


class _Wire:
    """The connection of a link while it has one."""

    def __init__(self, link: SimLink, end: End) -> None:
        self._link = link
        self._end = end
        end.receiver = self

    def send(self, pieces: list[Any]) -> None:
        self._end.send(b"".join([piece.read() if isinstance(piece, FileSlice) else bytes(piece) for piece in pieces]))

    def close(self, why: str) -> None:
        if self._end.open:
            self._end.close()
            self._link.lost(why)

    def on_frame(self, frame: bytes) -> None:
        buffer = bytearray(frame)
        try:
            self._link.take(memoryview(buffer)[4:])
        except FrameError as error:
            self.close(str(error))
        buffer[:] = bytes(len(buffer))

    def on_end(self, why: str) -> None:
        self._link.lost(why)


class SimLink(Link):
    """Requests over the virtual network."""

    def __init__(self, network: Network, host: Host, address: Address, client_id: str) -> None:
        self._network = network
        self._from = host
        settings = LinkSettings(client_id=client_id)
        turns: Any = _Turns(host)
        super().__init__(turns, address.host, address.port, settings, draw=network.random.random)

    def _connect(self) -> None:
        self._enter(LinkState.DIALLING)
        self._setup_until = self._clock.now + self._settings.socket_connection_setup_timeout_ms
        self._arm(self._setup_until)
        dial: Any = self._network.dial(self._from, (self._host, self._port), self._reached, self._not_reached)
        self._dial = dial

    def _not_reached(self, why: str) -> None:
        self._dial = None
        self._rest(why)

    def _reached(self, end: End) -> None:
        self._dial = None
        self._enter(LinkState.SECURING)
        wire: Any = _Wire(self, end)
        self._wire = wire
        self._greeting = Greeting()
        self._secured()


class SimPeers:
    """The way from a host to others."""

    def __init__(self, network: Network, host: Host) -> None:
        self._network = network
        self._host = host

    def open(self, address: Address, client_id: str) -> Peer:
        return SimLink(self._network, self._host, address, client_id)
