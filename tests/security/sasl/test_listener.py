"""The mechanisms of one listener, and how they follow a change of the settings."""

from __future__ import annotations

import logging

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.security.sasl.listener import SaslListener
from pykafka_broker.security.sasl.mechanism import Refused
from tests.security.sasl.realms import JAAS, PREFIX, around

LINE = PREFIX + "plain.sasl.jaas.config"
CHANGED = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_carol="carol-secret";'


class Configured:
    def __init__(self, mechanisms: str = "PLAIN,SCRAM-SHA-512", **settings: str) -> None:
        self.config = BrokerConfig({**JAAS, "sasl.enabled.mechanisms": mechanisms, **settings})
        self.listener = SaslListener("OUTSIDE", lambda: self.config, around())

    def change(self, name: str, text: str) -> None:
        self.config = self.config.with_dynamic({}, {name: text})

    def admits(self, name: str) -> bool:
        mechanism = self.listener.begin("PLAIN")
        assert mechanism is not None
        try:
            mechanism.step(f"\0{name}\0{name}-secret".encode(), 0)
        except Refused:
            return False
        return True


def test_mechanisms_are_those_of_the_setting_in_its_order() -> None:
    listener = Configured("SCRAM-SHA-512,PLAIN").listener
    assert listener.mechanisms == ["SCRAM-SHA-512", "PLAIN"]
    assert listener.begin("SCRAM-SHA-256") is None


def test_a_listener_may_have_mechanisms_of_its_own() -> None:
    assert Configured(**{PREFIX + "sasl.enabled.mechanisms": "PLAIN"}).listener.mechanisms == ["PLAIN"]


@pytest.mark.parametrize(
    ("mechanisms", "message"),
    [("PLAIN,OAUTHBEARING", "OAUTHBEARING of listener OUTSIDE is not served"), ("", "sasl.enabled.mechanisms")],
)
def test_what_can_not_be_used_is_told_at_the_start(mechanisms: str, message: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=message):
        Configured(mechanisms)


def test_accounts_that_are_changed_count_for_the_next_client() -> None:
    configured = Configured()
    assert configured.admits("alice")
    configured.change(LINE, CHANGED)
    assert configured.admits("carol")
    assert not configured.admits("alice")


def test_a_change_that_can_not_be_used_leaves_everything_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    configured = Configured()
    with caplog.at_level(logging.WARNING):
        configured.change(LINE, "Module required user_alice=hidden-password")
        assert configured.admits("alice")
    assert "OUTSIDE keeps the settings" in caplog.text
    assert "hidden-password" not in caplog.text


@pytest.mark.parametrize(
    "name", ["connection.failed.authentication.delay.ms", "sasl.server.max.receive.size", "connections.max.reauth.ms"]
)
def test_a_limit_that_is_no_number_is_told_at_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match=f"soon for configuration {PREFIX}{name}"):
        Configured(**{PREFIX + name: "soon"})


def test_limits_are_read_for_the_listener() -> None:
    listener = Configured(
        **{
            PREFIX + "connection.failed.authentication.delay.ms": "7",
            PREFIX + "sasl.server.max.receive.size": "999",
            PREFIX + "connections.max.reauth.ms": "5",
        }
    ).listener
    assert (listener.failure_delay_ms, listener.max_receive_bytes, listener.max_reauth_ms("PLAIN")) == (7, 999, 5)


def test_what_holds_for_all_listeners_can_not_be_changed_while_one_serves() -> None:
    configured = Configured()
    check, config = configured.listener.check, configured.config
    told = r"existing listener ListenerName\(OUTSIDE\), restart broker"
    for name, text in (("sasl.enabled.mechanisms", "PLAIN"), ("sasl.jaas.config", "Module required;")):
        with pytest.raises(ConfigError, match=told):
            check(config.with_dynamic({}, {name: text}), [name])
    same = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512", LINE: CHANGED, "log.cleaner.threads": "2"}
    check(config.with_dynamic({}, same), list(same))


def test_other_changes_leave_mechanisms_as_they_are() -> None:
    configured = Configured()
    servers = configured.listener._servers
    configured.change("log.cleaner.threads", "1")
    assert configured.admits("alice")
    assert configured.listener._servers is servers
