"""A running broker elsewhere, by its control API.

Rule: the broker is neither started nor stopped here; who has started the broker ends it.
"""

from __future__ import annotations

from typing import Self

from pykafka_broker.testing.control_client import ControlClient
from pykafka_broker.testing.controlled import Controlled
from pykafka_broker.testing.data import BrokerError


class RemoteBroker(Controlled):
    """A running broker elsewhere: `RemoteBroker("http://127.0.0.1:9644")`."""

    def __init__(self, control_url: str, token: str | None = None) -> None:
        self._client = ControlClient(control_url, token)

    @property
    def control(self) -> ControlClient:
        return self._client

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for a client's `bootstrap.servers`."""
        return str(self.control.call("GET", "/broker")["bootstrap_servers"])

    @property
    def schema_registry_url(self) -> str:
        """The address of the schema registry, for a serializer's `schema.registry.url`. Raises BrokerError."""
        url = self.control.call("GET", "/broker")["schema_registry_url"]
        if url is None:
            raise BrokerError("there is no schema registry: start the broker with --schema-registry")
        return str(url)

    def close(self) -> None:
        """Close the connections to the broker, which keeps running."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
