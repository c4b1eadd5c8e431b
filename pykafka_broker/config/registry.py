"""Every config key of Kafka 4.4.0, and keys of other releases, as `data.json` records them.

Rule: facts about Kafka, and the keys of our own, which begin with "pykafka." and are internal; what this broker makes
of a key stands in `effects.py`. The file is read once, on first use.

An older release that is emulated shows its own list and takes its own defaults; how a value is read stays as it is,
since this broker reads it. A key that the release does not have keeps its default and is shown to nobody.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from pykafka_broker.config.values import ConfigError, ConfigType, Value, parse_type
from pykafka_broker.releases.release import Definition, is_ahead, release


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


class ConfigKey(NamedTuple):
    """A key: type, default and limits.

    `synonyms` are the broker's keys that a topic or group key falls back to, each with the factor that turns its unit
    into this key's.
    """

    name: str
    type: ConfigType
    default_text: str | None
    default: Value
    minimum: int | float | None
    maximum: int | float | None
    allowed: list[str] | None
    rule: str | None
    mode: str | None  # CLUSTER_WIDE, PER_BROKER, or None: read-only at run time (KIP-226)
    internal: bool
    removed: bool  # not a key of the release: gone in Kafka 4.0, or newer
    since: str | None  # the release that brought the key, if it came after 4.3
    synonyms: list[tuple[str, int]]

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def read_only(self) -> bool:
        return self.mode is None


def _config_key(name: str, fact: dict[str, Any]) -> ConfigKey:
    get, kind, text = fact.get, ConfigType[fact["type"]], fact["default"]
    return ConfigKey(
        name,
        kind,
        text,
        None if text is None else parse_type(name, text, kind),
        get("min"),
        get("max"),
        get("allowed"),
        get("rule"),
        get("mode"),
        get("internal", False),
        get("removed", False) or ("since" in fact and is_ahead(fact["since"])),
        get("since"),
        [(other, factor) for other, factor in get("synonyms", ())],
    )


@lru_cache(maxsize=1)
def _registry() -> dict[str, dict[str, ConfigKey]]:
    with open(os.path.join(os.path.dirname(__file__), "data.json"), "rb") as file:
        facts: dict[str, dict[str, Any]] = json.load(file)
    return {scope: {name: _config_key(name, fact) for name, fact in keys.items()} for scope, keys in facts.items()}


Keys = dict[str, ConfigKey]


def broker_keys(of: str | None = None) -> Keys:
    """Return every key of brokers, as it is in a release, or in the newest one; keys missing there count as removed."""
    return _registry()["broker"] if of is None else _keys_of("broker", of)


def topic_keys(of: str | None = None) -> Keys:
    """Return every key of topics, as `broker_keys`."""
    return _registry()["topic"] if of is None else _keys_of("topic", of)


def group_keys(of: str | None = None) -> Keys:
    """Return every key of the GROUP resource (KIP-848, KIP-932, KIP-1071), as `broker_keys`."""
    return _registry()["group"] if of is None else _keys_of("group", of)


def client_metrics_keys() -> Keys:
    """Return the keys of the CLIENT_METRICS resource (KIP-714)."""
    return _registry()["client_metrics"]


def inherited(key: ConfigKey, broker: BrokerValues) -> Value:
    """Return the broker's value for a topic or group key: the first set synonym, in the key's unit."""
    for name, factor in key.synonyms:
        value = broker[name]
        if isinstance(value, list) and key.type is ConfigType.STRING:
            value = value[0]  # of a list of permitted names the first is the default
        if value is not None:
            return value * factor if factor != 1 and isinstance(value, int) else value
    return key.default


@lru_cache
def _keys_of(scope: str, name: str) -> Keys:
    """Return our keys, marked as removed unless the release lists them, or they came with it or shortly before.

    So internal keys of newer releases, which no list shows, are there. Older releases have the keys of groups of today,
    since no release before 4.0 had any.
    """
    ours, of = _registry()[scope], release(name)
    there = {key.name for key in ours.values() if key.since is not None and release(key.since).number <= of.number}
    if scope == "group":
        there |= {key.name for key in ours.values() if key.since is None and not key.removed}
    found = {key.name: key._replace(removed=key.name not in there) for key in ours.values()}
    theirs: dict[str, Definition] = {"broker": of.broker, "topic": of.topic}.get(scope, {})
    return found | {key: _key(key, ours.get(key), definition) for key, definition in theirs.items()}


def _key(name: str, ours: ConfigKey | None, definition: Definition) -> ConfigKey:
    kind, default = definition
    key = _config_key(name, {"type": kind.upper(), "default": None}) if ours is None else ours._replace(removed=False)
    if default == "" and key.default_text is None and ours is not None and not ours.removed:
        return key  # a required key: the release's list has no default either
    try:
        value = None if default is None else parse_type(name, default, key.type)
        return key._replace(default_text=default, default=value)
    except ConfigError:  # a required key without a default, or a default with a meaning in that release only
        return key
