"""Tokens that others make for this node: which settings say whence, what is asked, and when again."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

import pytest

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.issued_tokens import IssuedTokens, NoToken, issued_tokens
from pykafka_broker.security.sasl.jaas import parse_login_module
from tests.security.sasl.bearer import encoded
from tests.security.sasl.realms import OAUTH_LINE, PREFIX, settings_of

WALL = 1_000_000
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
    """Where tokens come from."""

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
