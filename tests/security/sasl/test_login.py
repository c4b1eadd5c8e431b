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


def line(mechanism: str, options: str) -> dict[str, str]:
    module = f"{MODULES}.{CLASSES.get(mechanism, 'scram.ScramLoginModule')} required {options};"
    return {f"{PREFIX}{mechanism.lower()}.sasl.jaas.config": module}


def login(mechanism: str, options: str | None = None) -> NewLogin:
    own = line(mechanism, OPTIONS[mechanism] if options is None else options)
    return login_of(settings_of(own), mechanism, lambda: "clientNonce")


def exchanged(mechanism: str, new_login: NewLogin) -> Done:
    """Let both sides talk to their end."""
    image = MetadataImage()
    add_user(image, "a,=e", "a,=e-secret", 1)
    add_user(image, "bob", "bob-secret", 2)
    own = {PREFIX + "oauthbearer.sasl.jaas.config": OAUTH_LINE} if mechanism == "OAUTHBEARER" else {}
    server = mechanism_server(mechanism, realm_of(own, image)).begin()
    client = new_login(WALL)
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
    client = login("SCRAM-SHA-256")(WALL)
    client.step(b"")
    client.step(b"r=clientNonceMore,s=c2FsdA==,i=4096")
    with pytest.raises(LoginFailed, match="has not shown"):
        client.step(b"v=AAAA")


@pytest.mark.parametrize("first", [b"", b"r=other,s=c2FsdA==,i=4096", b"r=clientNonce,s=c2FsdA==,i=999999999", b"\xff"])
def test_a_first_message_that_makes_no_sense_ends_it(first: bytes) -> None:
    client = login("SCRAM-SHA-256")(WALL)
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


def test_brokers_do_not_log_in_by_tickets() -> None:
    with pytest.raises(ConfigError, match="do not log in at each other by GSSAPI"):
        login_of(settings_of(line("GSSAPI", "")), "GSSAPI", lambda: "")
