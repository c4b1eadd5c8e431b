"""Logins of a node at another node: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER and GSSAPI.

Rule: the name of this node stands in the login module of the listener
(`listener.name.<name>.<mechanism>.sasl.jaas.config`): `username` and `password`; `unsecuredLoginStringClaim_sub` of an
unsecured token, unless tokens are issued; `keyTab` and `principal` (`kerberos.py`). With SCRAM the peer has to show
that it knows the password as well. No password, secret or token is in any text.

Issued tokens come from a file, or from a token endpoint by client credentials (RFC 6749, section 4.4), as Kafka's
`OAuthBearerLoginCallbackHandler` gets them. A token is fetched at a login, and used again until a part of its life has
passed (`sasl.login.refresh.window.factor`); a file is read each time. Two logins at once may both fetch, and both are
answered.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from pykafka_broker.config import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jaas import LoginModule, login_module
from pykafka_broker.security.sasl.jws import InvalidToken, json_object, json_of, parts_of, time_claim

# Returns the content at a URL, and the error or an empty text; a body is sent with headers.
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
    """No token could be had; the text says why."""


def issued_tokens(settings: ListenerSettings, module: LoginModule, fetch: Fetch) -> IssuedTokens | None:
    """Return a listener's source of issued tokens, or None for unsecured tokens. Raises ConfigError."""
    handler = settings.get("sasl.login.callback.handler.class", "OAUTHBEARER")
    if handler in _UNSECURED:
        return None
    if handler not in _HANDLERS:
        raise ConfigError(
            f"Invalid value {handler} for configuration {_HANDLER}{settings.of_listener}: this node can get its "
            f"tokens by {_HANDLERS[0]}, or make unsecured ones without such a class"
        )
    return IssuedTokens(settings, module, fetch)


class IssuedTokens:
    """Issued tokens for a listener. `token` may wait for others: for a thread beside the loop."""

    def __init__(self, settings: ListenerSettings, module: LoginModule, fetch: Fetch) -> None:
        self._fetch = fetch
        self._url = _url(settings)
        self._request: tuple[Mapping[str, str], bytes | None] = ({}, None)
        if not self._url.lower().startswith("file:"):
            self._request = _request(settings, module)
        self._part: float = settings.get("sasl.login.refresh.window.factor", "OAUTHBEARER")
        self._kept: tuple[str, float] = ("", 0)  # with the time for the next token

    def token(self, wall: int) -> str:
        """Return the token for a login at `wall` (epoch milliseconds). Raises NoToken."""
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
        raise ConfigError(f"{_URL}{settings.of_listener} is not set: where this node gets its tokens from")
    retriever = settings.get("sasl.oauthbearer.jwt.retriever.class", "OAUTHBEARER")
    is_file = url.lower().startswith("file:")
    if retriever not in (_DEFAULT, _FROM_FILE if is_file else _BY_CREDENTIALS):
        raise ConfigError(
            f"Invalid value {retriever} for configuration {_RETRIEVER}{settings.of_listener}: this node can get "
            f"its tokens by {_FROM_FILE}, from a URL that begins with file:, or else by {_BY_CREDENTIALS}"
        )
    if not is_file and not url.lower().startswith(("http://", "https://")):
        raise ConfigError(f"{_URL}{settings.of_listener} must begin with file:, http: or https:")
    return url


def _request(settings: ListenerSettings, module: LoginModule) -> tuple[Mapping[str, str], bytes]:
    """Return headers and body of the question for a token."""
    options = module.options
    client_id = settings.get("sasl.oauthbearer.client.credentials.client.id", "OAUTHBEARER") or options.get("clientId")
    secret = settings.get("sasl.oauthbearer.client.credentials.client.secret", "OAUTHBEARER") or options.get(
        "clientSecret"
    )
    if not client_id or not secret:
        raise ConfigError(
            f"{settings.before_error}to get tokens this node needs sasl.oauthbearer.client.credentials.client.id "
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
    """Return the rest of a token's life."""
    try:
        if _TOKEN.fullmatch(token) is None:
            raise InvalidToken("it has characters that no token has")
        expires = time_claim(json_object(parts_of(token)[1]), "exp")
    except InvalidToken as error:
        raise NoToken(f"the token for the login of this node makes no sense: {error}") from None
    return 0.0 if expires is None else expires * 1000 - wall


_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_FIRST = re.compile(r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>\d{1,9})")
_FEWEST_ITERATIONS, _MOST_ITERATIONS = 4096, 1 << 20  # fewer make a password easy to guess from the answer
_TOKEN_S = 3600


class LoginFailed(Exception):
    """The peer's message makes no sense, or the peer does not know the password."""


# Yields the next token for the peer and is sent the peer's challenge. Raises LoginFailed.
LoginSteps = Generator[bytes, bytes, None]


class Login:
    """An exchange of tokens.

    waits: a step may wait for a maker of tokens or tickets, so it is for a thread beside the loop.
    """

    def __init__(self, steps: LoginSteps, *, waits: bool = False) -> None:
        self.waits = waits
        self._steps = steps
        self._begun = False

    def step(self, challenge: bytes) -> bytes | None:
        """Return the next token for the peer, the first after an empty challenge; None at the end.

        Raises LoginFailed.
        """
        try:
            if self._begun:
                return self._steps.send(challenge)
            self._begun = True
            return next(self._steps)
        except StopIteration:
            return None


NewLogin = Callable[[int, str], Login]  # called with the wall clock and the host of the peer


def login_of(settings: ListenerSettings, mechanism: str, new_nonce: Callable[[], str], fetch: Fetch) -> NewLogin:
    """Return a maker of the node's logins at a listener. Raises ConfigError."""
    module = login_module(settings, mechanism)
    if mechanism == "OAUTHBEARER":
        return _bearer_login(settings, module, fetch)
    if mechanism == "GSSAPI":
        from pykafka_broker.security.sasl.kerberos import kerberos_login  # brings the Kerberos libraries

        return kerberos_login(settings, module)
    if mechanism not in ("PLAIN", *_DIGESTS):
        known = ", ".join((*_DIGESTS, "PLAIN", "OAUTHBEARER", "GSSAPI"))
        raise ConfigError(f"{settings.before_error}there is no login by {mechanism}, only by {known}")
    name, password = (_option(settings, mechanism, module, each) for each in ("username", "password"))
    if mechanism == "PLAIN":
        return lambda wall, host: Login(_plain(name, password))
    return lambda wall, host: Login(_scram(_DIGESTS[mechanism], name, password, new_nonce()))


def _bearer_login(settings: ListenerSettings, module: LoginModule, fetch: Fetch) -> NewLogin:
    issued = issued_tokens(settings, module, fetch)
    if issued is not None:
        return lambda wall, host: Login(_bearer(partial(issued.token, wall)), waits=True)
    subject = _option(settings, "OAUTHBEARER", module, "unsecuredLoginStringClaim_sub")
    return lambda wall, host: Login(_bearer(partial(_unsecured_token, subject, wall)))


def _option(settings: ListenerSettings, mechanism: str, module: LoginModule, option: str) -> str:
    found = module.options.get(option)
    if not found:
        raise ConfigError(f"{settings.before_error}the login module for {mechanism} has no option {option}")
    return found


def _plain(name: str, password: str) -> LoginSteps:
    yield f"\0{name}\0{password}".encode()


def _bearer(token: Callable[[], str]) -> LoginSteps:
    try:
        challenge = yield f"n,,\x01auth=Bearer {token()}\x01\x01".encode()
    except NoToken as error:
        raise LoginFailed(str(error)) from None
    while challenge:  # a refusal, to be acknowledged
        challenge = yield b"\x01"


def _unsecured_token(subject: str, wall: int) -> str:
    claims = {"sub": subject, "iat": wall // 1000, "exp": wall // 1000 + _TOKEN_S}
    parts = (_encoded(json.dumps(each, separators=(",", ":")).encode()) for each in ({"alg": "none"}, claims))
    return f"{'.'.join(parts)}."


def _encoded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _scram(digest: str, name: str, password: str, nonce: str) -> LoginSteps:
    """Log in by SCRAM (RFC 5802)."""
    first = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    challenge = yield f"n,,{first}".encode()
    try:
        answer = challenge.decode()
        match = _FIRST.match(answer)
        if match is None or not match["nonce"].startswith(nonce):
            raise ValueError
        salt = base64.b64decode(match["salt"])
    except ValueError:
        raise LoginFailed("the peer's first message of SCRAM makes no sense") from None
    iterations = int(match["iterations"])
    if not _FEWEST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
        raise LoginFailed(f"the peer asks for {iterations} iterations of SCRAM")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    final = f"c=biws,r={match['nonce']}"
    message = f"{first},{answer},{final}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), message, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
    challenge = yield f"{final},p={base64.b64encode(proof).decode()}".encode()
    if not hmac.compare_digest(challenge, b"v=" + base64.b64encode(verifier)):
        raise LoginFailed("the peer has not shown that it knows the password")
