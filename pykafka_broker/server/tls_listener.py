"""TLS on one listener: its contexts, the handshakes under way, and the connections of clients that have shaken hands.

Rule: the context and the mapping rules are made when the listener is bound, so that a mistake in them is told then.
When settings of this broker have been altered, the stores are read again for the next client, even if the files have
the same names; where the new ones can't be used the old ones stay in force and the log says so. Connections keep the
context that they began with.

A handshake step may cost milliseconds, so a turn spends a bounded time on handshakes. A client that has not shaken
hands in time is disconnected: thousands of such clients cost their sockets only, and not for long. Before its first
request a client has the name of its certificate, or the name for clients without one.

Imported by the first listener with TLS.
"""

from __future__ import annotations

import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType

from pykafka_broker.broker.requests.context import ANONYMOUS, ConnectionContext
from pykafka_broker.broker.waiting.future import Parked
from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.config.values import invalid
from pykafka_broker.errors import FrameError
from pykafka_broker.platform import HAS_CPU_TIMER
from pykafka_broker.security.hooks.loading import HookFailed
from pykafka_broker.security.hooks.login import BuiltPrincipals, Identity
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.principal_mapping import MappingRules, Principals
from pykafka_broker.security.tls.contexts import server_context
from pykafka_broker.security.tls.stores import check_replacement, refused
from pykafka_broker.server.connection import ClientConnection, Serving
from pykafka_broker.server.event_loop import nanoseconds
from pykafka_broker.server.tls_transport import TlsTransport
from pykafka_broker.server.transport import Transport

log = logging.getLogger(__name__)

TIMEOUT_MS = 30_000
_CLOSED_AT_ONCE = 500
_SCRATCH_BYTES = 64 << 10  # a connection keeps as much memory as its largest read
_NANOSECONDS_A_TURN = 2_000_000  # the last step may exceed it
_MOST_SECONDS_OF_RULES = 0.05
_RULES = "ssl.principal.mapping.rules"


class TooLong(Exception):
    """The CPU time is used up."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise TooLong in the body when the CPU time is used up.

    Only CPU time counts, so that a loaded machine changes nothing. There is no limit on Windows, or outside of the main
    thread, which a broker runs in.
    """
    if sys.platform == "win32" or not HAS_CPU_TIMER or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _over(number: int, frame: FrameType | None) -> None:
    raise TooLong


class TlsConnection(ClientConnection):
    """A client's connection to a listener with TLS and without SASL.

    principal_of: returns the principal for a certificate in DER (None without one) and a host; raises FrameError.
    """

    __slots__ = ("_principal_of",)

    def __init__(
        self,
        server: Serving,
        transport: TlsTransport,
        context: ConnectionContext,
        principal_of: Callable[[bytes | None, str], str],
    ) -> None:
        self._principal_of = principal_of
        transport.on_established = self._established
        super().__init__(server, transport, context)

    def _established(self, tls: ssl.SSLObject) -> None:
        certificate = tls.getpeercert(binary_form=True)
        self.context.principal = self._principal_of(certificate, self.context.client_host)


class Handshakes:
    """The `HandshakePace` of a listener's transports."""

    def __init__(self, server: Serving, listener: str) -> None:
        self._server = server
        self._listener = listener
        self._spent = 0  # nanoseconds in this turn
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._unfinished: dict[TlsTransport, int] = {}  # with their deadlines, the earliest first
        self._watched = False

    def __len__(self) -> int:
        return len(self._unfinished)

    def step(self, do: Callable[[], None]) -> None:
        """Do a further step. Raises BlockingIOError when this turn has spent its time."""
        if self._spent >= _NANOSECONDS_A_TURN:
            raise BlockingIOError
        if not self._spent:
            self._server.turns.call_soon(self._next_turn)
        begun = nanoseconds()
        try:
            do()
        finally:
            self._spent += max(1, nanoseconds() - begun)

    def _next_turn(self) -> None:
        self._spent = 0

    def begin(self, transport: TlsTransport) -> None:
        """Watch a new handshake."""
        deadline = self._server.turns.clock.now + TIMEOUT_MS
        self._unfinished[transport] = deadline
        self._watch(deadline)

    def end(self, transport: TlsTransport) -> None:
        """Forget a finished or abandoned handshake."""
        self._unfinished.pop(transport, None)

    def _watch(self, deadline: int) -> None:
        if not self._watched:
            self._watched = True
            self._server.purgatory.park(Parked(deadline, expire=self._look))

    def _look(self, now: int) -> bool:
        """Close late connections: at the deadline, or before it when another broker takes this one's place."""
        self._watched = False
        late: list[TlsTransport] = []
        for transport, deadline in self._unfinished.items():
            if deadline > now or len(late) == _CLOSED_AT_ONCE:
                self._watch(max(deadline, now + 1))  # the rest in another turn
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


class TlsListener:
    """TLS on a listener. Raises ConfigError if stores or rules can't be used."""

    def __init__(self, name: str, server: Serving) -> None:
        self.name = name
        self._server = server
        self._handshakes = Handshakes(server, name)
        self._seen = server.broker.config
        self._settings = _TlsSettings(ListenerSettings(self._seen, name))

    def new_transport(self, sock: socket.socket) -> TlsTransport:
        if self._server.broker.config is not self._seen:
            self._follow(self._server.broker.config)
        return TlsTransport(sock, self._settings.context, self._handshakes)

    def _follow(self, config: BrokerConfig) -> None:
        self._seen = config
        try:
            self._settings = _TlsSettings(ListenerSettings(config, self.name))
        except ConfigError as error:
            log.warning("listener %s keeps the key and the certificates that it had: %s", self.name, error)

    def check(self, config: BrokerConfig, changed: Collection[str]) -> None:
        """Check whether settings may come into force; `changed` has the changed names. Raises ConfigError."""
        if not any(name.startswith(f"listener.name.{self.name.lower()}.ssl.") for name in changed):
            return
        settings = ListenerSettings(config, self.name)
        try:
            check_replacement(self._settings.store, _TlsSettings(settings).store, settings)
        except ConfigError as error:
            raise refused(error) from None

    def new_connection(self, server: Serving, transport: Transport, context: ConnectionContext) -> ClientConnection:
        """Return the connection of a client named by the certificate."""
        assert isinstance(transport, TlsTransport)
        return TlsConnection(server, transport, context, self._principal_of)

    def _principal_of(self, certificate: bytes | None, host: str) -> str:
        try:
            name = ANONYMOUS if certificate is None else self._settings.principals.of(certificate)
            return self._settings.built.principal_of(Identity(name, self.name, host, certificate=certificate))
        except (ValueError, HookFailed) as error:
            raise FrameError(str(error)) from None


class _TlsSettings:
    """A listener's settings, as the objects that follow them. Raises ConfigError."""

    def __init__(self, settings: ListenerSettings) -> None:
        self.context, self.store = server_context(settings)
        self.principals = Principals(_rules_of(settings), _guarded)
        self.built = BuiltPrincipals(settings)


def _rules_of(settings: ListenerSettings) -> MappingRules:
    text = settings.get("ssl.principal.mapping.rules")
    try:
        return MappingRules(text)
    except ValueError as error:
        found = settings.text(_RULES)
        raise invalid(_RULES if found is None else found[0], text, f"listener {settings.name}: {error}") from None


def _guarded(user: Callable[[str], str], name: str) -> str:
    try:
        with cpu_limit(_MOST_SECONDS_OF_RULES):
            return user(name)
    except TooLong:
        raise ValueError(f"the expressions of {_RULES} take too long for {name}") from None
