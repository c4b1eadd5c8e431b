"""Settings of clients, in the words of each client.

Rule: the settings are those that a client needs to reach the broker and no others, so that a test adds its own.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

_NAMES = {
    "confluent": "bootstrap.servers",
    "confluent-kafka": "bootstrap.servers",
    "librdkafka": "bootstrap.servers",
    "java": "bootstrap.servers",
    "kafka-python": "bootstrap_servers",
    "aiokafka": "bootstrap_servers",
    "spark": "kafka.bootstrap.servers",
}
_LIBRDKAFKA = frozenset({"confluent", "confluent-kafka", "librdkafka"})
_SINCE_2_10 = 0x020A0000  # the first librdkafka that has metadata.recovery.strategy


def client_settings(client: str, bootstrap_servers: str) -> dict[str, Any]:
    """Return the settings of a client for a broker without security.

    Args:
        client: "confluent", "kafka-python", "aiokafka", "java" or "spark".
        bootstrap_servers: the addresses of the broker.

    Raises:
        ValueError: the client is unknown.
    """
    name = _NAMES.get(client)
    if name is None:
        raise ValueError(f"{client} is not known; it must be one of {', '.join(_NAMES)}, schema-registry")
    settings: dict[str, Any] = {name: bootstrap_servers}
    if client in _LIBRDKAFKA and _knows_recovery_strategy():
        settings["metadata.recovery.strategy"] = "none"
    return settings


def _knows_recovery_strategy() -> bool:
    """Tell whether confluent-kafka is installed with a librdkafka able to bootstrap again.

    Such a librdkafka gives up the only broker that it knows when the broker restarts. Then a transactional producer
    waits for that broker's answer for ever (librdkafka's issue 5511).
    """
    if find_spec("confluent_kafka") is None:
        return False
    from confluent_kafka import libversion

    return bool(libversion()[1] >= _SINCE_2_10)
