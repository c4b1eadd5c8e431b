"""Settings that Kafka does not have."""

from __future__ import annotations

import pytest

from pykafka_broker.config import BrokerConfig, ConfigErrors
from pykafka_broker.config.broker import unknown_configs
from pykafka_broker.config.describe import describe_broker
from pykafka_broker.config.extensions import OWN_NAMES


def test_nothing_is_set() -> None:
    own = BrokerConfig().own
    assert (own.release, own.parked_fetch, own.auto_creation, own.telemetry) == (None, False, False, False)


def test_strict_is_all_switches_and_each_can_be_set_by_itself() -> None:
    own = BrokerConfig({"pykafka.strict": "true", "pykafka.strict.auto.creation": "false"}).own
    assert (own.parked_fetch, own.auto_creation) == (True, False)
    own = BrokerConfig({"pykafka.strict.parked.fetch": "true"}).own
    assert (own.parked_fetch, own.auto_creation) == (True, False)


def test_what_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigErrors) as caught:
        BrokerConfig({"pykafka.emulate": "5.0", "pykafka.strict": "yes", "log.retention.ms": "x"})
    named = [str(error) for error in caught.value.errors]
    assert len(named) == 3
    assert "pykafka.emulate" in named[0]
    assert "4.2, 4.3" in named[0]


def test_they_are_known_and_in_no_answer() -> None:
    assert unknown_configs([*OWN_NAMES, "pykafka.nonsense"]) == ["pykafka.nonsense"]
    config = BrokerConfig({"pykafka.strict": "true"})
    assert not [entry for entry in describe_broker(config) if entry.name.startswith("pykafka.")]


def test_they_stay_under_dynamic_layers() -> None:
    config = BrokerConfig({"pykafka.emulate": "2.8"}).with_dynamic({"log.retention.ms": "5"}, {})
    assert config.own.release is not None
    assert config.own.release.version == "2.8.2"
    assert "zookeeper.connect" in {entry.name for entry in describe_broker(config)}
