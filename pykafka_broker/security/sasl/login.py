"""This node as a client that logs in at another: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER and GSSAPI.

Rule: who this node is stands in the login module of the listener (`listener.name.<name>.<mechanism>.sasl.jaas.config`):
`username` and `password`; `unsecuredLoginStringClaim_sub` of an unsecured token, unless tokens are issued
(`issued_tokens.py`); `keyTab` and `principal` (`kerberos_login.py`). With SCRAM the peer has to show that it knows the
password as well. No password is in any text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Protocol

from pykafka_broker.config import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.issued_tokens import Fetch, NoToken, issued_tokens
from pykafka_broker.security.sasl.jaas import LoginModule, login_module

_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_FIRST = re.compile(r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>\d{1,9})")
_MOST_ITERATIONS = 1 << 20
_TOKEN_S = 3600


class LoginFailed(Exception):
    """The peer says something that makes no sense, or does not know the password that it should."""


class Login(Protocol):
    """One exchange of tokens. waits: a step may wait for somebody else, who makes tokens or tickets, so it is for a
    thread beside the loop.
    """

    @property
    def waits(self) -> bool: ...

    def step(self, challenge: bytes) -> bytes | None:
        """The next token for the peer, the first one after nothing; None when there is nothing more to say. Raises
        LoginFailed.
        """


NewLogin = Callable[[int, str], Login]  # called with the wall clock and the host of the peer


def login_of(settings: ListenerSettings, mechanism: str, new_nonce: Callable[[], str], fetch: Fetch) -> NewLogin:
    """What begins a login of this node there. Raises ConfigError."""
    module = login_module(settings, mechanism)
    if mechanism == "OAUTHBEARER":
        return _bearer_login(settings, module, fetch)
    if mechanism == "GSSAPI":
        from pykafka_broker.security.sasl.kerberos_login import kerberos_login  # brings the Kerberos libraries

        return kerberos_login(settings, module)
    if mechanism not in ("PLAIN", *_DIGESTS):
        known = ", ".join((*_DIGESTS, "PLAIN", "OAUTHBEARER", "GSSAPI"))
        raise ConfigError(f"listener {settings.name}: nodes do not log in by {mechanism}, but by {known}")
    name, password = (_option(settings, mechanism, module, each) for each in ("username", "password"))
    if mechanism == "PLAIN":
        return lambda wall, host: _Plain(name, password)
    return lambda wall, host: _Scram(_DIGESTS[mechanism], name, password, new_nonce())


def _bearer_login(settings: ListenerSettings, module: LoginModule, fetch: Fetch) -> NewLogin:
    issued = issued_tokens(settings, module, fetch)
    if issued is not None:
        return lambda wall, host: _Bearer(partial(issued.token, wall), waits=True)
    subject = _option(settings, "OAUTHBEARER", module, "unsecuredLoginStringClaim_sub")
    return lambda wall, host: _Bearer(partial(_unsecured_token, subject, wall), waits=False)


def _option(settings: ListenerSettings, mechanism: str, module: LoginModule, option: str) -> str:
    found = module.options.get(option)
    if not found:
        raise ConfigError(f"listener {settings.name}: the login module for {mechanism} has no option {option}")
    return found


class _Plain:
    waits = False

    def __init__(self, name: str, password: str) -> None:
        self._token: bytes | None = f"\0{name}\0{password}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        token, self._token = self._token, None
        return token


class _Bearer:
    def __init__(self, token: Callable[[], str], *, waits: bool) -> None:
        self.waits = waits
        self._token: Callable[[], str] | None = token

    def step(self, challenge: bytes) -> bytes | None:
        if challenge:  # it says why not, and wants to hear that we have heard
            return b"\x01"
        token, self._token = self._token, None
        if token is None:
            return None
        try:
            return f"n,,\x01auth=Bearer {token()}\x01\x01".encode()
        except NoToken as error:
            raise LoginFailed(str(error)) from None


def _unsecured_token(subject: str, wall: int) -> str:
    claims = {"sub": subject, "iat": wall // 1000, "exp": wall // 1000 + _TOKEN_S}
    parts = (_encoded(json.dumps(each, separators=(",", ":")).encode()) for each in ({"alg": "none"}, claims))
    return f"{'.'.join(parts)}."


def _encoded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


class _Scram:
    """RFC 5802 from the client's side."""

    waits = False

    def __init__(self, digest: str, name: str, password: str, nonce: str) -> None:
        self._digest = digest
        self._password = password
        self._nonce = nonce
        self._first = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._verifier = b""
        self._step = self._begin

    def step(self, challenge: bytes) -> bytes | None:
        return self._step(challenge)

    def _begin(self, challenge: bytes) -> bytes | None:
        self._step = self._prove
        return f"n,,{self._first}".encode()

    def _prove(self, challenge: bytes) -> bytes | None:
        match = _FIRST.match(challenge.decode("utf-8", "replace"))
        if match is None or not match["nonce"].startswith(self._nonce):
            raise LoginFailed("the peer's first message of SCRAM makes no sense")
        iterations, digest = int(match["iterations"]), self._digest
        if not 0 < iterations <= _MOST_ITERATIONS:
            raise LoginFailed(f"the peer asks for {iterations} iterations of SCRAM")
        salted = hashlib.pbkdf2_hmac(digest, self._password.encode(), base64.b64decode(match["salt"]), iterations)
        client_key = hmac.digest(salted, b"Client Key", digest)
        final = f"c=biws,r={match['nonce']}"
        message = f"{self._first},{challenge.decode()},{final}".encode()
        signature = hmac.digest(hashlib.new(digest, client_key).digest(), message, digest)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._verifier = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
        self._step = self._verify
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, challenge: bytes) -> bytes | None:
        expected = b"v=" + base64.b64encode(self._verifier)
        if not hmac.compare_digest(challenge, expected):
            raise LoginFailed("the peer has not shown that it knows the password")
        return None
