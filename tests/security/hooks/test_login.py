"""A user's Python classes that authenticate clients."""

from __future__ import annotations

import logging

import pytest

from pykafka_broker.cluster.authorizer import INSIDE
from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.security.hooks.login import Identity
from pykafka_broker.security.sasl.exchange import SaslListener
from pykafka_broker.security.sasl.mechanism import Done, LoginRefused
from tests.security.sasl.realms import JAAS, PREFIX, around

HERE = "tests.security.hooks.test_login"
HANDLER = PREFIX + "plain.sasl.server.callback.handler.class"
BUILDER = PREFIX + "principal.builder.class"


class Reversed:
    """A login class whose right password is the user name backwards."""

    def authenticate(self, name: str, password: str) -> bool:
        if name == "fails":
            raise LookupError("no directory")
        return password == name[::-1]


class Department:
    def build(self, client: Identity) -> str:
        if client.name == "User:bob":
            raise LookupError("nobody knows bob")
        return f"{client.name}@{client.listener}/{client.mechanism}/{client.host}"


class Bare:
    def build(self, client: Identity) -> str:
        return client.name.removeprefix("User:")


class Nothing:
    pass


def listener(**settings: str) -> SaslListener:
    config = BrokerConfig({**JAAS, "sasl.enabled.mechanisms": "PLAIN", **settings})
    return SaslListener("OUTSIDE", lambda: config, around())


def log_in(listener: SaslListener, name: str, password: str) -> str:
    mechanism = listener.begin("PLAIN")
    assert mechanism is not None
    done = mechanism.step(f"\0{name}\0{password}".encode(), 0)
    assert type(done) is Done
    return done.principal


def test_a_class_may_know_the_passwords() -> None:
    asked = listener(**{HANDLER: f"{HERE}:Reversed"})
    assert log_in(asked, "carol", "lorac") == "User:carol"
    for name, password in (("carol", "carol"), ("alice", "alice-secret")):
        with pytest.raises(LoginRefused, match="Invalid username or password"):
            log_in(asked, name, password)


def test_one_that_fails_has_refused_the_client(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(LoginRefused):
        log_in(listener(**{HANDLER: f"{HERE}:Reversed"}), "fails", "sliaf-secret")
    assert "no directory" in caplog.text
    assert "sliaf-secret" not in caplog.text


def test_a_class_may_say_what_a_client_is_called() -> None:
    built = listener(**{BUILDER: f"{HERE}:Department"})
    assert built.principal_of("User:alice", "PLAIN", "10.0.0.1") == "User:alice@OUTSIDE/PLAIN/10.0.0.1"
    with pytest.raises(LoginRefused):
        built.principal_of("User:bob", "PLAIN", "10.0.0.1")


def test_a_class_can_not_call_a_client_as_the_broker_calls_itself(caplog: pytest.LogCaptureFixture) -> None:
    built = listener(**{BUILDER: f"{HERE}:Bare"})
    assert built.principal_of("User:alice", "PLAIN", "10.0.0.1") == "alice"
    with pytest.raises(LoginRefused):
        built.principal_of(f"User:{INSIDE}", "PLAIN", "10.0.0.1")
    assert "the broker's own name" in caplog.text


def test_without_one_a_client_is_called_as_it_has_said() -> None:
    assert listener().principal_of("User:alice", "PLAIN", "10.0.0.1") == "User:alice"


@pytest.mark.parametrize("name", [HANDLER, BUILDER])
@pytest.mark.parametrize("text", ["com.example.Class", f"{HERE}:Missing", f"{HERE}:Nothing"])
def test_what_is_no_such_class_is_told_at_the_start(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text.rpartition(":")[2]):
        listener(**{name: text})
