"""How a connection begins, by the security protocol of its listener.

Rule: a door is made when its listener is bound, so that what is wrong with a certificate or a password is told before
the first client comes; on a plain listener a connection is what it would be if there were no others. What TLS and SASL
need is imported by the first listener that has them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NamedTuple

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.cluster.controller import CheckListener
from pykafka_broker.config import BrokerConfig
from pykafka_broker.server.connection import Connection, Serving
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.transport import PlainTransport, Transport

_BUILDER = "principal.builder.class"
NewTransport = Callable[[socket.socket], Transport]
NewConnection = Callable[[Serving, Transport, ConnectionContext], Connection]


class Door(NamedTuple):
    """What stands between a socket and a request, and who serves the requests."""

    server: Serving
    new_transport: NewTransport
    new_connection: NewConnection
    checks: tuple[CheckListener, ...] = ()  # of what is altered while it serves

    def open(self, sock: socket.socket, context: ConnectionContext) -> Connection:
        """A client has come."""
        return self.new_connection(self.server, self.new_transport(sock), context)


def door_of(listener: Listener, server: Serving) -> Door:
    """Raises ConfigError if its certificates or mechanisms can't be used."""
    new_transport: NewTransport = PlainTransport
    new_connection: NewConnection = Connection
    checks: tuple[CheckListener, ...] = ()
    if listener.has_tls:
        from pykafka_broker.server.tls_listener import TlsListener

        tls = TlsListener(listener.name, server)
        new_transport, new_connection, checks = tls.new_transport, tls.new_connection, (tls.check,)
    if listener.has_sasl:  # then the name counts by which it logs in
        from pykafka_broker.server.sasl_connection import sasl_connections

        new_connection, check = sasl_connections(listener.name, server)
        checks = (*checks, check)
    elif not listener.has_tls and _has_builder(listener, server.broker.config):
        from pykafka_broker.server.named_connection import NamedConnections

        new_connection = NamedConnections(listener.name, server).new_connection
    return Door(server, new_transport, new_connection, checks)


def _has_builder(listener: Listener, config: BrokerConfig) -> bool:
    """Whether a class gives clients their names that have not said who they are."""
    return _BUILDER in config.static or f"listener.name.{listener.name.lower()}.{_BUILDER}" in config.extras
