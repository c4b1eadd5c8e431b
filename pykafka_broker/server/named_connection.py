"""Connections to a listener with neither TLS nor SASL, where `principal.builder.class` names the clients.

Rule: before its first request is served the client gets its name from the class; a client that the class refuses is
disconnected. Imported by the first listener that has such a class.
"""

from __future__ import annotations

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.errors import FrameError
from pykafka_broker.security.hooks.loading import HookFailed
from pykafka_broker.security.hooks.login import BuiltPrincipals, Identity
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.server.connection import ClientConnection, Serving
from pykafka_broker.server.transport import Transport


class NamedConnections:
    """Connections of a listener.

    Raises ConfigError if the class can't be used.
    """

    def __init__(self, listener: str, server: Serving) -> None:
        self._listener = listener
        self._built = BuiltPrincipals(ListenerSettings(server.broker.config, listener))

    def new_connection(self, server: Serving, transport: Transport, context: ConnectionContext) -> ClientConnection:
        """Return the connection of a new client."""
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
