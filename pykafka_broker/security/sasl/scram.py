"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), without channel binding.

Rule: the users are those with credentials in the metadata log. A login takes two hashes and no PBKDF2. All refusals
have the same words, except that of a foreign authorization id. An unknown name is refused at the first message, as in
Kafka.

With the extension `tokenauth=true` the name is the id of a delegation token (KIP-48), and the password is the token's
Hmac in base64. The keys that check such a password are made when the token is first used, and are in memory only. A
token that has gone or expired is unknown, even while its keys are in memory.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from pykafka_broker.cluster.delegation_tokens import is_expired, token_hmac
from pykafka_broker.cluster.scram import DIGESTS, SCRAM_MECHANISMS, credential, salted_password
from pykafka_broker.protocol.stored.user_scram_credential_record import UserScramCredentialRecord
from pykafka_broker.security.sasl.jaas import login_module
from pykafka_broker.security.sasl.mechanism import (
    Challenge,
    Done,
    LoginRefused,
    Realm,
)

_ITERATIONS = 4096
_SALT_BYTES = 16
_REMEMBERED = 1024


class ScramKeys(NamedTuple):
    """Keys to check a user's password by a mechanism, useless as a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramKeys(iterations={self.iterations})"


class TokenLogin(NamedTuple):
    """A valid delegation token: owner, keys to check the password, and end."""

    owner: str
    keys: ScramKeys
    expires_ms: int


def user_keys(realm: Realm, kind: int, name: str) -> ScramKeys | None:
    """Return the keys of a user by SCRAM-SHA-256 (1) or SCRAM-SHA-512 (2), or None."""
    record = realm.around.image().scram.get((kind, name))
    return None if record is None else _keys_in(record)


def _keys_in(record: UserScramCredentialRecord) -> ScramKeys:
    return ScramKeys(record.salt, record.iterations, record.stored_key, record.server_key)


def token_login(realm: Realm, kind: int, token_id: str) -> TokenLogin | None:
    """Return the login of a delegation token by SCRAM-SHA-256 (1) or SCRAM-SHA-512 (2), or None."""
    secret_key = realm.settings.get("delegation.token.secret.key")
    token = realm.around.image().delegation_tokens.get(token_id)
    if secret_key is None or token is None or is_expired(token, realm.around.clock.wall):
        return None
    expires_ms = min(token.expiration_timestamp, token.max_timestamp)
    return TokenLogin(token.owner, _keys(kind, token_hmac(secret_key, token_id)), expires_ms)


@lru_cache(_REMEMBERED)  # some milliseconds each
def _keys(kind: int, proof: bytes) -> ScramKeys:
    # The salt only has to differ from token to token, and to reveal nothing of the Hmac.
    salt = hmac.digest(proof, b"salt", "sha256")[:_SALT_BYTES]
    salted = salted_password(kind, base64.b64encode(proof).decode(), salt, _ITERATIONS)
    return _keys_in(credential("", kind, salt, salted, _ITERATIONS))


_SAME_NONCE_SINCE = (4, 0)
_NAMES = {kind: name for name, kind in SCRAM_MECHANISMS.items()}
_MOST_BYTES = 1 << 16  # of a message
# A value has no comma. A saslname has "=2C" for a comma and "=3D" for "=". Kafka takes ASCII alone, in names too.
_SASLNAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization_id>{_SASLNAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_SASLNAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/]+=*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+){_EXTENSIONS})"
    r",p=(?P<proof>[A-Za-z0-9+/]+=*)"
)


def _scram(kind: int, realm: Realm) -> Callable[[], Scram]:
    """Return the maker of logins on a listener. Raises ConfigError."""
    login_module(realm.settings, _NAMES[kind])  # Kafka requires a login module, though clients never meet it
    return partial(Scram, realm, kind)


scram_sha_256, scram_sha_512 = partial(_scram, 1), partial(_scram, 2)


class Scram:
    """A client's login."""

    def __init__(self, realm: Realm, kind: int) -> None:
        self._realm = realm
        self._kind = kind
        self._digest = DIGESTS[kind]
        self._keys: ScramKeys | None = None
        self._done = Done(b"", "")
        self._nonce = self._auth_message = ""
        self._binding = b""

    def step(self, token: bytes, wall: int) -> Challenge | Done:
        if len(token) > _MOST_BYTES:
            raise self._refusal()
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise self._refusal() from None
        return self._first(text) if self._keys is None else self._final(text, self._keys)

    def _first(self, text: str) -> Challenge:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise self._refusal()
        name = _plain_name(match["name"])
        extensions = dict(each.split("=", 1) for each in match["extensions"].split(",")[1:])
        if extensions.get("tokenauth", "").lower() == "true":
            login = token_login(self._realm, self._kind, name)
            keys = None if login is None else login.keys
            if login is not None:
                self._done = Done(b"", login.owner, login.expires_ms, by_token=True)
        else:
            keys = user_keys(self._realm, self._kind, name)
            self._done = Done(b"", f"User:{name}")
        if keys is None:
            raise self._refusal()
        authorization_id = match["authorization_id"]
        if authorization_id is not None and _plain_name(authorization_id) != name:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._keys = keys
        self._binding = match["header"].encode()
        self._nonce = match["nonce"] + self._realm.around.new_nonce()
        first = f"r={self._nonce},s={base64.b64encode(keys.salt).decode()},i={keys.iterations}"
        self._auth_message = f"{match['bare']},{first}"
        return Challenge(first.encode())

    def _final(self, text: str, keys: ScramKeys) -> Done:
        match = _FINAL.fullmatch(text)
        if match is None or not self._is_ours(match["nonce"]) or _decoded(match["binding"]) != self._binding:
            raise self._refusal()
        message = f"{self._auth_message},{match['without_proof']}".encode()
        signature = hmac.digest(keys.stored_key, message, self._digest)
        proof = _decoded(match["proof"])
        if len(proof) != len(signature):
            raise self._refusal()
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), keys.stored_key):
            raise self._refusal()
        verifier = base64.b64encode(hmac.digest(keys.server_key, message, self._digest))
        return self._done._replace(token=b"v=" + verifier)

    def _is_ours(self, nonce: str) -> bool:
        """Return whether the client has sent the login's nonce back.

        Releases before 4.0 accept other bytes before the nonce: librdkafka sent its own part twice until 2.6.1.
        """
        release = self._realm.settings.release
        if release is not None and release.number < _SAME_NONCE_SINCE:
            return nonce.endswith(self._nonce)
        return nonce == self._nonce

    def _refusal(self) -> LoginRefused:
        return LoginRefused(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            + _NAMES[self._kind]
        )


def _plain_name(text: str) -> str:
    return text.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
