"""A client's connection to a listener where the client gets a name before the first request is served.

With SASL the client authenticates: until then the exchange (`security/sasl/exchange.py`) decides about every frame;
afterwards the connection is like any other. A refusal is kept back for `connection.failed.authentication.delay.ms`, in
which nothing more is read and no other client waits; then the connection ends. Each failure is one line in the log,
without the client's bytes.

With neither TLS nor SASL the class of `principal.builder.class` gives the name; a client that the class refuses is
disconnected.

Apart from `connection.py`, since no other listener should wait for the import: the first listener of one of the two
kinds imports the module.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from struct import Struct

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import Parked
from pykafka_broker.cluster.controller import CheckListener
from pykafka_broker.config import ConfigError, UnusableError
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.runtime import Pieces
from pykafka_broker.security.hooks.loading import HookFailed
from pykafka_broker.security.hooks.login import BuiltPrincipals, Identity
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.exchange import SaslExchange, SaslListener
from pykafka_broker.security.sasl.mechanism import Around
from pykafka_broker.server.connection import ClientConnection, Serving
from pykafka_broker.server.documents import Documents
from pykafka_broker.server.transport import Transport

log = logging.getLogger(__name__)

_API_KEY = Struct(">h")
_LENGTH = Struct(">i")
_HANDSHAKE = ApiKey.SASL_HANDSHAKE.value
_NOT_YET = -1  # earlier than any time


# -- names by SASL


class SaslConnection(ClientConnection):
    """A connection serving the client once the client has authenticated."""

    __slots__ = ("_exchange", "_listener", "_max_request_bytes", "_served_until")

    def __init__(
        self, server: Serving, transport: Transport, context: ConnectionContext, listener: SaslListener
    ) -> None:
        self._listener = listener
        self._exchange = context.login = SaslExchange(listener, context)
        self._served_until = _NOT_YET  # until this time frames are plain requests
        super().__init__(server, transport, context)
        self._max_request_bytes = self._reader.max_bytes
        self._follow_exchange()

    def _follow_exchange(self) -> None:
        """Set how large frames may be and how they are served, after a step of the exchange."""
        expires_at = self._exchange.expires_at
        self._reader.is_known = self.context.authenticated
        if not self.context.authenticated:
            self._reader.max_bytes = self._listener.max_receive_bytes
            self._served_until = _NOT_YET
            return
        self._reader.max_bytes = self._max_request_bytes
        if expires_at is None:
            self.__class__ = _Unlimited
        else:
            self._served_until = expires_at

    def _deliver(self, frame: memoryview) -> bool:
        # The quick way for plain requests. The second byte is the lower half of the API key: a re-authentication begins
        # with SaslHandshake, and other APIs with the same byte are as well served below.
        if self._turns.clock.now <= self._served_until and len(frame) > 1 and frame[1] != _HANDSHAKE:
            return ClientConnection._deliver(self, frame)
        exchange = self._exchange
        api_key = _API_KEY.unpack_from(frame)[0] if len(frame) >= _API_KEY.size else -1
        if self.context.authenticated:
            if exchange.session_over(api_key):
                self.close("its session has expired")
                return False
            more = ClientConnection._deliver(self, frame)
            self._follow_exchange()  # a re-authentication may have begun
            return more
        if exchange.takes_raw_tokens or exchange.begins_with_token(api_key):
            token = exchange.raw_token(bytes(frame))
            return self._answered(None if token is None else [_LENGTH.pack(len(token)), token])
        result = self._server.router.dispatch(self.context, frame)
        return self._park(result) if isinstance(result, PendingReply) else self._answered(result)

    def _answered(self, pieces: Pieces | None) -> bool:
        """Send an answer of the exchange, or keep a refusal back. Returns whether the next frame may come."""
        self._follow_exchange()
        if self._exchange.over:
            return self._keep_back(pieces)
        if pieces is not None:
            self.send(pieces)
        return not (self._out or self.holds or self.closed)

    def _keep_back(self, pieces: Pieces | None) -> bool:
        """Send the refusal after the delay, as the answer of a parked request."""
        self._log_failure(self._exchange.over)
        late = Parked(self._turns.clock.now + self._listener.failure_delay_ms, expire=lambda now: pieces)
        self._server.purgatory.park(late)
        return self._park(_Late(late))

    def _on_reply(self, _: object) -> None:
        if self._exchange.over and not isinstance(self._parked, _Late):
            self._refused_late()
            return
        ClientConnection._on_reply(self, _)
        if self._served_until == _NOT_YET:  # an injected fault may have delayed the answer to a step of the exchange
            self._follow_exchange()
            self.go_on()

    def _refused_late(self) -> None:
        """Keep back the refusal of a step that was parked itself, since it took long."""
        pending, self._parked = self._parked, None
        if pending is None or self.closed:
            return
        try:
            pieces = pending.pieces()
        except FrameError as error:
            self.refuse(error)
        else:
            self._keep_back(pieces)

    def go_on(self) -> None:
        if self._exchange.over and self._parked is None and not self._out:
            self.close("it has not authenticated")
        else:
            ClientConnection.go_on(self)

    def refuse(self, error: FrameError) -> None:
        if self.context.authenticated:
            ClientConnection.refuse(self, error)
        else:
            self._log_failure(str(error))
            self.close(str(error))

    def _lost(self, why: str) -> None:
        ClientConnection._lost(self, why)
        self.context.login = None  # breaks the reference cycle; the context may live on

    def _log_failure(self, reason: str) -> None:
        """Log a failed login in Kafka's words; unprintable letters of the client can't break the line."""
        context = self.context
        what = "re-authentication" if self._exchange.has_authenticated else "authentication"
        channel = f"{context.local_host}:{context.local_port}-{self.peer}-{context.id}"
        shown = "".join(letter if letter.isprintable() else "?" for letter in reason)
        log.info("Failed %s with /%s (channelId=%s) (%s)", what, context.client_host, channel, shown)


class _Unlimited(SaslConnection):
    """The same connection once no frame concerns the exchange any more, served as on a listener without SASL."""

    __slots__ = ()
    _deliver = ClientConnection._deliver
    _on_reply = ClientConnection._on_reply
    go_on = ClientConnection.go_on
    refuse = ClientConnection.refuse


class _Late(PendingReply):
    """A refusal kept back; the result of its future is the pieces to send."""

    __slots__ = ()

    def __init__(self, parked: Parked) -> None:
        self.future = parked

    def pieces(self) -> Pieces:
        pieces: Pieces = self.future.result()
        return pieces


def sasl_connections(
    name: str, server: Serving
) -> tuple[Callable[[Serving, Transport, ConnectionContext], SaslConnection], CheckListener]:
    """Return a maker of connections for the listener `name`, and the check of its settings when they are altered.

    Raises UnusableError if a mechanism of the listener can't be used.
    """
    turns = server.turns
    around = Around(
        lambda: server.broker.services.image,
        turns.clock,
        lambda: secrets.token_urlsafe(24),
        Documents(turns).document,
    )
    try:
        listener = SaslListener(name, lambda: server.broker.config, around)
    except ConfigError as error:
        told = str(error)
        raise UnusableError(told if f"listener {name}" in told else f"listener {name}: {told}") from None
    return lambda serving, transport, context: SaslConnection(serving, transport, context, listener), listener.check


# -- names by a class


class NamedConnections:
    """Connections of a listener. Raises ConfigError if the class can't be used."""

    def __init__(self, listener: str, server: Serving) -> None:
        self._listener = listener
        self._built = BuiltPrincipals(ListenerSettings(server.broker.config, listener))

    def new_connection(self, server: Serving, transport: Transport, context: ConnectionContext) -> ClientConnection:
        return NamedConnection(server, transport, context, self)

    def name(self, context: ConnectionContext) -> None:
        """Give the client the name. Raises FrameError."""
        try:
            context.principal = self._built.principal_of(
                Identity(context.principal, self._listener, context.client_host)
            )
        except HookFailed as error:
            raise FrameError(str(error)) from None


class NamedConnection(ClientConnection):
    """A connection with a name for the client before the first request."""

    __slots__ = ("_unnamed",)

    def __init__(
        self, server: Serving, transport: Transport, context: ConnectionContext, connections: NamedConnections
    ) -> None:
        self._unnamed: NamedConnections | None = connections
        super().__init__(server, transport, context)

    def _deliver(self, frame: memoryview) -> bool:
        if self._unnamed is not None:
            self._unnamed.name(self.context)
            self._unnamed = None
        return super()._deliver(frame)
