"""What a test may ask of a broker whose control API is open, as methods.

Rule: a method is one operation of the control API with the same name and parameters, and says no more than it; what
the broker refuses is `ControlError`. The blocks come from the rooms below: data, state, waits, and objects for time and
faults.
"""

from __future__ import annotations

from pykafka_broker.testing.clock import HasClock
from pykafka_broker.testing.control_client import ControlClient
from pykafka_broker.testing.data import Data
from pykafka_broker.testing.state import State
from pykafka_broker.testing.waits import Waits


class Controlled(Data, State, Waits, HasClock):
    """A broker that is reached by its control API."""

    @property
    def control_url(self) -> str:
        """Where the control API is, for other languages; `/openapi.json` there describes it."""
        return self.control.url


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
