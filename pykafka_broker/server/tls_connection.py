"""A client's connection to a listener with TLS and without SASL.

Rule: before its first request the client has the name that its certificate gives it, or that whoever has none is given.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from pykafka_broker.broker.context import ConnectionContext
from pykafka_broker.server.connection import Connection, Serving
from pykafka_broker.server.tls_transport import TlsTransport


class TlsConnection(Connection):
    """principal_of: from a certificate in DER, or None, and a host to the text of a principal; raises FrameError."""

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
