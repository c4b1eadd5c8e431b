"""The list of effects is complete and doesn't lie: an honoured key is read somewhere, and a key that is read is
honoured."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import pykafka_broker
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.effects import (
    EFFECTS,
    HONOURED,
    REFUSED,
    REFUSED_TOPIC,
    effect_of,
    has_no_effect,
    refusals,
)
from pykafka_broker.config.registry import broker_keys, client_metrics_keys, group_keys, topic_keys

SCOPES = {
    "broker": broker_keys(),
    "topic": topic_keys(),
    "group": group_keys(),
    "client-metrics": client_metrics_keys(),
}
# Keys that another name stands for: the config package turns them into it.
READ_AS = {
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
    "host.name": "listeners",
    "port": "listeners",
    "broker.id": "node",
    "cordoned.log.dirs": "cordoned.dirs",
    "node.id": "node",
    "log.dir": "data.dirs",
    "log.dirs": "data.dirs",
    "internal.segment.bytes": "segment.bytes",
}
# By `roles_of` and `refusals`.
READ_HERE = {"process.roles", "controller.quorum.bootstrap.servers", "controller.quorum.voters"}


CHECKS = {"config_changes.py"}  # they read values only to judge a change


@cache
def reads() -> dict[str, set[str]]:
    """Return for each attribute the names under which code outside config/ and cli/ reads it."""
    root = Path(pykafka_broker.__file__).parent
    found: dict[str, set[str]] = {}
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] in ("config", "cli", "protocol", "testing") or path.name in CHECKS:
            continue
        text = path.read_text()
        for owner, attribute in re.findall(r"(\w+|\))(?:\(\))?(?=\.([a-z_0-9]+)\b)", text):
            found.setdefault(attribute, set()).add(owner)
        for attribute in re.findall(r"topic_config\([^()]+\)\.([a-z_0-9]+)\b", text):  # asked for and read in one go
            found.setdefault(attribute, set()).add("config")
        # config["a.key"], and keys whose values a method of the config computes: replication_factor("a.key", brokers)
        for name in re.findall(r'(?:config\[|\.replication_factor\(|settings\.(?:get|text)\()"([a-z.0-9]+)"', text):
            found.setdefault(name.replace(".", "_"), set()).add("config")
    return found


def is_read(name: str) -> bool:
    owners = reads().get(READ_AS.get(name, name).replace(".", "_"), set())
    if name in group_keys():
        return bool(owners)  # nothing else has attributes of these names
    return any("config" in owner or owner in ("topic_defaults", "settings") for owner in owners)


@pytest.mark.parametrize("scope", SCOPES)
def test_every_key_has_one_effect(scope: str) -> None:
    for name in SCOPES[scope]:
        effect, reason = effect_of(scope, name)
        assert effect in EFFECTS
        assert bool(reason) == (effect != "honoured")


def test_lists_name_keys_that_exist() -> None:
    assert broker_keys().keys() >= HONOURED["broker"] | REFUSED.keys()
    assert topic_keys().keys() >= HONOURED["topic"] | REFUSED_TOPIC.keys()
    assert group_keys().keys() >= HONOURED["group"]
    assert not HONOURED["broker"] & REFUSED.keys()


def test_an_honoured_key_is_read_somewhere() -> None:
    honoured = (HONOURED["broker"] - READ_HERE) | HONOURED["topic"] | HONOURED["group"]
    assert {name for name in honoured if not is_read(name)} == set()


@pytest.mark.parametrize("scope", ["broker", "topic", "group"])
def test_a_key_that_is_read_is_honoured(scope: str) -> None:
    """Whoever makes a key work adds it to `effects.py`."""
    read = {name for name in SCOPES[scope] if is_read(name)}
    assert {name for name in read if effect_of(scope, name)[0] != "honoured"} == set()


def test_limits_of_an_honoured_group_key_are_honoured() -> None:
    assert effect_of("broker", "group.consumer.min.session.timeout.ms") == ("honoured", "")
    assert effect_of("broker", "group.share.max.delivery.count.limit") == ("honoured", "")


def test_the_search_can_say_no() -> None:
    assert not is_read("zookeeper.set.acl")


@pytest.mark.parametrize(("name", "value"), [("authorizer.class.name", "a.B"), ("process.roles", "controller")])
def test_refusal_names_key_and_value(name: str, value: str) -> None:
    (line,) = refusals(BrokerConfig({name: value}))
    assert line.startswith(f"Invalid value {value} for configuration {name}: ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("controller.quorum.voters", "1@a:1,2@b:1,3@c:1"),
        ("controller.quorum.voters", "2@b:1"),
        ("controller.quorum.bootstrap.servers", "a:1,b:1"),
    ],
)
def test_several_voters_are_left_to_kafka(key: str, value: str) -> None:
    settings = {"node.id": "1", "listeners": "P://:1,C://:2", "controller.listener.names": "C", key: value}
    (line,) = refusals(BrokerConfig(settings))
    assert line.startswith(f"Invalid value {value} for configuration {key}: ")
    assert "Apache Kafka's controllers" in line
    assert not refusals(BrokerConfig({**settings, "process.roles": "broker"}))
    assert not refusals(BrokerConfig({**settings, key: "1@a:1" if "@" in value else "a:1"}))


@pytest.mark.parametrize(
    ("key", "value"),
    [("controller.quorum.voters", "1@a:1,2@b:1,3@c:1"), ("controller.quorum.bootstrap.servers", "a:1,b:1")],
)
def test_a_node_alone_does_not_pass_over_several_voters(key: str, value: str) -> None:
    (line,) = refusals(BrokerConfig({key: value}))
    assert line.startswith(f"Invalid value {value} for configuration {key}: ")
    assert not refusals(BrokerConfig({key: value.partition(",")[0]}))


def test_a_refused_key_may_be_set_to_its_default() -> None:
    assert not refusals(BrokerConfig({"security.inter.broker.protocol": "SSL", "authorizer.class.name": ""}))


def test_unknown_names_are_not_said_to_be_without_effect() -> None:
    assert has_no_effect("zookeeper.set.acl")
    assert not has_no_effect("no.such.key")
    assert not has_no_effect("listeners")
