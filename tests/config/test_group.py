"""A group's configuration: overrides over the broker's values, within the broker's limits."""

from __future__ import annotations

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.config.group import GroupConfig
from pykafka_broker.config.registry import group_keys


def test_every_key_has_its_attribute() -> None:
    assert {name.replace(".", "_") for name in group_keys()} == set(GroupConfig.__annotations__)


def test_broker_values_are_the_default_and_overrides_win() -> None:
    broker = BrokerConfig({"group.consumer.session.timeout.ms": "50000"})
    assert GroupConfig.resolve(broker, {}).consumer_session_timeout_ms == 50_000
    config = GroupConfig.resolve(
        broker, {"consumer.session.timeout.ms": "46000", "share.auto.offset.reset": "earliest"}
    )
    assert config.consumer_session_timeout_ms == 46_000
    assert config.share_auto_offset_reset == "earliest"
    assert config.share_renew_acknowledge_enable is True


@pytest.mark.parametrize(("stored", "effective"), [("1", 45_000), ("45001", 45_001), ("99999", 60_000)])
def test_an_override_outside_the_limits_is_drawn_to_the_nearest(stored: str, effective: int) -> None:
    config = GroupConfig.resolve(BrokerConfig(), {"share.session.timeout.ms": stored})
    assert config.share_session_timeout_ms == effective


def test_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Unknown group config name: no\.such\.key"):
        GroupConfig.resolve(BrokerConfig(), {"no.such.key": "1"})
