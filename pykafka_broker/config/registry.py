"""Every config key of Kafka 4.3.1, and the keys that older releases had, as `data.json` records them.

Rule: facts about Kafka, and the keys of our own, which begin with "pykafka." and are internal; what this broker makes
of a key stands in `effects.py`. The file is read once, on first use.

An older release that is emulated shows its own list and takes its own defaults; how a value is read stays as it is,
since this broker reads it. A key that the release does not have keeps its default and is shown to nobody.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, Protocol

from pykafka_broker.config.values import ConfigError, ConfigType, Value, parse_type
from pykafka_broker.releases.release import Definition, release


class BrokerValues(Protocol):
    """The values of a broker's keys, by name."""

    def __getitem__(self, name: str) -> Value: ...


CLUSTER_WIDE = "cluster-wide"
PER_BROKER = "per-broker"

# Keys that may stand in for one another, the winning key first; KafkaConfig's getters read them in this order.
BROKER_SYNONYMS = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)


class ConfigKey:
    """A key: type, default and limits.

    `synonyms` are the broker's keys that a topic or group key falls back to, each with the factor that turns its unit
    into this key's.
    """

    __slots__ = (
        "allowed",
        "default",
        "default_text",
        "internal",
        "maximum",
        "minimum",
        "mode",
        "name",
        "removed",
        "rule",
        "synonyms",
        "type",
    )

    def __init__(self, name: str, fact: dict[str, Any]) -> None:
        get = fact.get
        self.name = name
        self.type: ConfigType = ConfigType[fact["type"]]
        self.default_text: str | None = fact["default"]
        self.minimum: int | float | None = get("min")
        self.maximum: int | float | None = get("max")
        self.allowed: list[str] | None = get("allowed")
        self.rule: str | None = get("rule")
        self.mode: str | None = get("mode")  # CLUSTER_WIDE, PER_BROKER, or None: read-only at run time (KIP-226)
        self.internal: bool = get("internal", False)
        self.removed: bool = get("removed", False)  # gone in Kafka 4.0
        self.synonyms: list[tuple[str, int]] = [(other, factor) for other, factor in get("synonyms", ())]
        text = self.default_text
        self.default: Value = None if text is None else parse_type(name, text, self.type)

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def read_only(self) -> bool:
        return self.mode is None


@lru_cache(maxsize=1)
def _registry() -> dict[str, dict[str, ConfigKey]]:
    with open(os.path.join(os.path.dirname(__file__), "data.json"), "rb") as file:
        facts: dict[str, dict[str, Any]] = json.load(file)
    return {scope: {name: ConfigKey(name, fact) for name, fact in keys.items()} for scope, keys in facts.items()}


def broker_keys() -> dict[str, ConfigKey]:
    return _registry()["broker"]


def topic_keys() -> dict[str, ConfigKey]:
    return _registry()["topic"]


def group_keys() -> dict[str, ConfigKey]:
    """Return the keys of the GROUP resource (KIP-848, KIP-932, KIP-1071)."""
    return _registry()["group"]


def client_metrics_keys() -> dict[str, ConfigKey]:
    """Return the keys of the CLIENT_METRICS resource (KIP-714)."""
    return _registry()["client_metrics"]


def inherited(key: ConfigKey, broker: BrokerValues) -> Value:
    """Return the broker's value for a topic or group key: the first set synonym, in the key's unit."""
    for name, factor in key.synonyms:
        value = broker[name]
        if value is not None:
            return value * factor if factor != 1 and isinstance(value, int) else value
    return key.default


Keys = dict[str, ConfigKey]


@lru_cache
def broker_keys_of(name: str) -> Keys:
    """Return every broker key; keys missing in the release are marked as removed."""
    return _keys_of(broker_keys(), release(name).broker)


@lru_cache
def topic_keys_of(name: str) -> Keys:
    """Return every topic key; keys missing in the release are marked as removed."""
    return _keys_of(topic_keys(), release(name).topic)


def _keys_of(ours: Keys, theirs: dict[str, Definition]) -> Keys:
    keys = {name: _key(name, ours.get(name), definition) for name, definition in theirs.items()}
    return {name: ConfigKey(name, _fact(key) | {"removed": True}) for name, key in ours.items()} | keys


def _key(name: str, ours: ConfigKey | None, definition: Definition) -> ConfigKey:
    kind, default = definition
    fact: dict[str, Any] = {"type": kind.upper()} if ours is None else _fact(ours) | {"removed": False}
    try:
        return ConfigKey(name, fact | {"default": default})
    except ConfigError:  # a required key without a default, or a default with a meaning in that release only
        return ConfigKey(name, fact | {"default": None if ours is None else ours.default_text})


def _fact(key: ConfigKey) -> dict[str, Any]:
    """Return the facts behind a key."""
    return {
        "type": key.type.name,
        "default": key.default_text,
        "min": key.minimum,
        "max": key.maximum,
        "allowed": key.allowed,
        "rule": key.rule,
        "mode": key.mode,
        "internal": key.internal,
        "removed": key.removed,
        "synonyms": key.synonyms,
    }
