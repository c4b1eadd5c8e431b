"""The config keys as an older release has them.

Rule: what that release shows and takes by default comes from its own list; how a value is read stays as it is, since it
is read by this broker. A key that the release does not have keeps its default and is shown to nobody.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pykafka_broker.config.registry import ConfigKey, broker_keys, topic_keys
from pykafka_broker.config.values import ConfigError
from pykafka_broker.releases.release import Definition, release

Keys = dict[str, ConfigKey]


@lru_cache
def broker_keys_of(name: str) -> Keys:
    """Every broker key; those that the release does not have are marked as removed."""
    return _keys_of(broker_keys(), release(name).broker)


@lru_cache
def topic_keys_of(name: str) -> Keys:
    """The same of topics."""
    return _keys_of(topic_keys(), release(name).topic)


def _keys_of(ours: Keys, theirs: dict[str, Definition]) -> Keys:
    keys = {name: _key(name, ours.get(name), definition) for name, definition in theirs.items()}
    return {name: ConfigKey(name, _fact(key) | {"removed": True}) for name, key in ours.items()} | keys


def _key(name: str, ours: ConfigKey | None, definition: Definition) -> ConfigKey:
    kind, default = definition
    fact: dict[str, Any] = {"type": kind.upper()} if ours is None else _fact(ours) | {"removed": False}
    try:
        return ConfigKey(name, fact | {"default": default})
    except ConfigError:  # it must be set, so that it has no default, or a default that only has a meaning there
        return ConfigKey(name, fact | {"default": None if ours is None else ours.default_text})


def _fact(key: ConfigKey) -> dict[str, Any]:
    """What the key was made of."""
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
