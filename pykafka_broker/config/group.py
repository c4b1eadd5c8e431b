"""A group's configuration: its overrides over the broker's values (KIP-848, KIP-932, KIP-1071).

Rule: an instance never changes. A stored override outside of the broker's limits is moved to the nearest allowed value,
so that a narrowed limit holds for every group at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.config.registry import ConfigKey, broker_keys, group_keys, inherited
from pykafka_broker.config.values import ConfigError, Value, parse_value


class GroupConfig:
    """A group's values, with an attribute for each key of the GROUP resource."""

    consumer_assignment_interval_ms: int
    consumer_assignor_offload_enable: bool
    consumer_heartbeat_interval_ms: int
    consumer_session_timeout_ms: int
    errors_deadletterqueue_copy_record_enable: bool
    errors_deadletterqueue_topic_name: str
    share_assignment_interval_ms: int
    share_assignor_offload_enable: bool
    share_auto_offset_reset: str
    share_delivery_count_limit: int
    share_heartbeat_interval_ms: int
    share_isolation_level: str
    share_partition_max_record_locks: int
    share_record_lock_duration_ms: int
    share_renew_acknowledge_enable: bool
    share_session_timeout_ms: int
    streams_acceptable_recovery_lag: int
    streams_assignment_interval_ms: int
    streams_assignor_name: str
    streams_assignor_offload_enable: bool
    streams_heartbeat_interval_ms: int
    streams_initial_rebalance_delay_ms: int
    streams_num_standby_replicas: int
    streams_num_warmup_replicas: int
    streams_rack_aware_assignment_tags: list[str]
    streams_session_timeout_ms: int
    streams_task_offset_interval_ms: int

    def __init__(self, values: Mapping[str, Value]) -> None:
        for name, value in values.items():
            setattr(self, name.replace(".", "_"), value)

    @classmethod
    def resolve(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> GroupConfig:
        """Return the configuration of a group with overrides. Raises `ConfigError`."""
        values = {name: inherited(key, broker) for name, key in group_keys().items()}
        for name, value in parse_group_overrides(overrides, broker.group_keys).items():
            values[name] = _within(broker, name, value)
        return cls(values)


def parse_group_overrides(overrides: Mapping[str, str], keys: Mapping[str, ConfigKey]) -> dict[str, Value]:
    """Return the typed values of a group's own configs, without keys of a newer release. Raises `ConfigError`.

    Args:
        keys: all keys; those that the release does not have are marked as removed.
    """
    for name in overrides:
        if name not in keys:
            raise ConfigError(f"Unknown group config name: {name}")
    return {name: parse_value(keys[name], text) for name, text in overrides.items() if not keys[name].removed}


@cache
def limits_of(name: str) -> tuple[str | None, str | None]:
    """Return the broker's keys for the least and the greatest value of a group key, or of the broker-wide default."""
    protocol, _, rest = name.removeprefix("group.").partition(".")
    rest = rest.removeprefix("num.")
    least, most = f"group.{protocol}.min.{rest}", f"group.{protocol}.max.{rest}"
    keys = broker_keys()
    return (least if least in keys else None, most if most in keys else None)


def _within(broker: BrokerConfig, name: str, value: Value) -> Value:
    least, most = limits_of(name)
    if isinstance(value, int):
        if least is not None:
            value = max(value, broker[least])
        if most is not None:
            value = min(value, broker[most])
    return value
