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
from pykafka_broker.config import BrokerConfig
from pykafka_broker.server.connection import Connection, Serving
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.transport import PlainTransport, Transport

NewTransport = Callable[[socket.socket], Transport]
NewConnection = Callable[[Serving, Transport, ConnectionContext], Connection]


class Door(NamedTuple):
    """What stands between a socket and a request, and who serves the requests."""

    new_transport: NewTransport
    new_connection: NewConnection

    def open(self, server: Serving, sock: socket.socket, context: ConnectionContext) -> Connection:
        """A client has come."""
        return self.new_connection(server, self.new_transport(sock), context)


def door_of(listener: Listener, config: BrokerConfig, server: Serving) -> Door:
    """Raises ConfigError if its certificates or mechanisms can't be used."""
    return Door(_transport_of(listener, config, server), _connection_of(listener, server))


def _transport_of(listener: Listener, config: BrokerConfig, server: Serving) -> NewTransport:
    if not listener.has_tls:
        return PlainTransport
    from pykafka_broker.server.tls_listener import TlsListener

    return TlsListener(listener, config, server.turns).new_transport


def _connection_of(listener: Listener, server: Serving) -> NewConnection:
    if not listener.has_sasl:
        return Connection
    from pykafka_broker.server.sasl_connection import sasl_connections

    return sasl_connections(listener.name, server)
