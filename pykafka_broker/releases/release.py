"""What one release of Kafka served, by its own word: versions, error codes, config keys and features.

Rule: facts about Kafka only, as `data.json` records them; what this broker does to pass for a release stands in
`broker/requests/emulation.py`. The file is read once, on first use, and only by a broker that emulates.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, NamedTuple

Versions = tuple[int, int]
Feature = tuple[int, int, int]  # lowest and highest level, and the one in force in a new cluster
Definition = tuple[str, str | None]  # type and default of a config key, as texts


class Release(NamedTuple):
    """`name` is what it is chosen by; `version` the patch release that was recorded. `apis` are its ranges of versions,
    `last_error` its highest error code, `broker` and `topic` the definitions of its config keys,
    `features` the levels it knew: none before 3.3, whose brokers were ZooKeeper's.
    """

    name: str
    version: str
    apis: dict[int, Versions]
    last_error: int
    broker: dict[str, Definition]
    topic: dict[str, Definition]
    features: dict[str, Feature]

    @property
    def number(self) -> tuple[int, ...]:
        return _number(self.version)

    @property
    def answers_api_versions(self) -> bool:
        """0.8 and 0.9 do not know the question (KIP-35)."""
        return _API_VERSIONS in self.apis


_API_VERSIONS = 18
_TWO_NUMBERS_BEFORE = (0, 10)  # and since 1.0


def release(name: str) -> Release:
    """The release of that name: its number, with or without that of a patch ("2.8", "2.8.1"), or the beginning of it
    ("0.10"), which is the newest of those. Raises ValueError.
    """
    known = _releases()
    wanted = name.strip().split(".")
    whole = [one for one in known if one.split(".")[: len(wanted)] == wanted]
    shortened = [".".join(wanted[:length]) for length in range(len(wanted) - 1, 1, -1)]
    fitting = [*(one for one in shortened if one in known and wanted[-1].isdigit()), *whole]
    if not fitting:
        raise ValueError(f"no release of Kafka {name!r}: it must be one of {', '.join(known)}")
    return known[fitting[-1]]


def release_names() -> list[str]:
    """What `release` takes, from the oldest to the newest."""
    return list(_releases())


@lru_cache(maxsize=1)
def _releases() -> dict[str, Release]:
    with open(os.path.join(os.path.dirname(__file__), "data.json"), "rb") as file:
        recorded: dict[str, dict[str, Any]] = json.load(file)
    found: dict[str, Release] = {}
    apis: dict[str, list[int]] = {}
    broker: dict[str, list[str | None]] = {}
    topic: dict[str, list[str | None]] = {}
    for version, facts in recorded.items():
        apis, broker, topic = (
            {key: value for key, value in (before | facts[part]).items() if value is not None}
            for before, part in ((apis, "apis"), (broker, "broker"), (topic, "topic"))
        )
        parts = version.split(".")
        name = ".".join(parts[: 2 if _number(version) < _TWO_NUMBERS_BEFORE or len(parts) == 3 else 3])
        found[name] = Release(
            name,
            version,
            {int(key): (low, high) for key, (low, high) in apis.items()},
            facts["last_error"],
            _definitions(broker),
            _definitions(topic),
            {feature: (low, high, level) for feature, (low, high, level) in facts.get("features", {}).items()},
        )
    return found


def _definitions(texts: dict[str, list[str | None]]) -> dict[str, Definition]:
    return {name: (kind or "string", default) for name, (kind, default) in texts.items()}


def _number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
