"""The server of connections to a controller's listeners.

Rule: everything is the server's own but the router, since other requests are allowed there. Imported by the first such
listener.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka_broker.broker.requests.controller_router import ControllerRouter
from pykafka_broker.broker.waiting.purgatory import Purgatory
from pykafka_broker.server.channel import FrameReader
from pykafka_broker.server.connection import Connection, Serving

if TYPE_CHECKING:
    from pykafka_broker.broker.broker import Broker


class ControllerServing:
    """The server, for connections to a controller's listener."""

    def __init__(self, server: Serving) -> None:
        self._server = server
        self.turns = server.turns
        self.request_memory = server.request_memory
        self.nobody_yields = server.nobody_yields
        self.router = ControllerRouter(server.broker.services)

    def serve(self, broker: Broker) -> None:
        """Dispatch requests to another broker from now on."""
        self.router.serve(broker.services)

    @property
    def broker(self) -> Broker:
        return self._server.broker

    @property
    def purgatory(self) -> Purgatory:
        return self._server.purgatory

    @property
    def stopping(self) -> bool:
        return self._server.stopping

    def frame_reader(self, stall: Callable[[], None]) -> FrameReader:
        return self._server.frame_reader(stall)

    def forget(self, connection: Connection, why: str) -> None:
        self._server.forget(connection, why)
