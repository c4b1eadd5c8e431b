"""Tokens that somebody else makes for this node: from a file, or from a token endpoint by client credentials (RFC 6749,
section 4.4), as Kafka's `OAuthBearerLoginCallbackHandler` gets them.

Rule: a token is got when somebody logs in, and used again until a part of its life has passed
(`sasl.login.refresh.window.factor`); a file is read each time. Two that log in at once may ask twice, and both are
answered. Neither a secret nor a token is in any text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from pykafka_broker.config import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jaas import LoginModule
from pykafka_broker.security.sasl.jws import InvalidToken, json_object, json_of, parts_of, time_claim

# What stands at a URL, and why it can't be read; with a body it is sent there, with headers.
Fetch = Callable[[str, Mapping[str, str], bytes | None], tuple[bytes, str]]

_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_HANDLERS = tuple(_PACKAGE + place + "OAuthBearerLoginCallbackHandler" for place in ("", "secured."))
_UNSECURED = (None, _PACKAGE + "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler")
_DEFAULT, _FROM_FILE, _BY_CREDENTIALS = (
    _PACKAGE + name for name in ("DefaultJwtRetriever", "FileJwtRetriever", "ClientCredentialsJwtRetriever")
)
_HANDLER = "sasl.login.callback.handler.class"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_URL = "sasl.oauthbearer.token.endpoint.url"
_TOKEN = re.compile(r"[-_.~+/A-Za-z0-9]+=*")


class NoToken(Exception):
    """Why there is none."""


def issued_tokens(settings: ListenerSettings, module: LoginModule, fetch: Fetch) -> IssuedTokens | None:
    """Of a listener, where its tokens are made by somebody else. Raises ConfigError."""
    handler = settings.get("sasl.login.callback.handler.class", "OAUTHBEARER")
    if handler in _UNSECURED:
        return None
    if handler not in _HANDLERS:
        raise ConfigError(
            f"Invalid value {handler} for configuration {_HANDLER} of listener {settings.name}: this node can get its "
            f"tokens by {_HANDLERS[0]}, or make unsecured ones without such a class"
        )
    return IssuedTokens(settings, module, fetch)


class IssuedTokens:
    """Of one listener. `token` may wait for others: for a thread beside the loop."""

    def __init__(self, settings: ListenerSettings, module: LoginModule, fetch: Fetch) -> None:
        self._fetch = fetch
        self._url = _url(settings)
        self._request: tuple[Mapping[str, str], bytes | None] = ({}, None)
        if not self._url.lower().startswith("file:"):
            self._request = _request(settings, module)
        self._part: float = settings.get("sasl.login.refresh.window.factor", "OAUTHBEARER")
        self._kept: tuple[str, float] = ("", 0)  # with when it is time for the next one

    def token(self, wall: int) -> str:
        """One that is good for a while at `wall` (epoch milliseconds). Raises NoToken."""
        token, until_ms = self._kept
        if wall < until_ms:
            return token
        headers, body = self._request
        content, error = self._fetch(self._url, headers, body)
        if error:
            raise NoToken(f"no token for the login of this node: {error}")
        token = _answered(content) if body is not None else content.decode("ascii", "replace").strip()
        life_ms = _life_ms(token, wall)
        if body is not None:
            self._kept = token, wall + life_ms * self._part
        return token


def _url(settings: ListenerSettings) -> str:
    url: str | None = settings.get("sasl.oauthbearer.token.endpoint.url", "OAUTHBEARER")
    if not url:
        raise ConfigError(f"{_URL} of listener {settings.name} is not set: where this node gets its tokens from")
    retriever = settings.get("sasl.oauthbearer.jwt.retriever.class", "OAUTHBEARER")
    is_file = url.lower().startswith("file:")
    if retriever not in (_DEFAULT, _FROM_FILE if is_file else _BY_CREDENTIALS):
        raise ConfigError(
            f"Invalid value {retriever} for configuration {_RETRIEVER} of listener {settings.name}: this node can get "
            f"its tokens by {_FROM_FILE}, from a URL that begins with file:, or else by {_BY_CREDENTIALS}"
        )
    if not is_file and not url.lower().startswith(("http://", "https://")):
        raise ConfigError(f"{_URL} of listener {settings.name} must begin with file:, http: or https:")
    return url


def _request(settings: ListenerSettings, module: LoginModule) -> tuple[Mapping[str, str], bytes]:
    """Headers and body of the question for a token."""
    options = module.options
    client_id = settings.get("sasl.oauthbearer.client.credentials.client.id", "OAUTHBEARER") or options.get("clientId")
    secret = settings.get("sasl.oauthbearer.client.credentials.client.secret", "OAUTHBEARER") or options.get(
        "clientSecret"
    )
    if not client_id or not secret:
        raise ConfigError(
            f"listener {settings.name}: to get tokens this node needs sasl.oauthbearer.client.credentials.client.id "
            "and .secret, or clientId and clientSecret in its login module for OAUTHBEARER"
        )
    scope = settings.get("sasl.oauthbearer.scope", "OAUTHBEARER") or options.get("scope")
    credentials = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {credentials}",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    wanted = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    return headers, urlencode(wanted).encode()


def _answered(content: bytes) -> str:
    try:
        answer: Any = json_of(content)
    except (ValueError, RecursionError):
        answer = None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str):
        raise NoToken("the answer of the token endpoint has no access_token")
    return token.strip()


def _life_ms(token: str, wall: int) -> float:
    """What is left of it."""
    try:
        if _TOKEN.fullmatch(token) is None:
            raise InvalidToken("it has characters that no token has")
        expires = time_claim(json_object(parts_of(token)[1]), "exp")
    except InvalidToken as error:
        raise NoToken(f"the token for the login of this node makes no sense: {error}") from None
    return 0.0 if expires is None else expires * 1000 - wall
