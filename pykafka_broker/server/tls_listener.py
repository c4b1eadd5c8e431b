"""TLS on one listener: what the connections to come begin with.

Rule: the context is made when the listener is bound, and replaced as a whole.
"""

from __future__ import annotations

import socket

from pykafka_broker.config import BrokerConfig
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.tls.contexts import server_context
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.tls_transport import Handshakes, TlsTransport
from pykafka_broker.server.turns import Turns


class TlsListener:
    """Raises ConfigError if its store can't be used."""

    def __init__(self, listener: Listener, config: BrokerConfig, turns: Turns) -> None:
        self._name = listener.name
        self._handshakes = Handshakes(turns)
        self._context = server_context(ListenerSettings(config, listener.name))

    def new_transport(self, sock: socket.socket) -> TlsTransport:
        """For a client that has come."""
        return TlsTransport(sock, self._context, self._handshakes)
