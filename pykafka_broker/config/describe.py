"""DescribeConfigs of a topic, the broker, a group or a metrics subscription (KIP-226, KIP-569, KIP-714).

Rule: synonyms stand in the order of their layers, the layer that wins first, under the broker's names; the first
synonym gives the source. As in Kafka the list starts at the entry's own name. If only a synonym with another unit is
set (`log.retention.hours` for `log.retention.ms`), the list is empty and the source is the default. A key's
documentation is a sentence in our own words that names the unit.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.config.extensions import PREFIX
from pykafka_broker.config.registry import (
    BROKER_SYNONYMS,
    ConfigKey,
    broker_keys,
    client_metrics_keys,
    inherited,
)
from pykafka_broker.config.topic import live_keys, topic_values
from pykafka_broker.config.values import ConfigType, Value, format_value, parse_value
from pykafka_broker.protocol.enums import ConfigSource


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A config in an answer; `value` is None if unset or secret."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    read_only: bool
    is_sensitive: bool
    synonyms: list[Synonym]


def describe_topic(broker: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all configs of a topic. Those that are not overridden are the same for all topics, and made once."""
    if broker.topic_entries is None:
        defaults = topic_values(broker, {})
        broker.topic_entries = [
            _entry(key, defaults[key.name], _inherited_synonyms(broker, key))
            for key in live_keys(broker)
            if not key.internal
        ]
    if not overrides:
        return broker.topic_entries
    values = topic_values(broker, overrides)
    keys = {key.name: key for key in live_keys(broker) if key.name in overrides}
    return [
        entry
        if (key := keys.get(entry.name)) is None
        else _entry(key, values[key.name], _own(key, overrides, ConfigSource.DYNAMIC_TOPIC_CONFIG) + entry.synonyms)
        for entry in broker.topic_entries
    ]


def describe_group(broker: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    entries = []
    for key in broker.group_keys.values():
        if key.internal or key.removed:
            continue
        value = parse_value(key, overrides[key.name]) if key.name in overrides else inherited(key, broker)
        default = [] if key.synonyms else [Synonym(key.name, key.default_text, ConfigSource.DEFAULT_CONFIG)]
        synonyms = _own(key, overrides, ConfigSource.DYNAMIC_GROUP_CONFIG) + _inherited_synonyms(broker, key) + default
        entries.append(_entry(key, value, synonyms))
    return entries


def describe_client_metrics(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    entries = []
    for key in client_metrics_keys().values():
        value = parse_value(key, overrides[key.name]) if key.name in overrides else key.default
        entries.append(_entry(key, value, _own(key, overrides, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)))
    return entries


def describe_broker(broker: BrokerConfig) -> list[ConfigEntry]:
    """Return every public key of the emulated release, and every name set."""
    keys = broker.keys
    names = {name for name, key in keys.items() if not key.internal and not key.removed}
    for layer in (broker.static, broker.dynamic_default, broker.dynamic_broker):
        names.update(name for name in layer if not name.startswith(PREFIX))
    if broker.own.release is not None:  # without keys of later releases
        names -= {name for name, key in keys.items() if key.removed}
    return [_broker_entry(broker, name) for name in sorted(names)]


def describe_broker_default(broker: BrokerConfig) -> list[ConfigEntry]:
    """Return the resource BROKER "": cluster-wide settings alone."""
    entries = []
    for name, text in sorted(broker.dynamic_default.items()):
        base = _base_key(broker, name)
        hidden = base is None or base.sensitive
        synonym = Synonym(name, None if hidden else text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        entries.append(_named_entry(name, base, synonym.value, [synonym]))
    return entries


# listener.name.{listener}.{key}, and listener.name.{listener}.{mechanism}.{key} for the keys below (KIP-226, KIP-103)
_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
_MECHANISM_KEYS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)

_SECRET = re.compile("password|secret|credential|token|jaas", re.IGNORECASE)


def base_name(name: str) -> str:
    """Return the key behind a setting of a listener or of a mechanism; any other name as given."""
    match = _LISTENER.fullmatch(name)
    if match is None:
        return name
    rest = match.group(1)
    return next((key for key in _MECHANISM_KEYS if rest.endswith(key)), rest)


def is_secret(name: str) -> bool:
    """Return whether a config's value is, or may contain, a password.

    An unknown name is a setting for a class of Python: the words in the name decide.
    """
    key = broker_keys().get(base_name(name))
    return key.sensitive if key is not None else _SECRET.search(name) is not None


def _base_key(broker: BrokerConfig, name: str) -> ConfigKey | None:
    key = broker.keys.get(base_name(name))
    return None if key is None or key.removed else key


def _synonym_names(name: str) -> tuple[str, ...]:
    base = base_name(name)
    return (name, base) if base != name else next((group for group in BROKER_SYNONYMS if name in group), (name,))


def _broker_synonyms(broker: BrokerConfig, name: str, hidden: bool) -> list[Synonym]:
    found = []
    for synonym in _synonym_names(name):
        for layer, source in (
            (broker.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (broker.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (broker.static, ConfigSource.STATIC_BROKER_CONFIG),
        ):
            if synonym in layer:
                found.append(Synonym(synonym, None if hidden else layer[synonym], source))
        key = _base_key(broker, synonym)
        if key is not None and key.name == synonym and key.default_text is not None:
            found.append(Synonym(synonym, None if hidden else key.default_text, ConfigSource.DEFAULT_CONFIG))
    own = next((at for at, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[own:]


def _broker_entry(broker: BrokerConfig, name: str) -> ConfigEntry:
    key = _base_key(broker, name)
    hidden = key is None or key.sensitive
    synonyms = _broker_synonyms(broker, name, hidden)
    if key is None or hidden:
        value = None
    elif key.name == name:
        value = format_value(broker[name])
    else:  # of a listener: the text as it stands, which nobody has read where there is no such listener
        value = synonyms[0].value
    return _named_entry(name, key, value, synonyms)


def _named_entry(name: str, key: ConfigKey | None, value: str | None, synonyms: list[Synonym]) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    if key is None:
        return ConfigEntry(name, None, source, ConfigType.UNKNOWN, True, True, synonyms)
    read_only = key.name != name or key.read_only
    return ConfigEntry(name, value, source, key.type, read_only, key.sensitive, synonyms)


def _entry(key: ConfigKey, value: Value, synonyms: list[Synonym]) -> ConfigEntry:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(key.name, format_value(value), source, key.type, False, key.sensitive, synonyms)


def _own(key: ConfigKey, overrides: Mapping[str, str], source: ConfigSource) -> list[Synonym]:
    if key.name not in overrides:
        return []
    return [Synonym(key.name, format_value(parse_value(key, overrides[key.name])), source)]


def _inherited_synonyms(broker: BrokerConfig, key: ConfigKey) -> list[Synonym]:
    return _broker_synonyms(broker, key.synonyms[0][0], False) if key.synonyms else []


def documentation(scope: str) -> Mapping[str, str]:
    """Return a scope's texts by key. `scope` is "broker", "topic", "group" or "client_metrics", as in `data.json`."""
    return _all()[scope]


@lru_cache(maxsize=1)
def _all() -> dict[str, dict[str, str]]:
    with open(os.path.join(os.path.dirname(__file__), "documentation.json"), "rb") as file:
        found: dict[str, dict[str, str]] = json.load(file)
    return found
