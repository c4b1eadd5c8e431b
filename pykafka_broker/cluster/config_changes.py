"""AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339).

Rule: one resource changes whole or not at all, and only what really changes is written, but for brokers. Loggers are no
metadata and are not handled here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pykafka_broker.cluster import config_rules
from pykafka_broker.cluster.config_records import config_records
from pykafka_broker.cluster.controller import MAX_RECORDS_PER_OPERATION, Controller
from pykafka_broker.cluster.policies import ConfigAlteration
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.config.registry import (
    ConfigKey,
    broker_keys,
    client_metrics_keys,
    group_keys,
    inherited,
    topic_keys,
)
from pykafka_broker.config.topic import live_keys
from pykafka_broker.config.values import ConfigType, format_value
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode

R = TypeVar("R")

_OPERATIONS = frozenset(AlterConfigOp)
_NAMES: dict[int, str] = {AlterConfigOp.APPEND: "APPEND", AlterConfigOp.SUBTRACT: "SUBTRACT"}
_KEYS = {
    ConfigResourceType.TOPIC: topic_keys,
    ConfigResourceType.BROKER: broker_keys,
    ConfigResourceType.GROUP: group_keys,
    ConfigResourceType.CLIENT_METRICS: client_metrics_keys,
}

Records = list[ApiMessageAndVersion]
Permit = Callable[[], None]


def anybody() -> None:
    """Where rights have been looked at, or there are none."""


class TooManyRecords(ApiError):
    """More than one request may write: none of its resources changes."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


class ConfigOp(NamedTuple):
    """One change of one key."""

    key: str
    operation: int
    value: str | None


def incremental_alter_configs(
    controller: Controller, kind: int, name: str, ops: Sequence[ConfigOp], permit: Permit = anybody
) -> Records:
    """The records of these changes of one resource; raises ApiError. `ops` have passed `check_ops`. `permit` raises
    where the client lacks the right: it is asked behind what a broker looks at, before what its controller does.
    """
    _check_resource(controller, kind, name)
    present = controller.image.config(kind, name)
    changed: dict[str, str | None] = {}
    if kind == ConfigResourceType.BROKER:  # which looks at all operations before it passes them on
        check_operations(ops)
    for op in ops:
        if op.operation in (AlterConfigOp.APPEND, AlterConfigOp.SUBTRACT):
            changed[op.key] = _edited_list(controller, ConfigResourceType(kind), op, present.get(op.key))
        else:
            changed[op.key] = op.value if op.operation == AlterConfigOp.SET else None
    check_operations(ops)  # Kafka comes upon them in the order of a hash table, and then fails
    return _records(controller, kind, name, present, changed, changed, permit)


def alter_configs(
    controller: Controller, kind: int, name: str, ops: Sequence[ConfigOp], permit: Permit = anybody
) -> Records:
    """The records that make these the only configs of one resource; raises ApiError. `ops` have passed `check_ops`."""
    configs: dict[str, str | None] = {}
    for op in ops:
        configs[op.key] = op.value
    changed = dict(configs)
    _check_resource(controller, kind, name)
    present = controller.image.config(kind, name)
    changed.update((key, None) for key in present if key not in changed)
    return _records(controller, kind, name, present, changed, configs, permit)


def check_ops(ops: Sequence[ConfigOp]) -> None:
    """What is wrong with a list of changes whatever they are for."""
    nulls: list[str] = []
    keys: set[str] = set()
    for op in ops:
        keys.add(op.key)
        if op.value is None and op.operation != AlterConfigOp.DELETE:
            nulls.append(op.key)
    if len(keys) < len(ops):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")


def check_operations(ops: Sequence[ConfigOp]) -> None:
    for op in ops:
        if op.operation not in _OPERATIONS:
            # Kafka fails the whole request with UNKNOWN_SERVER_ERROR here.
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {op.operation}")


def _check_resource(controller: Controller, kind: int, name: str) -> None:
    """A topic's name is looked at later, behind the changes of its lists."""
    if kind == ConfigResourceType.BROKER:
        config_rules.check_broker_name(controller, name)
    elif kind not in _KEYS:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _edited_list(controller: Controller, kind: ConfigResourceType, op: ConfigOp, present: str | None) -> str:
    key = _KEYS[kind]().get(op.key)
    if key is None or key.type is not ConfigType.LIST or kind is ConfigResourceType.CLIENT_METRICS:
        if kind is ConfigResourceType.BROKER:
            word = _NAMES[op.operation].lower()
            reason = f"Config value {word} is not allowed for config key: {op.key}"
        else:
            reason = f"Can't {_NAMES[op.operation]} to key {op.key} because its type is not LIST."
        raise ApiError(ErrorCode.INVALID_CONFIG, reason)
    if present is None:
        present = _inherited_text(controller, kind, key)
    parts = [part.strip() for part in present.split(",") if part.strip()]
    wanted = [part.strip() for part in (op.value or "").split(",")]
    if op.operation == AlterConfigOp.APPEND:
        parts += [part for part in dict.fromkeys(wanted) if part not in parts]
    else:
        parts = [part for part in parts if part not in wanted]
    return ",".join(parts)


def _inherited_text(controller: Controller, kind: ConfigResourceType, key: ConfigKey) -> str:
    value = controller.config[key.name] if kind is ConfigResourceType.BROKER else inherited(key, controller.config)
    return format_value(value) or ""


def _records(
    controller: Controller,
    kind: int,
    name: str,
    present: Mapping[str, str],
    changed: Mapping[str, str | None],
    named: Mapping[str, str | None],
    permit: Permit,
) -> Records:
    """`named` are those of the changes that the request names."""
    overrides = dict(present)
    for key, value in changed.items():
        if value is None:
            overrides.pop(key, None)
        else:
            overrides[key] = value
    if kind == ConfigResourceType.TOPIC:
        config_rules.check_topic_resource(name)
        # What another release left behind and this one doesn't know is no fault of this request.
        known = {key.name for key in live_keys(controller.config)}
        readable = {key: value for key, value in overrides.items() if key in known or key in changed}
        config_rules.check_topic(controller.config, readable)
        config_rules.check_topic_exists(controller, name)
    elif kind == ConfigResourceType.BROKER:
        if len(changed) > MAX_RECORDS_PER_OPERATION:
            raise TooManyRecords
        config_rules.check_broker(controller, name, changed, overrides)
        permit()
        config_rules.check_of_cluster(controller, name, changed)
    elif kind == ConfigResourceType.GROUP:
        config_rules.check_group(controller.config, name, overrides)
    else:
        config_rules.check_client_metrics(name, overrides)
    if controller.policies is not None:
        always = kind == ConfigResourceType.BROKER  # as Kafka has it
        asked = {key: value for key, value in named.items() if always or value != present.get(key)}
        controller.policies.check_configs(ConfigAlteration(ConfigResourceType(kind).name, name, asked))
    # A broker reads the files again that its settings name, also if the names stay (KAFKA-14136).
    written = {
        key: value for key, value in changed.items() if value != present.get(key) or kind == ConfigResourceType.BROKER
    }
    return config_records(controller.image, kind, name, written)
