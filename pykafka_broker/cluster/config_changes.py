"""Changes of configs: AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339), their checks and their records
(Kafka: ConfigurationControlManager).

Rule: one resource changes whole or not at all, and only real changes are written, except for brokers. Loggers are no
metadata and are not handled here.

A set of overrides is checked as it would stand after the change, with Kafka's error and sentence. Topics, groups and
metrics subscriptions are the controller's checks (INVALID_CONFIG); a broker's configs are checked by that broker
(INVALID_REQUEST), because only the broker knows its static settings.

The replicas that are eligible to lead (KIP-966) follow from `min.insync.replicas`, so a new value leaves none eligible.
A ClearElrRecord behind the config says so, for one topic or for all. Only where no replica is in sync they stay
eligible, for nothing has been committed there since, under any minimum. Kafka forgets them, and such a partition never
gets a leader again by itself, although an operator may lower the minimum just then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pykafka_broker.cluster.controller import (
    CORDONED_FROM,
    MAX_RECORDS_PER_OPERATION,
    ConfigAlteration,
    Controller,
    RequestRefused,
    TooManyRecords,
    invalid_request,
)
from pykafka_broker.cluster.features import ELR_VERSION, METADATA_VERSIONS
from pykafka_broker.cluster.image import MetadataImage, TopicImage
from pykafka_broker.cluster.partition_change import still_eligible
from pykafka_broker.cluster.records import ApiMessageAndVersion, Records
from pykafka_broker.cluster.topic_names import check_topic_name
from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.config.describe import base_name
from pykafka_broker.config.group import limits_of
from pykafka_broker.config.java_regex import JavaRegexError, compile_java
from pykafka_broker.config.problems import cordon_problems
from pykafka_broker.config.registry import (
    ConfigKey,
    broker_keys,
    client_metrics_keys,
    group_keys,
    inherited,
    topic_keys,
)
from pykafka_broker.config.topic import live_keys, parse_overrides
from pykafka_broker.config.values import (
    ConfigError,
    ConfigType,
    assignor_name,
    format_value,
    invalid,
    java_integer,
    parse_value,
)
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored.config_record import ConfigRecord

R = TypeVar("R")
_OPERATIONS = frozenset(AlterConfigOp)
_NAMES: dict[int, str] = {AlterConfigOp.APPEND: "APPEND", AlterConfigOp.SUBTRACT: "SUBTRACT"}
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_ASSIGNOR_NAME = "streams.assignor.name"
_KEYS = {
    ConfigResourceType.TOPIC: topic_keys,
    ConfigResourceType.BROKER: broker_keys,
    ConfigResourceType.GROUP: group_keys,
    ConfigResourceType.CLIENT_METRICS: client_metrics_keys,
}
Permit = Callable[[], None]
Overrides = Mapping[str, str]
MIN_INSYNC_REPLICAS = "min.insync.replicas"
CORDONED_LOG_DIRS = "cordoned.log.dirs"
# Pools that may at most double or halve in one step (KIP-226).
_POOLS = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
# Known as dynamic to Kafka, and fixed here: sockets are bound once.
_FIXED_HERE = ("listeners", "listener.security.protocol.map")
# Keys and trust stores: each listener has its own.
_PER_LISTENER = frozenset(
    f"ssl.{store}store.{part}"
    for store, parts in {
        "key": ("type", "location", "password", "key", "certificate.chain"),
        "trust": ("type", "location", "password", "certificates"),
    }.items()
    for part in parts
) | {"ssl.key.password"}
_OF_ALL_LISTENERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")
_NEVER_NOTHING = ("max.connections", "max.connection.creation.rate")  # nobody could connect to undo it
_DOTS_OF_PREFIX = 3  # "listener.name.<name>."
_CLIENT_MATCHES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
_MIN_DEDUPE_BYTES = 1024 * 1024
_MIN_INTERVAL_MS, _MAX_INTERVAL_MS = 100, 3_600_000


def anybody() -> None:
    """Permit the change: rights have been checked, or no authorizer exists."""


class ConfigOp(NamedTuple):
    key: str
    operation: int
    value: str | None


def incremental_alter_configs(
    controller: Controller, kind: int, name: str, ops: Sequence[ConfigOp], permit: Permit = anybody
) -> Records:
    """Return the records for changes of a resource.

    Args:
        ops: changes which have passed `check_ops`.
        permit: raises ApiError if the client lacks the right; called after a broker's checks, before a controller's.

    Raises:
        ApiError: a change is refused.
    """
    _check_resource(controller, kind, name)
    present = controller.image.config(kind, name)
    changed: dict[str, str | None] = {}
    if kind == ConfigResourceType.BROKER:  # a broker checks all operations before it forwards them
        check_operations(ops)
    for op in ops:
        if op.operation in (AlterConfigOp.APPEND, AlterConfigOp.SUBTRACT):
            changed[op.key] = _edited_list(controller, ConfigResourceType(kind), op, present.get(op.key))
        else:
            changed[op.key] = op.value if op.operation == AlterConfigOp.SET else None
    check_operations(ops, RequestRefused)  # Kafka finds them in the order of a hash table
    return _records(controller, kind, name, present, changed, changed, permit)


def alter_configs(
    controller: Controller, kind: int, name: str, ops: Sequence[ConfigOp], permit: Permit = anybody
) -> Records:
    """Return the records for making `ops` the only configs of a resource.

    Args:
        ops: changes which have passed `check_ops`.

    Raises:
        ApiError: a change is refused.
    """
    configs = {op.key: op.value for op in ops}
    changed = dict(configs)
    _check_resource(controller, kind, name)
    present = controller.image.config(kind, name)
    changed.update((key, None) for key in present if key not in changed)
    return _records(controller, kind, name, present, changed, configs, permit)


def check_ops(ops: Sequence[ConfigOp]) -> None:
    """Check a list of changes for any resource. Raises ApiError: a key comes twice, or a value is missing."""
    nulls: list[str] = []
    keys: set[str] = set()
    for op in ops:
        keys.add(op.key)
        if op.value is None and op.operation != AlterConfigOp.DELETE:
            nulls.append(op.key)
    if len(keys) < len(ops):
        raise invalid_request("Error due to duplicate config keys")
    if nulls:
        raise invalid_request(f"Null value not supported for : {','.join(nulls)}")


def check_operations(ops: Sequence[ConfigOp], refusal: type[ApiError] = ApiError) -> None:
    """Check the operations of changes. Raises `refusal`; a controller of Kafka's says UNKNOWN_SERVER_ERROR instead."""
    for op in ops:
        if op.operation not in _OPERATIONS:
            raise refusal(ErrorCode.INVALID_REQUEST, f"Unknown operation type {op.operation}")


def _check_resource(controller: Controller, kind: int, name: str) -> None:
    """Check kind and name of a resource; a topic's name is looked at later, behind the changes of lists."""
    if kind == ConfigResourceType.BROKER:
        check_broker_name(controller, name)
    elif kind not in _KEYS:
        raise invalid_request(f"Unknown resource type {kind}")


def _edited_list(controller: Controller, kind: ConfigResourceType, op: ConfigOp, present: str | None) -> str:
    key = _KEYS[kind]().get(op.key)
    if key is None or key.type is not ConfigType.LIST or kind is ConfigResourceType.CLIENT_METRICS:
        if kind is ConfigResourceType.BROKER:
            word = _NAMES[op.operation].lower()
            reason = f"Config value {word} is not allowed for config key: {op.key}"
        else:
            reason = f"Can't {_NAMES[op.operation]} to key {op.key} because its type is not LIST."
        raise _invalid_config(reason)
    if present is None:
        of_broker = kind is ConfigResourceType.BROKER
        present = format_value(controller.config[key.name] if of_broker else inherited(key, controller.config)) or ""
    parts = [part.strip() for part in present.split(",") if part.strip()]
    wanted = [part.strip() for part in (op.value or "").split(",")]
    if op.operation == AlterConfigOp.APPEND:
        parts += [part for part in dict.fromkeys(wanted) if part not in parts]
    else:
        parts = [part for part in parts if part not in wanted]
    return ",".join(parts)


def _records(
    controller: Controller,
    kind: int,
    name: str,
    present: Mapping[str, str],
    changed: Mapping[str, str | None],
    named: Mapping[str, str | None],
    permit: Permit,
) -> Records:
    """Check changes of a resource and return their records.

    Args:
        present: the configs before.
        changed: the new values, None for removed configs.
        named: the changes that the request names: AlterConfigs removes all other configs.
    """
    overrides = {key: value for key, value in {**present, **changed}.items() if value is not None}
    if kind == ConfigResourceType.TOPIC:
        if not name:
            raise invalid_request("Default topic resources are not allowed.")
        check_topic_name(name)
        # An unknown config left by another release is no fault of this request.
        if not overrides.keys() <= changed.keys():
            known = {key.name for key in live_keys(controller.config)}
            overrides = {key: value for key, value in overrides.items() if key in known or key in changed}
        check_topic(controller.config, overrides)
        if name not in controller.image.topics:  # the last check: a bad value is reported even for a missing topic
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif kind == ConfigResourceType.BROKER:
        if len(changed) > MAX_RECORDS_PER_OPERATION:
            raise TooManyRecords
        check_broker(controller, name, changed, overrides)
        permit()
        check_of_cluster(controller, name, changed)
    elif kind == ConfigResourceType.GROUP:
        theirs = controller.config.group_keys
        left = {key for key in overrides if key in theirs and theirs[key].removed and key not in changed}
        check_group(controller.config, name, {key: value for key, value in overrides.items() if key not in left})
    else:
        check_client_metrics(name, overrides)
    if controller.policies is not None:
        always = kind == ConfigResourceType.BROKER  # as Kafka has it
        asked = {key: value for key, value in named.items() if always or value != present.get(key)}
        controller.policies.check_configs(ConfigAlteration(ConfigResourceType(kind).name, name, asked))
    # A broker reads the files named by its settings again, even if the names stay (KAFKA-14136).
    written = {
        key: value for key, value in changed.items() if value != present.get(key) or kind == ConfigResourceType.BROKER
    }
    return config_records(controller.image, kind, name, written)


# -- checks


def check_topic(config: BrokerConfig, overrides: Overrides) -> None:
    """Check the configs of a topic, new or changed."""
    try:
        values = parse_overrides(overrides, config.topic_keys)
    except ConfigError as error:
        raise _invalid_config(str(error)) from None
    lowest, highest = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if isinstance(lowest, int) and isinstance(highest, int) and lowest > highest:
        raise _invalid_config(
            f"conflict topic config setting min.compaction.lag.ms ({lowest}) > max.compaction.lag.ms ({highest})"
        )
    if values.get("remote.storage.enable"):
        raise _invalid_config(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def check_group(config: BrokerConfig, name: str, overrides: Overrides) -> None:
    if not name:
        raise invalid_request("Default group resources are not allowed.")
    keys = config.group_keys
    for key, text in overrides.items():
        if key not in keys or keys[key].removed:
            raise _invalid_config(f"Unknown group config name: {key}")
        if key == _DEAD_LETTERS and text.startswith("__"):
            raise _invalid_config(f"{key}: DLQ topic name must not start with '__'")
        if key == _ASSIGNOR_NAME and text not in (known := [*map(assignor_name, config.group_streams_assignors)]):
            raise _invalid_config(
                f"{key} '{text}' is not a registered task assignor. Registered assignors are: [{', '.join(known)}]."
            )
        try:
            value = parse_value(keys[key], text)
        except ConfigError as error:
            raise _invalid_config(str(error)) from None
        if isinstance(value, int):
            _check_limits(config, key, value)


def _check_limits(config: BrokerConfig, key: str, value: int) -> None:
    """Refuse a value outside of the broker's limits, which since 4.4 are told by their values and not by their keys."""
    least, most = limits_of(key)
    is_too_low = least is not None and value < config[least]
    if not is_too_low and (most is None or value <= config[most]):
        return
    if config.is_of_4_4 and least is not None and most is not None:
        raise _invalid_config(f"{key} must be in the range {config[least]} to {config[most]} inclusive.")
    word, limit = ("greater", least) if is_too_low else ("less", most)
    assert limit is not None
    raise _invalid_config(f"{key} must be {word} than or equal to {config[limit] if config.is_of_4_4 else limit}")


def check_client_metrics(name: str, overrides: Overrides) -> None:
    if not name:
        raise invalid_request("Subscription name can't be empty")
    keys = client_metrics_keys()
    unknown = [key for key in overrides if key not in keys]
    if unknown:
        raise invalid_request(f"Unknown client metrics configuration: {unknown[0]}")
    for key, text in sorted(overrides.items()):  # Kafka's hash table has `interval.ms` before `match` too
        try:
            value = parse_value(keys[key], text)
        except ConfigError as error:
            raise _invalid_config(str(error)) from None
        if isinstance(value, int) and not _MIN_INTERVAL_MS <= value <= _MAX_INTERVAL_MS:
            raise invalid_request(
                f"Invalid value {value} for {key}, interval must be between {_MIN_INTERVAL_MS} and {_MAX_INTERVAL_MS} "
                "(1 hour)"
            )
        if key == "match" and isinstance(value, list):
            for pattern in value:
                _check_match(pattern)


def _check_match(pattern: str) -> None:
    name, equals, expression = pattern.rstrip("=").partition("=")  # as String.split, which drops empty ends
    try:
        compile_java(expression.strip())
    except JavaRegexError:
        equals = ""
    if not equals or not expression.strip() or "=" in expression or name.strip() not in _CLIENT_MATCHES:
        raise _invalid_config(f"Illegal client matching pattern: {pattern}")


def check_broker(controller: Controller, name: str, changed: Mapping[str, str | None], overrides: Overrides) -> None:
    """Check changes of a broker's configs: `changed` by the request, `overrides` set for the resource afterwards."""
    if not _is_of_this_node(controller, name):  # that broker has checked the change
        return
    keys = controller.config.keys
    given = [key for key, text in changed.items() if text is not None]
    known = [key for key in given if key in keys and not keys[key].removed]
    fixed = [key for key in known if keys[key].read_only or (name and key in _FIXED_HERE)]
    _refuse_all(fixed, "Cannot update these configs dynamically")
    _refuse_all(
        [key for key in known if key in _PER_LISTENER],
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    try:
        for key in known:
            parse_value(_once_only(keys[key], controller.config), changed[key] or "")
            _check_classes(keys[key], changed[key] or "")
    except ConfigError as error:
        raise invalid_request(str(error)) from None
    _check_of_listeners(controller.config, changed)
    if not name:
        of_listeners = [key for key in given if base_name(key) not in {key, *_OF_ALL_LISTENERS}]
        _refuse_all(
            [*(key for key in known if keys[key].mode == "per-broker"), *of_listeners],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    proposed = _check_broker_values(controller, name, overrides)
    if name:
        try:
            for check in controller.check_listeners:
                check(proposed, changed.keys())
        except ConfigError as error:
            raise _invalid_dynamic(str(error)) from None


def _once_only(key: ConfigKey, config: BrokerConfig) -> ConfigKey:
    """Return the key as 4.4 reads its changes: members of a list that count once at a start may not be repeated."""
    return key._replace(rule="list") if key.rule == "repeatable-list" and config.is_of_4_4 else key


def _is_of_this_node(controller: Controller, name: str) -> bool:
    """Return whether the configs apply to the node, alone or among others."""
    if controller.alone:
        return True
    return controller.node_id in controller.image.brokers and name in ("", str(controller.node_id))


def check_of_cluster(controller: Controller, name: str, changed: Mapping[str, str | None]) -> None:
    """Check settings depending on more than a single broker, which only a controller looks at."""
    _check_min_insync_replicas(controller, name, changed)
    if changed.get(CORDONED_LOG_DIRS) is not None and controller.broker_record_version() < 4:
        level = METADATA_VERSIONS[CORDONED_FROM]
        raise _invalid_config(
            f"The {CORDONED_LOG_DIRS} configuration value cannot be set because it requires metadata.version >= {level}"
        )


def _check_of_listeners(config: BrokerConfig, changed: Mapping[str, str | None]) -> None:
    """Check settings of a listener, or of a mechanism on a listener, as the key without the prefix.

    What may change while a broker runs is checked for any name of a listener, the rest for listeners that there are.
    """
    keys = broker_keys()
    own = tuple(f"listener.name.{name}." for name in _listeners_of_clients(config))
    for name, text in changed.items():
        base = base_name(name)
        if text is None or base == name or base not in keys:
            continue
        checked_anyhow = not keys[base].read_only and name.count(".") - base.count(".") == _DOTS_OF_PREFIX
        if not checked_anyhow and not name.startswith(own):
            continue
        try:
            parse_value(keys[base], text)
            if ":" not in text:  # otherwise a Python class, which is looked up when it is needed
                _check_classes(keys[base], text)
        except ConfigError as error:
            raise (invalid_request if checked_anyhow else _invalid_dynamic)(str(error)) from None
        if base in _NEVER_NOTHING and name.startswith(own) and int(text) == 0:
            raise _invalid_dynamic(f"Invalid {base} 0")


def _listeners_of_clients(config: BrokerConfig) -> set[str]:
    """Return the names of the listeners, but those of controllers, in lower case."""
    names = {text.strip().lower().partition("://")[0] for text in config.listeners or ()}
    return names.difference(name.strip().lower() for name in config.controller_listener_names or ())


def _check_classes(key: ConfigKey, text: str) -> None:
    """Refuse unknown classes. Kafka loads classes at once, and without Java only Kafka's own names make sense."""
    if key.type is not ConfigType.CLASS and key.name != "metric.reporters":
        return
    for name in filter(None, (part.strip() for part in text.split(","))):
        if not name.startswith("org.apache.kafka."):
            raise invalid(key.name, name, f"Class {name} could not be found.")


def check_broker_name(controller: Controller, name: str) -> None:
    """Check a broker's name, empty for all brokers; a node alone takes changes of the node's own configs only."""
    if not name:
        return
    try:
        wanted = java_integer(name)
    except ValueError:
        raise invalid_request(f"Node id must be an integer, but it is: {name}") from None
    image = controller.image
    if controller.alone and wanted != controller.node_id:
        raise invalid_request(f"Unexpected broker id, expected {controller.node_id}, but received {wanted}")
    if (
        wanted not in image.brokers
        and wanted not in image.controllers
        and not image.config(ConfigResourceType.BROKER, name)
    ):
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {wanted} found.")


def _refuse_all(keys: Iterable[str], reason: str) -> None:
    names = ", ".join(keys)
    if names:
        raise invalid_request(f"{reason}: [{names}]")


def _check_broker_values(controller: Controller, name: str, overrides: Overrides) -> BrokerConfig:
    """Check values against each other and the present values, and return the configuration after the change."""
    current = controller.config
    layers = (overrides, current.dynamic_broker) if not name else (current.dynamic_default, overrides)
    proposed = current.with_dynamic(*layers)
    for pool in _POOLS:
        new, old = proposed[pool], current[pool]
        if not old // 2 <= new <= 2 * old:
            should = "should not be greater than double" if new > 2 * old else "should be at least half"
            problem = f"{pool}={new}, value {should} the current value {old}"
            raise _invalid_dynamic(f"Dynamic thread count update validation failed for {problem}")
    cleaners, now = proposed.log_cleaner_threads, current.log_cleaner_threads
    if cleaners < 1:
        raise _invalid_dynamic("Log cleaner threads should be at least 1")
    if cleaners > 2 * now:
        raise _invalid_dynamic(f"Log cleaner threads cannot be increased to more than double the current value {now}")
    if cleaners < now // 2:
        raise _invalid_dynamic(f"Log cleaner threads cannot be reduced to less than half the current value {now}")
    if proposed["log.cleaner.dedupe.buffer.size"] // cleaners <= _MIN_DEDUPE_BYTES:
        raise invalid_request(
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
        )
    retention = proposed["log.retention.ms"]
    if retention == 0:
        raise invalid_request(
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
        )
    local = proposed["log.local.retention.ms"]
    if retention is not None and 0 <= retention < local:
        raise _invalid_dynamic(
            f"Invalid value {local} for configuration log.local.retention.ms: Value must not be more than "
            f"log.retention.ms property value: {retention}"
        )
    for problem in cordon_problems(proposed):
        raise invalid_request(f"requirement failed: {problem}")
    for key in _NEVER_NOTHING:
        if proposed[key] == 0 != current[key]:
            raise _invalid_dynamic(f"Invalid {key} 0")
    for entry in filter(None, str(proposed["max.connections.per.ip.overrides"] or "").split(",")):
        if not entry.rpartition(":")[2].strip().isdecimal() or ":" not in entry:
            raise invalid_request(f"Error parsing configuration property 'max.connections.per.ip.overrides': {entry}")
    return proposed


def _check_min_insync_replicas(controller: Controller, name: str, changed: Mapping[str, str | None]) -> None:
    """Refuse values of a single broker: eligible leader replicas (KIP-966) need one value for all brokers."""
    if MIN_INSYNC_REPLICAS not in changed or not controller.image.features.get(ELR_VERSION, 0):
        return
    if name:
        raise _invalid_config("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    if changed[MIN_INSYNC_REPLICAS] is None:
        raise _invalid_config("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")


def _invalid_config(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, message)


def _invalid_dynamic(message: str) -> ApiError:
    """Wrap a message as Kafka wraps messages of a reconfigurable part of the broker."""
    return invalid_request(
        f"Invalid value org.apache.kafka.common.config.ConfigException: {message} for configuration Invalid dynamic "
        "configuration"
    )


# -- records


def config_records(
    image: MetadataImage, kind: int, name: str, values: Mapping[str, str | None]
) -> list[ApiMessageAndVersion]:
    """Return the records giving a resource some values; None for the value of the level below."""
    records = []
    for key, value in values.items():
        records.append(ApiMessageAndVersion(ConfigRecord(kind, name, key, value), 0))
        if (
            key == MIN_INSYNC_REPLICAS
            and value != image.config(kind, name).get(key)
            and image.features.get(ELR_VERSION, 0)
        ):
            records += _eligible_no_more(image, kind, name)
    return records


def _eligible_no_more(image: MetadataImage, kind: int, name: str) -> Iterator[ApiMessageAndVersion]:
    from pykafka_broker.protocol.stored.clear_elr_record import ClearElrRecord

    topics: Iterable[TopicImage]
    if kind == ConfigResourceType.TOPIC:
        topics = [image.topics[name]] if name in image.topics else []  # the topic may be about to be created
    elif kind == ConfigResourceType.BROKER and not name:
        topics = image.topics.values()
    else:
        return
    yield ApiMessageAndVersion(ClearElrRecord(name), 0)
    for topic in topics:
        for partition in topic.partitions.values():
            if not partition.isr:
                yield still_eligible(topic, partition)
