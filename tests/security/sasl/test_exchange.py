"""The order of requests: the table of the exchange, and sessions by the clock.

The mechanisms of one listener, and how they follow a change of the settings.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pykafka_broker.clock import Clock
from pykafka_broker.cluster.authorizer import INSIDE
from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.errors import FrameError
from pykafka_broker.protocol.api_keys import ApiKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.security.sasl.exchange import SaslExchange, SaslListener
from pykafka_broker.security.sasl.mechanism import Done, LoginRefused
from pykafka_broker.security.sasl.plain import Plain
from tests.security.sasl.realms import JAAS, PREFIX, SCRAM_LINE, around

ALICE, BOB, WRONG = b"\0alice\0alice-secret", b"\0bob\0bob-secret", b"\0alice\0wrong"
MECHANISMS = "PLAIN,SCRAM-SHA-256"
SESSION = {PREFIX + "connections.max.reauth.ms": "3000"}


class Someone:
    principal = "User:ANONYMOUS"
    authenticated = True
    by_token = False
    client_host = "127.0.0.1"


class Played:
    """A client's exchange with the server; the clock is moved by hand."""

    def __init__(self, **settings: str) -> None:
        config = BrokerConfig({**JAAS, "sasl.enabled.mechanisms": MECHANISMS, **settings})
        self.clock = Clock(1_000_000)
        self.client = Someone()
        listener = SaslListener("OUTSIDE", lambda: config, around(clock=self.clock))
        self.exchange = SaslExchange(listener, self.client)

    def versions(self) -> bool:
        admitted = self.exchange.admits(ApiKey.API_VERSIONS)
        if admitted:
            self.exchange.versions_told()
        return admitted

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        assert self.exchange.admits(ApiKey.SASL_HANDSHAKE)
        return self.exchange.handshake(mechanism, version)

    def authenticate(self, token: bytes = ALICE, version: int = 2) -> Any:
        assert self.exchange.admits(ApiKey.SASL_AUTHENTICATE)
        return self.exchange.authenticate(token, version)

    def log_in(self, token: bytes = ALICE) -> Any:
        assert self.handshake().error_code == 0
        answer = self.authenticate(token)
        assert answer.error_code == 0
        return answer

    def later(self, ms: int) -> None:
        self.clock.set(self.clock.now + ms)


def test_versions_then_handshake_then_token() -> None:
    played = Played()
    assert not played.client.authenticated
    assert played.versions()
    answer = played.handshake()
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.NONE, ["PLAIN", "SCRAM-SHA-256"])
    answer = played.authenticate()
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (ErrorCode.NONE, b"", 0)
    assert (played.client.authenticated, played.client.principal) == (True, "User:alice")
    assert played.exchange.expires_at is None


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.SASL_AUTHENTICATE, ApiKey.PRODUCE])
def test_nothing_else_is_answered_at_the_beginning(api_key: ApiKey) -> None:
    with pytest.raises(FrameError, match="before the client has authenticated"):
        Played().exchange.admits(api_key)


@pytest.mark.parametrize("api_key", [ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.SASL_AUTHENTICATE])
def test_after_versions_there_is_only_the_handshake(api_key: ApiKey) -> None:
    played = Played()
    played.versions()
    with pytest.raises(FrameError, match="before the client has authenticated"):
        played.exchange.admits(api_key)


def test_who_was_not_told_versions_may_ask_again() -> None:
    played = Played()
    for _ in range(3):  # the answer was UNSUPPORTED_VERSION
        assert played.exchange.admits(ApiKey.API_VERSIONS)
    assert played.handshake().error_code == 0


@pytest.mark.parametrize("api_key", [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.METADATA])
def test_among_tokens_any_other_request_is_told_so_and_ends_the_connection(api_key: ApiKey) -> None:
    played = Played()
    played.handshake()
    assert not played.exchange.admits(api_key)
    assert "in the middle of the exchange" in played.exchange.over


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "", "SCRAM-SHA-512", "x" * 1000])
def test_a_mechanism_that_is_not_enabled_is_told_with_those_that_are(mechanism: str, version: int) -> None:
    played = Played()
    answer = played.handshake(mechanism, version)
    assert (answer.error_code, answer.mechanisms) == (
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ["PLAIN", "SCRAM-SHA-256"],
    )
    assert played.exchange.over
    assert len(played.exchange.over) < 100


def test_a_wrong_password_is_told_and_ends_the_connection() -> None:
    played = Played()
    played.handshake()
    answer = played.authenticate(WRONG)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == played.exchange.over == "Authentication failed: Invalid username or password"
    assert not played.client.authenticated
    assert played.client.principal == "User:ANONYMOUS"


def test_after_a_handshake_of_version_0_tokens_come_bare() -> None:
    played = Played()
    played.handshake(version=0)
    assert played.exchange.takes_raw_tokens
    assert played.exchange.raw_token(ALICE) == b""
    assert played.client.authenticated
    assert not played.exchange.takes_raw_tokens
    assert not played.exchange.over


def test_a_bare_token_that_is_wrong_has_no_answer() -> None:
    played = Played()
    played.handshake(version=0)
    assert played.exchange.raw_token(WRONG) is None
    assert played.exchange.over


def test_who_has_authenticated_for_good_can_not_do_it_again() -> None:
    played = Played()
    played.log_in()
    assert played.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    answer = played.authenticate()
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert "after successful authentication" in answer.error_message
    assert played.client.authenticated
    assert not played.exchange.over


# -- sessions


def test_a_session_is_as_long_as_the_setting_says_and_clients_of_version_0_are_not_told() -> None:
    assert Played(**SESSION).log_in().session_lifetime_ms == 3000
    played = Played(**SESSION)
    played.handshake()
    assert played.authenticate(version=0).session_lifetime_ms == 0
    assert played.exchange.expires_at == played.clock.now + 3000


def test_the_mechanism_may_have_a_limit_of_its_own() -> None:
    assert Played(**SESSION, **{PREFIX + "plain.connections.max.reauth.ms": "50"}).log_in().session_lifetime_ms == 50


@pytest.mark.parametrize(("limit", "remaining", "told"), [(0, 700, 700), (3000, 700, 700), (500, 700, 500), (0, -1, 1)])
def test_a_session_ends_with_what_the_client_has_shown(
    monkeypatch: pytest.MonkeyPatch, limit: int, remaining: int, told: int
) -> None:
    played = Played(**{PREFIX + "connections.max.reauth.ms": str(limit)})
    played.clock.set(played.clock.now, wall=5_000_000)
    done = Done(b"", "User:alice", 5_000_000 + remaining, by_token=True)
    monkeypatch.setattr(Plain, "step", lambda self, token, wall: done)
    assert played.log_in().session_lifetime_ms == told
    assert played.exchange.expires_at == played.clock.now + told
    assert played.client.by_token


def test_nobody_logs_in_as_who_may_do_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of a delegation token may have any name."""
    played = Played()
    monkeypatch.setattr(Plain, "step", lambda self, token, wall: Done(b"", INSIDE, by_token=True))
    played.handshake()
    assert played.authenticate().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert played.exchange.over
    assert not played.client.authenticated


def test_after_its_end_only_a_handshake_is_served() -> None:
    played = Played(**SESSION)
    played.log_in()
    played.later(3000)
    assert not played.exchange.session_over(ApiKey.METADATA)
    played.later(1)
    assert played.exchange.session_over(ApiKey.METADATA)
    assert played.exchange.session_over(ApiKey.SASL_AUTHENTICATE)
    assert not played.exchange.session_over(ApiKey.SASL_HANDSHAKE)
    assert played.log_in().session_lifetime_ms == 3000
    assert not played.exchange.session_over(ApiKey.METADATA)


def test_an_exchange_may_go_on_longer_than_the_session() -> None:
    played = Played(**SESSION)
    played.log_in()
    played.handshake()
    played.later(5000)
    assert not played.exchange.session_over(ApiKey.SASL_AUTHENTICATE)
    assert played.authenticate().session_lifetime_ms == 3000


def test_in_a_re_authentication_nothing_but_tokens_is_served() -> None:
    played = Played(**SESSION)
    played.log_in()
    played.handshake()
    assert not played.client.authenticated
    assert not played.exchange.admits(ApiKey.METADATA)
    assert played.exchange.over


def test_a_re_authentication_may_come_bare() -> None:
    played = Played(**SESSION)
    played.log_in()
    played.handshake(version=0)
    assert played.exchange.raw_token(ALICE) == b""
    assert played.client.authenticated


def test_who_comes_again_within_a_second_is_told_that_it_has_authenticated() -> None:
    played = Played(**SESSION)
    played.log_in()
    played.log_in()  # the first may come at any time
    played.later(999)
    assert played.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert played.client.authenticated
    played.later(1)
    played.log_in()


def test_after_its_end_no_handshake_is_served_within_a_second_of_the_last() -> None:
    played = Played(**{PREFIX + "connections.max.reauth.ms": "300"})
    played.log_in()
    played.log_in()
    played.later(500)
    assert played.exchange.session_over(ApiKey.SASL_HANDSHAKE)
    played.later(500)
    assert not played.exchange.session_over(ApiKey.SASL_HANDSHAKE)


def test_nobody_can_become_somebody_else() -> None:
    played = Played(**SESSION)
    played.log_in()
    played.handshake()
    answer = played.authenticate(BOB)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == ("Cannot change principals during re-authentication from User.alice: User.bob")
    assert played.client.principal == "User:alice"
    assert not played.client.authenticated
    assert played.exchange.over


def test_another_mechanism_is_refused_with_its_first_token_and_an_unknown_one_at_once() -> None:
    played = Played(**SESSION)
    played.log_in()
    assert played.handshake("SCRAM-SHA-256").error_code == ErrorCode.NONE
    with pytest.raises(FrameError):
        played.exchange.admits(ApiKey.SASL_AUTHENTICATE)
    played = Played(**SESSION)
    played.log_in()
    with pytest.raises(FrameError, match="'FOO' is not enabled"):
        played.handshake("FOO")


# -- a first token without a handshake


def test_without_gssapi_a_bare_first_token_is_no_request() -> None:
    assert not Played().exchange.begins_with_token(0x6082)


def test_gssapi_may_begin_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = SaslListener.begin
    monkeypatch.setattr(SaslListener, "begin", lambda self, name: plain(self, name.replace("GSSAPI", "PLAIN")))
    exchange = Played(**{PREFIX + "gssapi.sasl.jaas.config": SCRAM_LINE}).exchange
    assert not exchange.begins_with_token(ApiKey.METADATA)
    assert exchange.begins_with_token(0x6082)
    assert exchange.raw_token(ALICE) == b""
    assert not exchange.begins_with_token(0x6082)


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
        except LoginRefused:
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
    [
        (
            "PLAIN,OAUTHBEARING",
            "OAUTHBEARING for configuration sasl.enabled.mechanisms: listener OUTSIDE: it must be one of",
        ),
        ("", "sasl.enabled.mechanisms"),
    ],
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
    servers = configured.listener._mechanisms
    configured.change("log.cleaner.threads", "1")
    assert configured.admits("alice")
    assert configured.listener._mechanisms is servers
