"""What a test may ask of a broker whose control API is open, as methods.

Rule: a method is one operation of the control API with the same name and parameters, and says no more than it; what
the broker refuses is `ControlError`. The blocks come from the rooms below: data, state, waits, and objects for time and
faults.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.testing.client_settings import client_settings
from pykafka_broker.testing.clock import HasClock
from pykafka_broker.testing.control_client import told_to_the_test
from pykafka_broker.testing.incidents import Incidents
from pykafka_broker.testing.membership import Membership
from pykafka_broker.testing.state import State
from pykafka_broker.testing.traffic import Traffic
from pykafka_broker.testing.waits import Waits

__tracebackhide__ = told_to_the_test


class Controlled(Waits, State, HasClock, Traffic, Incidents, Membership):
    """A broker that is reached by its control API."""

    @property
    def control_url(self) -> str:
        """Where the control API is, for other languages; `/openapi.json` there describes it."""
        return self.control.url

    @property
    def bootstrap_servers(self) -> str:
        """The address for a client's setting of that name."""
        raise NotImplementedError

    @property
    def listeners(self) -> dict[str, str]:
        """The addresses that it listens on, by the name of the listener."""
        return dict(self.control.call("GET", "/broker")["listeners"])

    def get_bootstrap_server(self) -> str:
        """The same by the name that testcontainers' KafkaContainer has for it."""
        return self.bootstrap_servers

    def client_config(self, client: str) -> dict[str, Any]:
        """What a client needs to reach the broker: "confluent", "kafka-python", "aiokafka", "java" or "spark".

        Producer(broker.client_config("confluent"))
        KafkaConsumer("topic", **broker.client_config("kafka-python"))
        spark.readStream.format("kafka").options(**broker.client_config("spark"))
        """
        return client_settings(client, self.bootstrap_servers)
