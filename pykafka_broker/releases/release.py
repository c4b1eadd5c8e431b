"""The releases of Kafka, as recorded from their own answers: API versions, error codes, config keys and features.

Rule: facts about Kafka only, as `data.json` records them. How this broker emulates a release is in
`broker/requests/emulation.py`. The file is read once, on first use, and only by a broker that emulates.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, NamedTuple

OWN_VERSION = "4.4.0"  # the release that a broker is where it emulates none; the tests compare it with this Kafka

Versions = tuple[int, int]
Feature = tuple[int, int, int]  # lowest and highest level, and the level of a new cluster
Definition = tuple[str, str | None]  # type and default of a config key, as texts


class Release(NamedTuple):
    """A release of Kafka.

    name: the name by which users choose the release: "2.8".
    version: the patch release that was recorded: "2.8.2".
    apis: the lowest and the highest version of each API, by API key.
    last_error: the highest error code.
    broker, topic: the definitions of the config keys.
    features: the levels by feature; none before 3.3, whose brokers used ZooKeeper.
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


_TWO_NUMBERS_BEFORE = (0, 10)  # two numbers name a release before 0.10, and since 1.0


def release(name: str) -> Release:
    """Return the release of a name. Raises ValueError.

    A name is the number of a release, with or without a patch number ("2.8", "2.8.1"), or the beginning of several
    numbers ("0.10"), which stands for the newest of these releases.
    """
    known = _releases()
    wanted = name.strip().split(".")
    whole = [one for one in known if one.split(".")[: len(wanted)] == wanted]
    shortened = [".".join(wanted[:length]) for length in range(len(wanted) - 1, 1, -1)]
    fitting = [*(one for one in shortened if one in known and wanted[-1].isdigit()), *whole]
    if not fitting:
        raise ValueError(f"no release of Kafka {name!r}: it must be one of {', '.join(known)}")
    return known[fitting[-1]]


def is_ahead(name: str) -> bool:
    """Return whether a release, "4.4", came after the one that a broker is where it emulates none."""
    number = _number(name)
    return number > _number(OWN_VERSION)[: len(number)]


def release_names() -> list[str]:
    """Return the names of all releases, from the oldest to the newest."""
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
    return tuple(map(int, text.partition("-")[0].split(".")))  # a candidate, "4.5.0-rc1", has its release's number
