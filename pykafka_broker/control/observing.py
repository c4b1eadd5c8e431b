"""The traffic of this broker's clients: where it is watched and disturbed.

Rule: nothing of this is there before the control API opens. A request from inside goes past it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.broker.purgatory import Parked
from pykafka_broker.broker.waiting import Future
from pykafka_broker.control.observed_router import ObservedRouter
from pykafka_broker.control.traffic.counts import RequestCounts
from pykafka_broker.control.traffic.faults import Faults
from pykafka_broker.control.traffic.mentions import Known
from pykafka_broker.control.traffic.request_log import RequestLog
from pykafka_broker.control.traffic.rule import Action, Rule
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.server.connection import Dispatching
from pykafka_broker.server.server import Server

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: what is closed is reset


class BrokerKnows:
    """What a message alone does not say, asked of the broker that the server has now."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._server.broker.services.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def fetched(self, session_id: int) -> Iterable[tuple[Any, int]]:
        return self._server.broker.services.fetch_sessions.partitions(session_id)


class Observing:
    """The log, the faults, and what they do to the server. `router` is the one past which nothing is observed."""

    router: Dispatching

    def __init__(self, server: Server, known: Known) -> None:
        self._server = server
        self.known = known
        self.log = RequestLog()
        self.faults = Faults(known)
        self.faults.on_added = self._meet_who_waits
        self.follow()
        server.admit = self._admit

    @cached_property
    def counts(self) -> RequestCounts:
        """Sums of what clients have asked; counted from the first time that somebody wants them."""
        return RequestCounts(self.log, self.known)

    def follow(self) -> None:
        """Observe the router that the server has now: with another broker it gets another one."""
        server = self._server
        if not isinstance(server.router, ObservedRouter):
            self.router = server.router
            server.router = ObservedRouter(self.router.dispatch, server.turns.clock, self.log, self.faults, self)

    # -- what stands around the router

    def cut(self, connection: int, half: bytes) -> None:
        found = self._server.connection(connection)
        if found is not None:
            found.send([half])
            found.close("a fault cuts an answer in two")

    def send(self, connection: int, answer: Pieces) -> None:
        found = self._server.connection(connection)
        if found is not None:
            found.send(answer)

    def later(self, action: Action, step: Callable[[], None]) -> None:
        turns = self._server.turns
        if action.delay_clock == "wall":
            turns.loop.call_later(action.delay_ms / 1000, turns.run, step)
            return

        def due(now: int) -> bool:
            step()
            return True

        self._server.purgatory.park(Parked(turns.clock.now + action.delay_ms, expire=due))

    def cancel(self, future: Future[Any]) -> None:
        self._server.purgatory.cancel(future)

    def _meet_who_waits(self, rule: Rule) -> None:
        """A fetch that waits was let in before the fault was there: its client comes again and meets it."""
        if rule.action.on_request:
            for connection in list(self._server.connections):
                connection.hurry()

    def _admit(self, sock: socket.socket, context: ConnectionContext) -> bool:
        rule = self.faults.on_connect(context.id, context.listener)
        if rule is None:
            return True
        if rule.action.connect == "hang":
            rule.held[id(sock)] = lambda: self._server.serve(sock, context)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._server.turn_away(sock, context)
        return False
