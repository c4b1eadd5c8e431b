"""Addresses of brokers in answers.

Rule: every struct that has a host and a port is one, in whichever answer it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import Fields

Address = tuple[str, int]

# The answers that may name brokers.
NAMING = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
    }
)


def replace(message: Any, other: Callable[[Address], Address]) -> bool:
    """Put other addresses in the place of those in a message; whether there were any."""
    found = False
    host, port = getattr(message, "host", None), getattr(message, "port", None)
    if host and isinstance(port, int) and port > 0:
        message.host, message.port = other((host, port))
        found = True
    for name in message.__match_args__:
        field = getattr(message, name)
        if isinstance(field, list):
            for each in field:
                found = (isinstance(each, Fields) and replace(each, other)) or found
    return found


def only_known_versions(api_versions: Any) -> None:
    """Leave in an answer to ApiVersions what can be decoded here."""
    kept = []
    for each in api_versions.api_keys:
        spec = SPECS.get(each.api_key)
        if spec is not None and each.min_version <= spec.max_version:
            each.max_version = min(each.max_version, spec.max_version)
            kept.append(each)
    api_versions.api_keys = kept
