"""The effect of each config key in this broker.

Rule: a key is *honoured* when code outside this package reads it (a test looks for the place); *refused* when ignoring
it would promise something that does not exist; *no effect* when it is accepted because nothing here depends on it. A
key that begins to work is added to `honoured.json`. A broker key is honoured too when a topic or group key falls back
to it, or is limited by it.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache

from pykafka_broker.config.broker import BrokerConfig
from pykafka_broker.config.group import limits_of
from pykafka_broker.config.registry import broker_keys, group_keys, topic_keys

EFFECTS = ("honoured", "no effect", "refused")

with open(os.path.join(os.path.dirname(__file__), "honoured.json"), "rb") as _file:
    HONOURED: dict[str, frozenset[str]] = {scope: frozenset(names) for scope, names in json.load(_file).items()}

# Names of Kafka's authorizer by ACLs, today and in releases with ZooKeeper.
STANDARD_AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)

# Classes of Python are called (security/hooks/); classes of Java are refused.
HOOKS = {
    "alter.config.policy.class.name": "veto changes",
    "authorizer.class.name": "say who may do what",
    "client.quota.callback.class": "set quotas",
    "create.topic.policy.class.name": "veto topics",
}

# Refused when set to something else than the default.
REFUSED = {
    "group.streams.topology.description.plugin.class": "it names a Java class that would have to keep descriptions",
    "config.providers": "values are taken as they stand, so a reference to a provider would be used as the value",
    "remote.log.storage.system.enable": "there is no tiered storage",
    "ssl.engine.factory.class": "it names a Java class that would have to speak TLS",
}
REFUSED_TOPIC = {"remote.storage.enable": "there is no tiered storage"}

# Why a key has no effect, by name; the first fitting pattern counts.
_REASONS = [
    (re.compile(pattern), reason)
    for reason, pattern in (
        ("TLS is OpenSSL's here", r"ssl\."),
        ("this broker gets tokens from files and by client credentials", r"sasl\.oauthbearer\.assertion"),
        ("a token or a ticket is got when this broker logs in", r"sasl\.(login|kerberos)"),
        ("clients of mechanisms are the project's own", r"sasl\.client"),
        ("dead letters of share groups are written by this broker's own class", r"group\.share\.dlq"),
        ("targets are computed on the one event loop", r".*assignor\.offload"),
        ("no streams task warms up, as in Kafka 4.4", r".*warmup"),
        ("there is no tiered storage", r".*(remote\.|local\.retention)|follower\.fetch\.last\.tiered"),
        ("no quorum here has several voters", r"controller\.quorum"),
        ("links to other brokers have a time-out of their own", r"socket\.connection\.setup"),
        ("what moves between directories is not throttled", r"alter\.log\.dirs"),
        ("one thread moves replicas, and sockets have the system's buffers", r".*replica"),
        ("listeners open when their node may serve", r"early\.start"),
        ("one event loop serves everything", r".*threads|.*thread\.pool\.size"),
        ("there is no such buffer", r".*purgatory\.purge|queued\.max\.requests|.*(cached|load|cleaner\.io)\.buffer"),
        ("what a coordinator writes is appended in the turn of the loop that brings it", r".*append\.linger"),
        ("there are no metrics reporters", r".*metric|auto\.include\.jmx"),
        ("there is no Java", r"security\.providers"),
        ("internal to Kafka", r"internal\.|unstable\."),
    )
]


def effect_of(scope: str, name: str) -> tuple[str, str]:
    """Return a key's effect and the reason, or an empty text, by scope: broker, topic, group or client-metrics."""
    if name in _EFFECTIVE[scope]:
        return "honoured", ""
    refused = {"broker": REFUSED, "topic": REFUSED_TOPIC}.get(scope, {})
    if name in refused:
        return "refused", refused[name]
    keys = {"broker": broker_keys, "topic": topic_keys, "group": group_keys}.get(scope)
    if keys is not None and keys()[name].removed and keys()[name].since is None:
        return ("refused" if scope == "topic" else "no effect"), "removed in Kafka 4.0"
    reason = next((reason for pattern, reason in _REASONS if pattern.match(name)), "nothing here depends on it yet")
    return "no effect", reason


@lru_cache(1024)
def has_no_effect(name: str) -> bool:
    """Return whether a broker key is known without any effect."""
    return name in broker_keys() and effect_of("broker", name)[0] == "no effect"


def refusals(config: BrokerConfig) -> list[str]:
    """Return a line for each static setting refused by the broker."""
    lines = [
        f"Invalid value {config.static[name]} for configuration {name}: {reason}"
        for name, reason in REFUSED.items()
        if name in config.static and config[name] != broker_keys()[name].default
    ]
    for name, work in HOOKS.items():
        if config[name] and ":" not in config[name] and config[name] not in STANDARD_AUTHORIZERS:
            reason = f"it names a Java class that would have to {work}"
            lines.append(f"Invalid value {config[name]} for configuration {name}: {reason}")
    return lines + _refused_roles(config)


def _refused_roles(config: BrokerConfig) -> list[str]:
    """Refuse a quorum of several voters, which is Apache Kafka's business."""
    from pykafka_broker.config.roles import roles_of  # which reads settings, and so stands above them

    roles = roles_of(config)
    if not roles.controller:
        return []
    if not roles.broker and roles.alone:
        reason = "a controller alone needs one of controller.listener.names among its listeners"
        return [f"Invalid value controller for configuration process.roles: {reason}"]
    voters = config.controller_quorum_voters
    several = len(voters or config.controller_quorum_bootstrap_servers) > 1
    if several or (roles.voters and config.node not in roles.voters):
        name = "controller.quorum.voters" if voters else "controller.quorum.bootstrap.servers"
        reason = "this node can be the only voter, or a broker of Apache Kafka's controllers (process.roles=broker)"
        return [f"Invalid value {','.join(config[name])} for configuration {name}: {reason}"]
    return []


def _honoured_by_fallback() -> frozenset[str]:
    """Return the broker's keys behind honoured keys of topics and groups."""
    behind: set[str | None] = set()
    for scope, keys in (("topic", topic_keys()), ("group", group_keys())):
        for name in HONOURED[scope]:
            behind.update(synonym for synonym, _ in keys[name].synonyms)
    behind.update(limit for name in HONOURED["group"] for limit in limits_of(name))
    return frozenset(name for name in behind if name is not None)


_EFFECTIVE = HONOURED | {"broker": HONOURED["broker"] | _honoured_by_fallback()}
