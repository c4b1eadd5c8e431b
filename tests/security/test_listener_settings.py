"""Settings of one listener: the closest setting wins."""

from __future__ import annotations

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings


def settings(**texts: str) -> ListenerSettings:
    return ListenerSettings(BrokerConfig({name.replace("__", "."): text for name, text in texts.items()}), "OUTSIDE")


def test_what_is_not_set_for_a_listener_is_as_for_all() -> None:
    assert settings().get("connections.max.reauth.ms") == 0
    assert settings(connections__max__reauth__ms="5").get("connections.max.reauth.ms") == 5


def test_the_setting_of_the_mechanism_comes_before_that_of_the_listener_and_that_before_the_one_for_all() -> None:
    found = settings(
        connections__max__reauth__ms="1",
        listener__name__outside__connections__max__reauth__ms="2",
        listener__name__outside__plain__connections__max__reauth__ms="3",
        listener__name__inside__connections__max__reauth__ms="4",
    )
    assert found.get("connections.max.reauth.ms", "PLAIN") == 3
    assert found.get("connections.max.reauth.ms", "SCRAM-SHA-256") == 2
    assert found.get("connections.max.reauth.ms") == 2


def test_values_are_typed_and_a_bad_one_is_told_under_its_whole_name() -> None:
    found = settings(
        listener__name__outside__ssl__enabled__protocols="TLSv1.2, TLSv1.3",
        listener__name__outside__connections__max__reauth__ms="soon",
    )
    assert found.get("ssl.enabled.protocols") == ["TLSv1.2", "TLSv1.3"]
    with pytest.raises(ConfigError, match=r"soon for configuration listener\.name\.outside\.connections\.max\.reauth"):
        found.get("connections.max.reauth.ms")
    key = "connections.max.reauth.ms"
    with pytest.raises(ConfigError, match=f"Invalid value {key} for configuration listener.name.outside.{key}"):
        settings(listener__name__outside__connections__max__reauth__ms=key).get(key)
