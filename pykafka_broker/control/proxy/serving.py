"""The proxy as a process.

Rule: for every broker of the cluster that an answer names there is an address of the proxy's own, opened when it is
first named and kept to the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.control.control import Control
from pykafka_broker.control.door import ControlDoor
from pykafka_broker.control.observing import Observing
from pykafka_broker.control.opening import Address as ControlAddress
from pykafka_broker.control.proxy.addresses import Address
from pykafka_broker.control.proxy.forwarding import ForwardingBroker
from pykafka_broker.control.proxy.upstream import Upstream
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.server import Server
from pykafka_broker.server.system_clock import SystemClock
from pykafka_broker.server.turns import Turns

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker

_OF_LOG = ("requests", "clear_requests", "wait_for_request")
_OF_FAULTS = ("faults", "add_fault", "clear_faults", "fault", "remove_fault", "wait_for_fault", "chaos")
OFFERED = frozenset({*_OF_LOG, *_OF_FAULTS, "pause", "unpause", "health", "openapi"})


class ProxyControl(Control):
    """What operations reach of a proxy: its traffic."""

    def __init__(self, server: Server, turns: Turns, listeners: list[Listener], observing: Observing) -> None:
        self.server = server
        self.turns = turns
        self.listeners = listeners
        self.observing = observing


class Proxy:
    """In front of the broker at `to`, and of those that it names."""

    def __init__(self, loop: asyncio.AbstractEventLoop, to: Address, host: str, port: int) -> None:
        self.turns = Turns(loop, SystemClock())
        self._host = host
        self._broker = ForwardingBroker(self.turns.clock, self._connect, self._local)
        # to a server it is a broker: it has settings, deadlines, and a place where requests wait
        self.server = Server(cast("Broker", self._broker), self.turns)
        self.server.router = self._broker
        self.observing = Observing(self.server, self._broker)
        self.listeners: list[Listener] = []
        self._targets: dict[str, Address] = {}  # by name of listener
        self._locals: dict[Address, Listener] = {}
        self.first = self._open(to, port)

    def _open(self, target: Address, port: int) -> Listener:
        listener = self._locals[target] = Listener(f"{target[0]}:{target[1]}", self._host, port)
        self._targets[listener.name] = target
        self.listeners.append(listener)
        self.server.listen([listener])
        return listener

    def _local(self, target: Address) -> Address:
        listener = self._locals.get(target) or self._open(target, 0)
        return listener.host, listener.port

    def _connect(self, connection: ConnectionContext) -> Upstream:
        def lost(why: str) -> None:
            client = self.server.connection(connection.id)
            if client is not None:
                client.close(why)

        return Upstream(self.turns, self._targets[connection.listener], lost)

    async def run(self, control: ControlAddress, say: Callable[[str], None], stopped: asyncio.Event) -> None:
        """Until it is told to stop. Raises OSError."""
        door = ControlDoor(
            ProxyControl(self.server, self.turns, self.listeners, self.observing), control.token, offered=OFFERED
        )
        await door.open(control.host, control.port)
        try:
            self.server.start()
            say(f"control on {door.url}")
            say(f"listening on {self.first.host}:{self.first.port}")
            await stopped.wait()
        finally:
            await door.close()
            await self.server.stop()
            self.turns.close()
