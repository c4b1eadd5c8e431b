"""DescribeConfigs says what Kafka said of the same settings: our release and, where it is emulated, the other
(`recorder/DescribeConfigs.java` made the tables).

Every key is explained, in a sentence with its unit.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
    documentation,
)
from pykafka_broker.config.registry import broker_keys, client_metrics_keys, group_keys, topic_keys
from pykafka_broker.protocol.enums import ConfigSource
from tests.releases.other import OTHER

RELEASES = {"": "described.json", OTHER: "described_other.json"}  # the emulated release, empty for none
RECORDED: dict[str, dict[str, Any]] = {
    release: json.loads(Path(__file__).with_name(file).read_text()) for release, file in RELEASES.items()
}
RESOURCES = [(release, name) for release in RELEASES for name in RECORDED[release] if name != "static"]


@cache
def configured(release: str) -> BrokerConfig:
    recorded = RECORDED[release]
    static = {"pykafka.emulate": release, **recorded["static"]}
    return BrokerConfig(static).with_dynamic(recorded["BROKER/"]["set"], recorded["BROKER/1"]["set"])


def describe(broker: BrokerConfig, resource: str, overrides: dict[str, str]) -> list[ConfigEntry]:
    kind, _, name = resource.partition("/")
    if kind == "BROKER":
        return describe_broker(broker) if name else describe_broker_default(broker)
    if kind == "TOPIC":
        return describe_topic(broker, overrides)
    return describe_group(broker, overrides) if kind == "GROUP" else describe_client_metrics(overrides)


@pytest.mark.parametrize(("release", "resource"), RESOURCES)
def test_answer_is_kafkas(release: str, resource: str) -> None:
    expected = {}
    told = RECORDED[release][resource]
    recorded = {name: row for name, row in told.items() if name != "set"}
    for name, (value, source, kind, read_only, sensitive, synonyms) in recorded.items():
        rows = [(synonym, text, ConfigSource[where]) for synonym, text, where in synonyms]
        expected[name] = (name, value, ConfigSource[source], kind, read_only, sensitive, rows)
    entries = describe(configured(release), resource, told["set"])
    answered = {entry.name: (*entry[:3], entry.type.name, *entry[4:]) for entry in entries}
    assert answered.keys() == expected.keys()
    for name, row in expected.items():
        assert answered[name] == row


def test_a_set_internal_key_is_shown() -> None:
    names = {entry.name for entry in describe_broker(BrokerConfig({"log.initial.task.delay.ms": "1"}))}
    assert "log.initial.task.delay.ms" in names
    assert "unclean.leader.election.interval.ms" not in names


def test_a_key_for_run_time_only_has_no_default() -> None:
    name = "leader.replication.throttled.rate"
    assert name not in {entry.name for entry in describe_broker(BrokerConfig())}
    entries = {entry.name: entry for entry in describe_broker(BrokerConfig().with_dynamic({name: "5"}, {}))}
    assert entries[name].value == "5"
    assert entries[name].synonyms == [(name, "5", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("connections.max.reauth.ms", "abc"),
        ("plain.connections.max.reauth.ms", "007"),
        ("sasl.enabled.mechanisms", "PLAIN , SCRAM-SHA-256"),
        ("ssl.client.auth", "Wrong"),
    ],
)
def test_settings_of_a_listener_are_shown_as_they_stand(key: str, text: str) -> None:
    name = f"listener.name.nope.{key}"
    for config in (BrokerConfig({name: text}), BrokerConfig().with_dynamic({}, {name: text})):
        (entry,) = (each for each in describe_broker(config) if each.name == name)
        assert (entry.value, entry.synonyms[0].value) == (text, text)


KEYS = {"broker": broker_keys, "topic": topic_keys, "group": group_keys, "client_metrics": client_metrics_keys}
UNITS = {
    ".ms": "millisecond",
    ".millis": "millisecond",
    ".secs": "second",
    ".seconds": "second",
    ".minutes": "minute",
    ".hours": "hour",
    ".bytes": "byte",
    ".percentage": "percent",
}


@pytest.mark.parametrize("scope", KEYS)
def test_every_key_has_one_and_nothing_else_has(scope: str) -> None:
    assert set(documentation(scope)) == set(KEYS[scope]())


@pytest.mark.parametrize("scope", KEYS)
def test_each_is_a_sentence_that_fits_a_line(scope: str) -> None:
    for name, says in documentation(scope).items():
        assert says[0].isupper() or says.startswith("https "), name
        assert says.endswith("."), name
        assert len(says) <= 180, name


@pytest.mark.parametrize("scope", KEYS)
def test_a_unit_is_named(scope: str) -> None:
    numbers = [name for name, key in KEYS[scope]().items() if key.type.name in ("INT", "LONG")]
    for ending, unit in UNITS.items():
        of_unit = [name for name in numbers if name.endswith(ending)]
        assert [name for name in of_unit if unit not in documentation(scope)[name].lower()] == []


def test_the_value_of_a_setting_that_nobody_knows_is_not_told() -> None:
    """The setting of somebody's class may be a password."""
    broker = BrokerConfig({}).with_dynamic({"my.setting": "x", "log.retention.ms": "5"}, {"my.other": "x"})
    known = [entry for entry in describe_broker_default(broker) if not entry.is_sensitive]
    assert [(entry.name, entry.value) for entry in known] == [("log.retention.ms", "5")]
    for entry in (*describe_broker_default(broker), *describe_broker(broker)):
        if entry.name.startswith("my."):
            assert (entry.value, entry.is_sensitive) == (None, True)
            assert {synonym.value for synonym in entry.synonyms} == {None}
