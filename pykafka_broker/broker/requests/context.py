"""A request and its connection, as handlers know them.

Rule: values only; nothing here can reach the socket. A module of its own: every room knows requests, and only the
router knows the services that answer them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka_broker.cluster.controller import Spend, unlimited

if TYPE_CHECKING:
    from pykafka_broker.security.sasl.exchange import SaslExchange

ANONYMOUS = "User:ANONYMOUS"
NO_CONNECTION = -1  # the connection id of requests from inside the process


class ConnectionContext:
    """A client connection, without the socket.

    local_host, local_port: the address that the client dialled; reached: the same with the listener's name in front.
    login: the state of the authentication, on a listener with SASL; by_token: authenticated with a delegation token;
    forwarded: authenticated by the broker that the client is connected to. network_ns: time of reading and writing that
    no request has been charged with; None while the time is not measured.
    """

    __slots__ = (
        "authenticated",
        "by_token",
        "client_host",
        "client_port",
        "forwarded",
        "id",
        "listener",
        "local_host",
        "local_port",
        "login",
        "network_ns",
        "principal",
        "reached",
        "software_name",
        "software_version",
    )

    def __init__(
        self, id: int, listener: str, local: tuple[str, int], remote: tuple[str, int], principal: str = ANONYMOUS
    ) -> None:
        self.id = id
        self.listener = listener
        self.local_host, self.local_port = local
        self.reached = listener, *local
        self.client_host, self.client_port = remote
        self.principal = principal
        self.authenticated = True  # nothing else is asked for on a listener without SASL
        self.by_token = False
        self.forwarded = False
        self.login: SaslExchange | None = None
        self.network_ns: int | None = None
        self.software_name = ""  # from ApiVersions v3 and newer (KIP-511)
        self.software_version = ""


class RequestContext:
    """A request's header, connection and time of arrival (epoch milliseconds)."""

    __slots__ = ("api_key", "api_version", "client_id", "connection", "correlation_id", "now")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        connection: ConnectionContext,
        now: int,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.connection = connection
        self.now = now

    def spending(self) -> Spend:
        """Return the callback of a decision about topics, called with the number of created or deleted partitions."""
        return unlimited

    def __repr__(self) -> str:
        return (
            f"api_key={self.api_key} version={self.api_version} correlation_id={self.correlation_id} "
            f"client_id={self.client_id!r} from {self.connection.client_host}:{self.connection.client_port}"
        )
