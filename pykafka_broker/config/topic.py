"""A topic's configuration: its overrides over the broker's values (KIP-226's synonyms).

Rule: an instance never changes and is shared by every partition, and by every topic with the same overrides.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from pykafka_broker.config.broker import BrokerConfig, default_values
from pykafka_broker.config.registry import ConfigKey, inherited, topic_keys
from pykafka_broker.config.values import ConfigError, Value, parse_value

log = logging.getLogger(__name__)

MAX_CACHED = 1024


class TopicConfig:
    """A topic's values, with an attribute for each key.

    Times are in ms, sizes in bytes, and `segment_bytes` already with `internal.segment.bytes` (KIP-1030).
    """

    cleanup_policy: list[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    errors_deadletterqueue_group_enable: bool
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: list[str]
    index_interval_bytes: int
    internal_segment_bytes: int | None
    leader_replication_throttled_replicas: list[str]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_decompressed_message_bytes: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_copy_lag_bytes: int
    remote_copy_lag_ms: int
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    def __init__(self, values: Mapping[str, Value]) -> None:
        for attribute, name in _ATTRIBUTES:
            setattr(self, attribute, values[name])
        if self.internal_segment_bytes is not None:
            self.segment_bytes = self.internal_segment_bytes

    @classmethod
    def resolve(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
        """Return the configuration of a topic with overrides. Raises `ConfigError`, also for unknown names."""
        if not overrides:
            return broker.topic_defaults
        cache = broker.topic_cache
        identity = frozenset(overrides.items())
        config = cache.get(identity)
        if config is None:
            if len(cache) >= MAX_CACHED:
                cache.clear()
            config = cache[identity] = cls(topic_values(broker, overrides))
        return config

    @classmethod
    def of_broker(cls, broker: BrokerConfig) -> TopicConfig:
        return cls(topic_values(broker, {}))


_ATTRIBUTES = [(name, name.replace("_", ".")) for name in TopicConfig.__annotations__]


def live_keys(broker: BrokerConfig) -> Iterable[ConfigKey]:
    """Return the topic keys of the emulated release; keys of other releases are unknown names."""
    return _live(broker.topic_keys)


def _live(keys: Mapping[str, ConfigKey]) -> Iterable[ConfigKey]:
    return (key for key in keys.values() if not key.removed)


def topic_values(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Value]:
    """Return the value of every topic key by name; raises `ConfigError` for a bad override."""
    if broker.topic_values is None:
        release = broker.own.release
        defaults, heirs = _inheritance(None if release is None else release.name)
        values = dict(defaults)
        for name in broker.set_names:
            for key in heirs.get(name, ()):
                values[key.name] = inherited(key, broker)
        retention_ms = values["retention.ms"]
        if isinstance(retention_ms, int) and retention_ms < 0:  # -1 hours is -3600000 ms, and means "for ever" too
            values["retention.ms"] = -1
        broker.topic_values = values
    return broker.topic_values | parse_overrides(overrides, _readable_keys(broker))


@cache
def _inheritance(release: str | None) -> tuple[dict[str, Value], dict[str, list[ConfigKey]]]:
    """Return what topics of a broker with no setting have, by name, and the keys that a broker's key decides."""
    own = topic_keys()
    keys = [*own.values()] if release is None else [*own.values(), *_live(topic_keys(release))]
    unset = default_values(release)
    heirs: dict[str, list[ConfigKey]] = {}
    for key in keys:
        for name, _ in key.synonyms:
            heirs.setdefault(name, []).append(key)
    return {key.name: inherited(key, unset) for key in keys}, heirs


def _readable_keys(broker: BrokerConfig) -> Mapping[str, ConfigKey]:
    """Return our keys, used for internal topics, and the keys of the emulated release."""
    keys = topic_keys()
    return keys if broker.topic_keys is keys else keys | {key.name: key for key in live_keys(broker)}


def readable_overrides(broker: BrokerConfig, overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Return the overrides without unreadable names and values of other releases."""
    if not overrides:
        return overrides
    release = broker.own.release
    unreadable = _unreadable(frozenset(overrides.items()), None if release is None else release.name)
    return {name: text for name, text in overrides.items() if name not in unreadable} if unreadable else overrides


@lru_cache(MAX_CACHED)
def _unreadable(overrides: frozenset[tuple[str, str]], release: str | None) -> frozenset[str]:
    keys = topic_keys(release)
    found = set()
    for name, text in overrides:
        try:
            parse_overrides({name: text}, keys)
        except ConfigError as error:
            log.warning("ignored a topic config: %s", error)
            found.add(name)
    return frozenset(found)


def parse_overrides(overrides: Mapping[str, str], keys: Mapping[str, ConfigKey]) -> dict[str, Value]:
    """Return the typed values of a topic's own configs, of `keys`. Raises `ConfigError` as LogConfig.validate does."""
    for name in overrides:
        if name not in keys or keys[name].removed:
            raise ConfigError(f"Unknown topic config name: {name}")
    return {name: parse_value(keys[name], text) for name, text in overrides.items()}
