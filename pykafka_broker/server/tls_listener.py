"""TLS on one listener: what the connections to come begin with.

Rule: the context and the rules are made when the listener is bound, so that what is wrong with them is told then. When
settings of this broker have been altered, the stores are read again for the next client, also if they are the same
files as before; where they can't be used it stays as it was and says so. Connections keep what they began with.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection

from pykafka_broker.broker.context import ANONYMOUS, ConnectionContext
from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.config.values import invalid
from pykafka_broker.errors import FrameError
from pykafka_broker.security.hooks.loading import HookFailed
from pykafka_broker.security.hooks.login import BuiltPrincipals, Identity
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.contexts import server_context
from pykafka_broker.security.tls.mapping_rules import MappingRules
from pykafka_broker.security.tls.principals import Principals
from pykafka_broker.security.tls.replacing import check_replacement, refused
from pykafka_broker.server.connection import Connection, Serving
from pykafka_broker.server.cpu_limit import TooLong, cpu_limit
from pykafka_broker.server.handshakes import Handshakes
from pykafka_broker.server.tls_connection import TlsConnection
from pykafka_broker.server.tls_transport import TlsTransport
from pykafka_broker.server.transport import Transport

log = logging.getLogger(__name__)

_MOST_SECONDS_OF_RULES = 0.05
_RULES = "ssl.principal.mapping.rules"


class TlsListener:
    """Raises ConfigError if its stores or rules can't be used."""

    def __init__(self, name: str, server: Serving) -> None:
        self.name = name
        self._server = server
        self._handshakes = Handshakes(server, name)
        self._seen = server.broker.config
        self._made = _Made(ListenerSettings(self._seen, name))

    def new_transport(self, sock: socket.socket) -> TlsTransport:
        """For a client that has come."""
        if self._server.broker.config is not self._seen:
            self._follow(self._server.broker.config)
        return TlsTransport(sock, self._made.context, self._handshakes)

    def _follow(self, config: BrokerConfig) -> None:
        self._seen = config
        try:
            self._made = _Made(ListenerSettings(config, self.name))
        except ConfigError as error:
            log.warning("listener %s keeps the key and the certificates that it had: %s", self.name, error)

    def check(self, config: BrokerConfig, changed: Collection[str]) -> None:
        """Whether these settings may come into force, of which those names are changed. Raises ConfigError."""
        if not any(name.startswith(f"listener.name.{self.name.lower()}.ssl.") for name in changed):
            return
        settings = ListenerSettings(config, self.name)
        try:
            check_replacement(self._made.store, _Made(settings).store, settings)
        except ConfigError as error:
            raise refused(error) from None

    def new_connection(self, server: Serving, transport: Transport, context: ConnectionContext) -> Connection:
        """For a client that needs to say no more than what its certificate says."""
        assert isinstance(transport, TlsTransport)
        return TlsConnection(server, transport, context, self._principal_of)

    def _principal_of(self, certificate: bytes | None, host: str) -> str:
        try:
            name = ANONYMOUS if certificate is None else self._made.principals.of(certificate)
            return self._made.built.principal_of(Identity(name, self.name, host, certificate=certificate))
        except (ValueError, HookFailed) as error:
            raise FrameError(str(error)) from None


class _Made:
    """What follows from settings. Raises ConfigError."""

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
