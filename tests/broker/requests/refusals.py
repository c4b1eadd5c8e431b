"""Requests that fail as a whole, and what Kafka's own classes answer (`refusals.txt`, by `python -m interop.record
refusals`). Rule: each list of structs has two items, the first of them without anything in its own lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.runtime import Message
from tests.protocol.values import from_json, messages, values

PATH = Path(__file__).with_name("refusals.txt")


def refused(key: ApiKey, version: int) -> Message:
    """Return a request of an API."""
    message = messages()[SPECS[key].request_class().__name__]
    return from_json(message, _bared(values(message, version, "rich")))


def _bared(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bared(one) for name, one in value.items()}
    if isinstance(value, list) and isinstance(value[0], dict):
        return [{name: [] if isinstance(one, list) else one for name, one in value[0].items()}, _bared(value[1])]
    return value


def to_ask() -> str:
    """Return all requests as lines for Refusals.java."""
    spans = [(key, range(spec.min_version, spec.max_version + 1)) for key, spec in SPECS.items()]
    asked = ((ApiKey(key), version) for key, versions in spans for version in versions)
    return "".join(f"{key.name} {version} {refused(key, version).encode(version).hex()}\n" for key, version in asked)


def recorded() -> Iterator[tuple[ApiKey, int, bytes]]:
    """Yield API, version and Kafka's answer."""
    for line in PATH.read_text().splitlines():
        name, version, answer = line.split(" ")
        yield ApiKey[name], int(version), bytes.fromhex(answer)
