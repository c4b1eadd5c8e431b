"""The handshakes of one listener that are under way.

Rule: a step of one may cost milliseconds, so a turn spends only so much on them; and who has not shaken hands in time
is disconnected, so that thousands who never will cost no more than their sockets, and not for long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykafka_broker.broker.purgatory import Parked
from pykafka_broker.server.connection import Serving
from pykafka_broker.server.system_clock import nanoseconds
from pykafka_broker.server.tls_transport import TlsTransport

log = logging.getLogger(__name__)

TIMEOUT_MS = 30_000
_SCRATCH_BYTES = 64 << 10  # a connection keeps as much memory as it has once received
_NANOSECONDS_A_TURN = 2_000_000  # the last step may exceed it


class Handshakes:
    """The `Pace` of a listener's transports."""

    def __init__(self, server: Serving, listener: str) -> None:
        self._server = server
        self._listener = listener
        self._spent = 0  # in this turn, in nanoseconds
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._unfinished: dict[TlsTransport, int] = {}  # and until when, the earliest first
        self._watched = False

    def __len__(self) -> int:
        return len(self._unfinished)

    def step(self, do: Callable[[], None]) -> None:
        """Do one more, unless this turn has done enough: then BlockingIOError."""
        if self._spent >= _NANOSECONDS_A_TURN:
            raise BlockingIOError
        if not self._spent:
            self._server.turns.soon(self._next_turn)
        begun = nanoseconds()
        try:
            do()
        finally:
            self._spent += max(1, nanoseconds() - begun)

    def _next_turn(self) -> None:
        self._spent = 0

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
