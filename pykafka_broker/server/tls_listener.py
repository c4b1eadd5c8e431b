"""TLS on one listener: what the connections to come begin with.

Rule: the context and the rules are made when the listener is bound, so that what is wrong with them is told then.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.values import invalid
from pykafka_broker.errors import FrameError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.contexts import server_context
from pykafka_broker.security.tls.mapping_rules import MappingRules
from pykafka_broker.security.tls.principals import Principals
from pykafka_broker.server.connection import Connection, Serving
from pykafka_broker.server.cpu_limit import TooLong, cpu_limit
from pykafka_broker.server.handshakes import Handshakes
from pykafka_broker.server.tls_connection import TlsConnection
from pykafka_broker.server.tls_transport import TlsTransport
from pykafka_broker.server.transport import Transport

_MOST_SECONDS_OF_RULES = 0.05
_RULES = "ssl.principal.mapping.rules"


class TlsListener:
    """Raises ConfigError if its stores or rules can't be used."""

    def __init__(self, name: str, config: BrokerConfig, server: Serving) -> None:
        settings = ListenerSettings(config, name)
        self._handshakes = Handshakes(server, name)
        self._context = server_context(settings)
        self._principals = Principals(_rules_of(settings), _guarded)

    def new_transport(self, sock: socket.socket) -> TlsTransport:
        """For a client that has come."""
        return TlsTransport(sock, self._context, self._handshakes)

    def new_connection(self, server: Serving, transport: Transport, context: ConnectionContext) -> Connection:
        """For a client that needs to say no more than what its certificate says."""
        assert isinstance(transport, TlsTransport)
        return TlsConnection(server, transport, context, self._principal_of)

    def _principal_of(self, certificate: bytes) -> str:
        try:
            return self._principals.of(certificate)
        except ValueError as error:
            raise FrameError(str(error)) from None


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
