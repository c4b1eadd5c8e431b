"""This node logs in at another: each way against the server's side of it."""

from __future__ import annotations

import pytest

from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.login import LoginFailed, NewLogin, login_of
from pykafka_broker.security.sasl.mechanism import Done, Refused, mechanism_server
from tests.security.sasl.realms import MODULES, OAUTH_LINE, PREFIX, add_user, realm_of, settings_of

WALL = 1_000_000
OPTIONS = {
    "PLAIN": 'username="alice" password="alice-secret" user_alice="alice-secret"',
    "SCRAM-SHA-256": 'username="a,=e" password="a,=e-secret"',
    "SCRAM-SHA-512": 'username="bob" password="bob-secret"',
    "OAUTHBEARER": 'unsecuredLoginStringClaim_sub="carol"',
}
CLASSES = {"PLAIN": "plain.PlainLoginModule", "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule"}


def nothing_there(*_: object) -> tuple[bytes, str]:
    return b"", "nothing is there"


def line(mechanism: str, options: str) -> dict[str, str]:
    module = f"{MODULES}.{CLASSES.get(mechanism, 'scram.ScramLoginModule')} required {options};"
    return {f"{PREFIX}{mechanism.lower()}.sasl.jaas.config": module}


def login(mechanism: str, options: str | None = None) -> NewLogin:
    own = line(mechanism, OPTIONS[mechanism] if options is None else options)
    return login_of(settings_of(own), mechanism, lambda: "clientNonce", nothing_there)


def exchanged(mechanism: str, new_login: NewLogin) -> Done:
    """Let both sides talk to their end."""
    image = MetadataImage()
    add_user(image, "a,=e", "a,=e-secret", 1)
    add_user(image, "bob", "bob-secret", 2)
    own = {PREFIX + "oauthbearer.sasl.jaas.config": OAUTH_LINE} if mechanism == "OAUTHBEARER" else {}
    server = mechanism_server(mechanism, realm_of(own, image)).begin()
    client = new_login(WALL, "host")
    token = client.step(b"")
    while True:
        assert token is not None
        answer = server.step(token, WALL)
        token = client.step(answer.token) if answer.token else None
        if isinstance(answer, Done):
            assert token is None
            return answer


@pytest.mark.parametrize(
    ("mechanism", "principal"),
    [
        ("PLAIN", "User:alice"),
        ("SCRAM-SHA-256", "User:a,=e"),
        ("SCRAM-SHA-512", "User:bob"),
        ("OAUTHBEARER", "User:carol"),
    ],
)
def test_both_sides_come_to_an_end(mechanism: str, principal: str) -> None:
    assert exchanged(mechanism, login(mechanism)).principal == principal


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused(mechanism: str) -> None:
    name = "alice" if mechanism == "PLAIN" else "bob"
    with pytest.raises(Refused):
        exchanged(mechanism, login(mechanism, f'username="{name}" password="wrong"'))


def test_a_peer_that_does_not_know_the_password_is_not_trusted() -> None:
    client = login("SCRAM-SHA-256")(WALL, "host")
    client.step(b"")
    client.step(b"r=clientNonceMore,s=c2FsdA==,i=4096")
    with pytest.raises(LoginFailed, match="has not shown"):
        client.step(b"v=AAAA")


@pytest.mark.parametrize("first", [b"", b"r=other,s=c2FsdA==,i=4096", b"r=clientNonce,s=c2FsdA==,i=999999999", b"\xff"])
def test_a_first_message_that_makes_no_sense_ends_it(first: bytes) -> None:
    client = login("SCRAM-SHA-256")(WALL, "host")
    client.step(b"")
    with pytest.raises(LoginFailed):
        client.step(first)


@pytest.mark.parametrize(
    ("mechanism", "options", "says"),
    [
        ("PLAIN", 'username="a"', "has no option password"),
        ("SCRAM-SHA-256", 'password="a"', "has no option username"),
        ("OAUTHBEARER", "", "has no option unsecuredLoginStringClaim_sub"),
    ],
)
def test_what_a_login_needs_is_asked_for_without_a_password(mechanism: str, options: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        login(mechanism, options)
    assert '"a"' not in str(refused.value)


def test_a_mechanism_that_nobody_has_is_refused_with_those_that_work() -> None:
    with pytest.raises(ConfigError, match=r"nodes do not log in by CRAM-MD5, but by SCRAM-SHA-256, .*, GSSAPI"):
        login_of(settings_of(line("CRAM-MD5", "")), "CRAM-MD5", lambda: "", nothing_there)


def test_a_token_that_is_issued_is_shown_and_waited_for() -> None:
    package = "org.apache.kafka.common.security.oauthbearer."
    own = {
        **line("OAUTHBEARER", ""),
        PREFIX + "sasl.login.callback.handler.class": package + "OAuthBearerLoginCallbackHandler",
        PREFIX + "sasl.oauthbearer.token.endpoint.url": "file:/etc/token",
    }
    token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJub2RlIn0.c2lnbmVk"
    new_login = login_of(settings_of(own), "OAUTHBEARER", lambda: "", lambda *_: (token.encode(), ""))
    client = new_login(WALL, "host")
    assert client.waits
    assert client.step(b"") == f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    assert client.step(b"") is None
    without = login_of(settings_of(own), "OAUTHBEARER", lambda: "", nothing_there)(WALL, "host")
    with pytest.raises(LoginFailed, match="nothing is there"):
        without.step(b"")
