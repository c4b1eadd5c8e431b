"""The handshakes of one listener that are under way.

Rule: a step of one may cost two milliseconds, so a turn does only a few; and who has not shaken hands in time is
disconnected, so that thousands who never will cost no more than their sockets, and not for long.
"""

from __future__ import annotations

import logging

from pykafka_broker.broker.purgatory import Parked
from pykafka_broker.server.connection import Serving
from pykafka_broker.server.tls_transport import TlsTransport

log = logging.getLogger(__name__)

TIMEOUT_MS = 30_000
_STEPS_A_TURN = 4


class Handshakes:
    """The `Pace` of a listener's transports."""

    def __init__(self, server: Serving, listener: str) -> None:
        self._server = server
        self._listener = listener
        self._left = _STEPS_A_TURN
        self._unfinished: dict[TlsTransport, int] = {}  # and until when, the earliest first
        self._watched = False

    def __len__(self) -> int:
        return len(self._unfinished)

    def may_step(self) -> bool:
        """Whether this turn has time for one more step."""
        if not self._left:
            return False
        if self._left == _STEPS_A_TURN:
            self._server.turns.soon(self._next_turn)
        self._left -= 1
        return True

    def _next_turn(self) -> None:
        self._left = _STEPS_A_TURN

    def begin(self, transport: TlsTransport) -> None:
        """There is one more."""
        deadline = self._server.turns.clock.now + TIMEOUT_MS
        self._unfinished[transport] = deadline
        self._watch(deadline)

    def end(self, transport: TlsTransport) -> None:
        """It is done, or its client has gone."""
        self._unfinished.pop(transport, None)

    def _watch(self, deadline: int) -> None:
        if not self._watched:
            self._watched = True
            self._server.purgatory.park(Parked(deadline, expire=self._look))

    def _look(self, now: int) -> bool:
        """Give up those whose time is over. A broker that gives its place to another one asks before its time."""
        self._watched = False
        late = []
        for transport, deadline in self._unfinished.items():
            if deadline > now:
                self._watch(deadline)
                break
            late.append(transport)
        for transport in late:
            self.end(transport)
            transport.give_up()
        if late:
            log.info(
                "listener %s: closed %d connections without a TLS handshake after %d ms",
                self._listener,
                len(late),
                TIMEOUT_MS,
            )
        return True
