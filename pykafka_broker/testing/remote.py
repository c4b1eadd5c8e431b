"""A broker that runs already, somewhere else."""

from __future__ import annotations

from typing import Self

from pykafka_broker.testing.control_client import ControlClient, told_to_the_test
from pykafka_broker.testing.controlled import Controlled

__tracebackhide__ = told_to_the_test


class RemoteBroker(Controlled):
    """A broker that runs already, somewhere else: `RemoteBroker("http://127.0.0.1:9644")`."""

    def __init__(self, control_url: str, token: str | None = None) -> None:
        self._client = ControlClient(control_url, token)

    @property
    def control(self) -> ControlClient:
        return self._client

    @property
    def bootstrap_servers(self) -> str:
        """The address for a client's setting of that name."""
        return str(self.control.call("GET", "/broker")["bootstrap_servers"])

    def close(self) -> None:
        """Close the connections to the broker, which goes on running."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
