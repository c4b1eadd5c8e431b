"""This node as a client that logs in at another: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.

Rule: who this node is stands in the login module of the listener (`listener.name.<name>.<mechanism>.sasl.jaas.config`):
`username` and `password`, or `unsecuredLoginStringClaim_sub` of an unsecured token. With SCRAM the peer has to show
that it knows the password as well. No password is in any text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable
from typing import Protocol

from pykafka_broker.config import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jaas import LoginModule, login_module

_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_FIRST = re.compile(r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>\d{1,9})")
_MOST_ITERATIONS = 1 << 20
_TOKEN_S = 3600


class LoginFailed(Exception):
    """The peer says something that makes no sense, or does not know the password that it should."""


class Login(Protocol):
    """One exchange of tokens."""

    def step(self, challenge: bytes) -> bytes | None:
        """The next token for the peer, the first one after nothing; None when there is nothing more to say. Raises
        LoginFailed.
        """


NewLogin = Callable[[int], Login]  # called with the wall clock


def login_of(settings: ListenerSettings, mechanism: str, new_nonce: Callable[[], str]) -> NewLogin:
    """What begins a login of this node there. Raises ConfigError."""
    module = login_module(settings, mechanism)
    if mechanism == "OAUTHBEARER":
        subject = _option(settings, mechanism, module, "unsecuredLoginStringClaim_sub")
        return lambda wall: _Bearer(subject, wall)
    if mechanism not in ("PLAIN", *_DIGESTS):
        raise ConfigError(f"listener {settings.name}: brokers do not log in at each other by {mechanism}")
    name, password = (_option(settings, mechanism, module, each) for each in ("username", "password"))
    if mechanism == "PLAIN":
        return lambda wall: _Plain(name, password)
    return lambda wall: _Scram(_DIGESTS[mechanism], name, password, new_nonce())


def _option(settings: ListenerSettings, mechanism: str, module: LoginModule, option: str) -> str:
    found = module.options.get(option)
    if not found:
        raise ConfigError(f"listener {settings.name}: the login module for {mechanism} has no option {option}")
    return found


class _Plain:
    def __init__(self, name: str, password: str) -> None:
        self._token: bytes | None = f"\0{name}\0{password}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        token, self._token = self._token, None
        return token


class _Bearer:
    def __init__(self, subject: str, wall: int) -> None:
        claims = {"sub": subject, "iat": wall // 1000, "exp": wall // 1000 + _TOKEN_S}
        parts = (_encoded(json.dumps(each, separators=(",", ":")).encode()) for each in ({"alg": "none"}, claims))
        self._token: bytes | None = f"n,,\x01auth=Bearer {'.'.join(parts)}.\x01\x01".encode()

    def step(self, challenge: bytes) -> bytes | None:
        if challenge:  # it says why not, and wants to hear that we have heard
            return b"\x01"
        token, self._token = self._token, None
        return token


def _encoded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


class _Scram:
    """RFC 5802 from the client's side."""

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
