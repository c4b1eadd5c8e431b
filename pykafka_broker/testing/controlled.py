"""What a test may ask of a broker whose control API is open, as methods.

Rule: a method is one operation of the control API with the same name and parameters, and says no more than it; what
the broker refuses is `ControlError`. The blocks come from the rooms below: data, state, waits, and objects for time and
faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka_broker.testing.control_client import ControlClient, in_path


class Controlled:
    """A broker that is reached by its control API."""

    @property
    def control(self) -> ControlClient:
        """The control API itself."""
        raise NotImplementedError

    @property
    def control_url(self) -> str:
        """Where the control API is, for other languages; `/openapi.json` there describes it."""
        return self.control.url

    # -- topics

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str | int | float | bool] | None = None
    ) -> dict[str, Any]:
        """Make a topic; `config` are Kafka's topic configs. Returns name, topic_id, partitions and config."""
        body = {"name": name, "partitions": partitions, "config": None if config is None else dict(config)}
        topic: dict[str, Any] = self.control.call("POST", "/topics", body)
        return topic

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with its records."""
        self.control.call("DELETE", f"/topics/{in_path(topic)}")

    def topics(self, internal: bool = False) -> list[dict[str, Any]]:
        """All topics; with `internal` also Kafka's own."""
        topics: list[dict[str, Any]] = self.control.call("GET", "/topics", query={"internal": internal})
        return topics

    def topic(self, topic: str) -> dict[str, Any]:
        """One topic."""
        found: dict[str, Any] = self.control.call("GET", f"/topics/{in_path(topic)}")
        return found


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
