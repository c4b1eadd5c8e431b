"""Contradictions between values that are valid each by itself (Kafka: KafkaConfig.validateValues).

Rule: the texts are Kafka's sentences, which name the keys and their condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from pykafka_broker.addresses import split_address
from pykafka_broker.config.broker import ALL_DIRS, BrokerConfig
from pykafka_broker.config.group import limits_of
from pykafka_broker.config.registry import group_keys
from pykafka_broker.config.roles import roles_of
from pykafka_broker.config.values import assignor_name

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_ALL_INTERFACES = ("0.0.0.0", "::")


def problems(config: BrokerConfig) -> Iterator[str]:
    """Yield a sentence for each contradiction among the broker's values."""
    if config.node_id is not None and config.node_id != config.broker_id:
        yield "You must set `node.id` to the same value as `broker.id`."
    topic = config.topic_defaults
    if topic.segment_ms < 1:
        yield "log.roll.ms must be greater than or equal to 1"
    if topic.segment_jitter_ms < 0:
        yield "log.roll.jitter.ms must be greater than or equal to 0"
    if topic.retention_ms == 0:
        yield "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        yield "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    is_broker = "broker" in (config.process_roles or ("broker",))
    if is_broker and config.replica_selector_class not in (None, "", RACK_AWARE):  # Kafka comes with no other class
        yield f"replica.selector.class: class {config.replica_selector_class} cannot be found"
    for key, assignors, known in (  # Kafka comes with no other ones
        ("group.consumer.assignors", config.group_consumer_assignors, ("uniform", "range")),
        ("group.share.assignors", config.group_share_assignors, ("simple",)),
        ("group.streams.assignors", config.group_streams_assignors, ("sticky",)),
    ):
        for name in assignors:
            if assignor_name(name) not in known:
                yield f"Invalid value {name} for configuration {key}: Class cannot be found"
    yield from _login_problems(config)
    yield from cordon_problems(config)
    yield from _connection_problems(config)
    if config.process_roles == ["broker"]:
        yield from _membership_problems(config)
    if is_broker and not roles_of(config).alone:
        yield from _inter_broker_problems(config)
    for name, least, most in _group_limits():
        if least is not None and config[name] < config[least]:
            yield f"{name} must be greater than or equal to {least}"
        if most is not None and config[name] > config[most]:
            yield f"{name} must be less than or equal to {most}"


def cordon_problems(config: BrokerConfig) -> Iterator[str]:
    """Yield mistakes of `cordoned.log.dirs`, which may change while the broker runs (KIP-1066)."""
    cordoned = config.cordoned_log_dirs
    if ALL_DIRS in cordoned:
        if len(cordoned) > 1:
            yield f"When cordoned.log.dirs is set to {ALL_DIRS}, it must not contain other values"
        return
    missing = [path for path in cordoned if path not in config.data_dirs]
    if missing:
        yield (
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}"
        )


def _membership_problems(config: BrokerConfig) -> Iterator[str]:
    """Yield mistakes of a broker with other nodes as controllers.

    The broker has to find the controllers; the controllers and other brokers have to find the broker.
    """
    voters = sorted(int(text.strip().partition("@")[0]) for text in config.controller_quorum_voters)
    if not voters and not config.controller_quorum_bootstrap_servers:
        yield (
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
            "controllers or controller.quorum.voters must contain a parseable set of controllers."
        )
    if config.node in voters:
        yield (
            f"If process.roles contains just the 'broker' role, the node id {config.node} must not be included in the "
            f"set of voters controller.quorum.voters=Set({', '.join(map(str, voters))})"
        )
    names = [name for name, _ in map(_listener, config.listeners)]
    if not set(names).isdisjoint(name.upper() for name in config.controller_listener_names or ()):
        yield (
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when "
            "running KRaft with just the broker role"
        )
        return
    told = _told(config)
    if any(host in _ALL_INTERFACES for _, host in told):
        yield "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."


def _told(config: BrokerConfig) -> list[tuple[str, str]]:
    """Return name and host of each listener that others are told of."""
    return [_listener(text) for text in config.advertised_listeners or config.listeners]


def _inter_broker_problems(config: BrokerConfig) -> Iterator[str]:
    """Yield a listener for brokers that is none of this node's, which others would look for in vain."""
    controllers = [name.upper() for name in config.controller_listener_names or ()]
    known = [name for name, _ in _told(config) if name not in controllers]
    if config.inter_broker_listener_name and config.inter_broker_listener_name.upper() not in known:
        yield (
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            f"based on currently configured listeners are {','.join(known)}"
        )


def _listener(text: str) -> tuple[str, str]:
    """Return a listener's name and host."""
    name, _, address = text.strip().partition("://")
    return name.upper(), split_address(address)[0]


def _login_problems(config: BrokerConfig) -> Iterator[str]:
    """Yield a contradiction of delays: a refusal has to come before the end of an idle connection."""
    delay, idle = config.connection_failed_authentication_delay_ms, config.connections_max_idle_ms
    if 0 <= idle <= delay:
        yield (
            f"connection.failed.authentication.delay.ms={delay} should always be less than connections.max.idle.ms="
            f"{idle} to prevent failed authentication responses from timing out"
        )


def _connection_problems(config: BrokerConfig) -> Iterator[str]:
    overrides = config.max_connections_per_ip_overrides
    if config.max_connections_per_ip == 0 and not overrides:
        yield "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    for pair in filter(None, (pair.strip() for pair in overrides.split(","))):
        host, _, count = pair.rpartition(":")
        if not host or not count.strip().isdecimal():
            yield f"Error parsing configuration property 'max.connections.per.ip.overrides': {pair} is not host:count"


@cache
def _group_limits() -> list[tuple[str, str | None, str | None]]:
    """Return the broker-wide keys of groups, with the keys of their least and greatest values."""
    return [(name, *limits_of(name)) for name in (f"group.{key}" for key in group_keys())]
