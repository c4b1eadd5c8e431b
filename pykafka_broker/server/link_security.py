"""How links to one listener of other nodes are secured: TLS from the client's side, and a login by SASL.

Rule: the security protocol of a listener's name is the same on all nodes (`listener.security.protocol.map`). This
node's settings of that listener count: they are read when the first link to the listener is opened, and a mistake in
them is told there. A login that has to wait for a token or a ticket does so in a thread, and the link's time for its
setup goes on. Nothing may be sent before `on_established`.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial

from pykafka_broker.config import BrokerConfig
from pykafka_broker.errors import FrameError, NotLetIn
from pykafka_broker.peers import Versions
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from pykafka_broker.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from pykafka_broker.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from pykafka_broker.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.login import Login, LoginFailed, NewLogin, login_of
from pykafka_broker.security.tls.contexts import client_context
from pykafka_broker.server.documents import fetched
from pykafka_broker.server.event_loop import EventLoop
from pykafka_broker.server.listeners import security_protocol_of
from pykafka_broker.server.tls_transport import TlsTransport
from pykafka_broker.server.transport import PlainTransport, Transport

_SCRATCH_BYTES = 64 << 10


class Unhurried:
    """The `HandshakePace` of links: few exist, and each was asked for, so nothing is delayed."""

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))

    def begin(self, transport: TlsTransport) -> None: ...

    def end(self, transport: TlsTransport) -> None: ...

    def step(self, do: Callable[[], None]) -> None:
        do()


class TlsClientTransport(TlsTransport):
    """TLS from the client's side, on a socket connected to `host`."""

    __slots__ = ()

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, pace: Unhurried, host: str) -> None:
        super().__init__(sock, context, pace)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=False, server_hostname=host)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self._flush_soon()


log = logging.getLogger(__name__)

Asked = tuple[Message, int]  # a request, and its version
Then = Callable[[Asked | FrameError | None], None]

_HANDSHAKE_VERSION = 1  # from this version on tokens travel in requests
_RENEWED_AT = 0.8  # of a session, before the peer ends it (KIP-368)


class LinkLogin:
    """A login over a connection: requests out, answers in."""

    def __init__(self, mechanism: str, login: Login) -> None:
        self._mechanism = mechanism
        self._login = login
        self._waits = False  # a thread computes the next step
        self.renew_after_ms: int | None = None  # known at the end

    def first(self) -> Asked:
        """Return the first request, and the version."""
        return SaslHandshakeRequest(self._mechanism), _HANDSHAKE_VERSION

    def go_on(self, answer: Message, versions: Versions, turns: EventLoop, then: Then) -> None:
        """Call `then` with the request following from an answer.

        The call comes at once, or in a later turn where the step has to wait. Raises FrameError.
        """
        if not self._login.waits:
            then(self._next(answer, versions))
            return
        if self._waits:
            raise FrameError("an answer of the peer before it was asked")
        self._waits = True
        args = (answer, versions, turns, then)
        threading.Thread(target=self._go_on_beside, args=args, daemon=True, name="login").start()

    def _go_on_beside(self, answer: Message, versions: Versions, turns: EventLoop, then: Then) -> None:
        try:
            following: Asked | FrameError | None = self._next(answer, versions)
        except FrameError as error:
            following = error
        except Exception:
            log.exception("a defect in a login by %s", self._mechanism)
            following = FrameError(f"the login of this node by {self._mechanism} has met a defect")
        try:
            turns.loop.call_soon_threadsafe(turns.run, partial(self._has_waited, following, then))
        except RuntimeError:
            log.debug("the loop has ended before a login")

    def _has_waited(self, following: Asked | FrameError | None, then: Then) -> None:
        self._waits = False
        then(following)

    def _next(self, answer: Message, versions: Versions) -> Asked | None:
        """Return the next request, or None when the peer has accepted the login."""
        if isinstance(answer, SaslHandshakeResponse):
            if answer.error_code:
                known = ", ".join(answer.mechanisms) or "no login at all"
                raise NotLetIn(f"the peer does not take {self._mechanism}, but {known}")
            return self._token(b"", versions)
        assert isinstance(answer, SaslAuthenticateResponse)
        if answer.error_code:
            reason = answer.error_message or ErrorCode(answer.error_code).name
            raise NotLetIn(f"the peer refuses the login of this node: {reason}", reason)
        if answer.session_lifetime_ms > 0:
            self.renew_after_ms = int(answer.session_lifetime_ms * _RENEWED_AT)
        return self._token(answer.auth_bytes, versions)

    def _token(self, challenge: bytes, versions: Versions) -> Asked | None:
        try:
            token = self._login.step(challenge)
        except LoginFailed as error:
            raise FrameError(str(error)) from None
        if token is None:
            return None
        newest = SaslAuthenticateRequest.MAX_VERSION
        return SaslAuthenticateRequest(token), min(newest, versions[1])


class LinkSecurity:
    """TLS and login of links. Raises ConfigError."""

    def __init__(self, settings: ListenerSettings, protocol: str, mechanism: str) -> None:
        self._context = client_context(settings) if protocol.endswith("SSL") else None
        self._pace = Unhurried()
        self._mechanism = mechanism
        self._new_login: NewLogin | None = None
        if protocol.startswith("SASL_"):
            self._new_login = login_of(settings, mechanism, lambda: secrets.token_urlsafe(18), fetched)

    def transport(self, sock: socket.socket, host: str) -> Transport:
        """Return the transport for a socket connected to `host`."""
        if self._context is None:
            return PlainTransport(sock)
        return TlsClientTransport(sock, self._context, self._pace, host)

    def begin(self, wall: int, host: str) -> LinkLogin | None:
        """Return the login at the beginning of a connection to `host`, or None."""
        return None if self._new_login is None else LinkLogin(self._mechanism, self._new_login(wall, host))


def security_at(config: BrokerConfig, name: str) -> LinkSecurity:
    """Return the security of links to the listener `name` of other nodes. Raises ConfigError."""
    controllers = [each.upper() for each in config.controller_listener_names or ()]
    to_brokers: str = config["sasl.mechanism.inter.broker.protocol"]
    mechanism = config["sasl.mechanism.controller.protocol"] if name in controllers else to_brokers
    return LinkSecurity(ListenerSettings(config, name), security_protocol_of(config, name), mechanism)
