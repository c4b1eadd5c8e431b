"""This node logs in at another: each way against the server's side of it.

Tokens that others make for this node: which settings say whence, what is asked, and when again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import pytest

from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jaas import parse_login_module
from pykafka_broker.security.sasl.login import IssuedTokens, LoginFailed, NewLogin, NoToken, issued_tokens, login_of
from pykafka_broker.security.sasl.mechanism import Done, LoginRefused, mechanism_of
from tests.security.sasl.bearer import encoded
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
    server = mechanism_of(mechanism, realm_of(own, image))()
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
    with pytest.raises(LoginRefused):
        exchanged(mechanism, login(mechanism, f'username="{name}" password="wrong"'))


def test_a_peer_that_does_not_know_the_password_is_not_trusted() -> None:
    client = login("SCRAM-SHA-256")(WALL, "host")
    client.step(b"")
    client.step(b"r=clientNonceMore,s=c2FsdA==,i=4096")
    with pytest.raises(LoginFailed, match="has not shown"):
        client.step(b"v=AAAA")


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff",
        b"r=other,s=c2FsdA==,i=4096",
        b"r=clientNonce,s=c2FsdA==,i=999999999",
        b"r=clientNonce,s=c2FsdA==,i=4095",  # as for Kafka's clients
        b"r=clientNonce,s=a,i=4096",
        b"r=clientNonce,s=c2FsdA==,i=4096,\xff",
    ],
)
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
    with pytest.raises(ConfigError, match=r"there is no login by CRAM-MD5, only by SCRAM-SHA-256, .*, GSSAPI"):
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


PACKAGE = "org.apache.kafka.common.security.oauthbearer."
OWN = PREFIX + "oauthbearer."
HANDLER = OWN + "sasl.login.callback.handler.class"
RETRIEVER = OWN + "sasl.oauthbearer.jwt.retriever.class"
URL = OWN + "sasl.oauthbearer.token.endpoint.url"
NAME = OWN + "sasl.oauthbearer.client.credentials.client.id"
SECRET = OWN + "sasl.oauthbearer.client.credentials.client.secret"
LOGIN = PACKAGE + "OAuthBearerLoginCallbackHandler"
CREDENTIALS = {URL: "https://issuer.test/token", NAME: "node", SECRET: "node-secret"}


def token_of(life_s: float | None = 100) -> str:
    claims: dict[str, Any] = {"sub": "node"} if life_s is None else {"sub": "node", "exp": WALL / 1000 + life_s}
    return f"{encoded({'alg': 'RS256'})}.{encoded(claims)}.c2lnbmVk"


class Site:
    """A server that issues tokens."""

    def __init__(self, content: str = "", error: str = "") -> None:
        self.content, self.error = content, error
        self.asked: list[tuple[str, Mapping[str, str], bytes | None]] = []

    def __call__(self, url: str, headers: Mapping[str, str], body: bytes | None) -> tuple[bytes, str]:
        self.asked.append((url, headers, body))
        return self.content.encode(), self.error


def endpoint(token: str) -> Site:
    return Site(json.dumps({"access_token": token, "token_type": "Bearer"}))


def tokens_from(site: Site, own: Mapping[str, str], line: str = OAUTH_LINE) -> IssuedTokens:
    settings = settings_of({HANDLER: LOGIN, **own})
    issued = issued_tokens(settings, parse_login_module(line), site)
    assert issued is not None
    return issued


@pytest.mark.parametrize(
    "handler", [{}, {HANDLER: PACKAGE + "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"}]
)
def test_without_kafkas_class_nobody_issues_tokens(handler: dict[str, str]) -> None:
    assert issued_tokens(settings_of(handler), parse_login_module(OAUTH_LINE), Site()) is None


def test_a_token_of_a_file_is_read_at_each_login() -> None:
    site = Site(token_of() + "\n")
    issued = tokens_from(site, {URL: "file:/etc/token"})
    assert issued.token(WALL) == token_of()
    site.content = token_of(200)
    assert issued.token(WALL) == token_of(200)
    assert site.asked == [("file:/etc/token", {}, None)] * 2


@pytest.mark.parametrize("in_line", [False, True], ids=["settings", "login module"])
def test_an_endpoint_is_asked_with_the_credentials(in_line: bool) -> None:
    site = endpoint(token_of())
    line = OAUTH_LINE.replace(";", ' clientId="node" clientSecret="node-secret" scope="kafka";')
    own = {URL: CREDENTIALS[URL]} if in_line else {**CREDENTIALS, OWN + "sasl.oauthbearer.scope": "kafka"}
    assert tokens_from(site, own, line if in_line else OAUTH_LINE).token(WALL) == token_of()
    ((url, headers, body),) = site.asked
    assert (url, body is not None and parse_qs(body.decode())) == (
        CREDENTIALS[URL],
        {"grant_type": ["client_credentials"], "scope": ["kafka"]},
    )
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"node:node-secret"


def test_a_token_is_used_for_a_part_of_its_life() -> None:
    site = endpoint(token_of(100))
    issued = tokens_from(site, {**CREDENTIALS, OWN + "sasl.login.refresh.window.factor": "0.5"})
    for wall in (WALL, WALL + 49_999, WALL + 50_000):
        issued.token(wall)
    assert len(site.asked) == 2


def test_one_that_does_not_say_when_it_ends_is_not_kept() -> None:
    site = endpoint(token_of(None))
    issued = tokens_from(site, CREDENTIALS)
    assert [issued.token(WALL), issued.token(WALL)] == [token_of(None)] * 2
    assert len(site.asked) == 2


@pytest.mark.parametrize(
    ("site", "says"),
    [
        (Site(error="HTTP Error 401: Unauthorized"), "no token for the login of this node: HTTP Error 401"),
        (Site("no JSON"), "has no access_token"),
        (Site("[]"), "has no access_token"),
        (endpoint("hidden\x01auth=none"), "characters that no token has"),
        (endpoint("hidden"), "has not three parts"),
    ],
)
def test_what_is_no_token_is_told_and_not_shown(site: Site, says: str) -> None:
    with pytest.raises(NoToken, match=says) as told:
        tokens_from(site, CREDENTIALS).token(WALL)
    assert "hidden" not in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({HANDLER: "com.example.Login"}, "can get its tokens by .*OAuthBearerLoginCallbackHandler, or make unsecured"),
        ({URL: ""}, "token.endpoint.url of listener OUTSIDE is not set"),
        ({**CREDENTIALS, URL: "ftp://x"}, "must begin with file:, http: or https:"),
        ({**CREDENTIALS, RETRIEVER: PACKAGE + "JwtBearerJwtRetriever"}, "or else by .*ClientCredentialsJwtRetriever"),
        ({**CREDENTIALS, RETRIEVER: PACKAGE + "FileJwtRetriever"}, "from a URL that begins with file:"),
        ({**CREDENTIALS, NAME: ""}, "or clientId and clientSecret in its login module"),
        ({URL: CREDENTIALS[URL], NAME: "node"}, "or clientId and clientSecret in its login module"),
    ],
)
def test_what_is_missing_ends_the_start_and_says_what_works(own: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        tokens_from(Site(), own)
    assert "node-secret" not in str(refused.value)
