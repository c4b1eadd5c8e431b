"""Logins with delegation tokens (KIP-48): SCRAM, where the id is the name and the Hmac, in base64, the password.

Rule: the keys that check such a password are made when a token is first used and are in memory only; a token that has
gone or expired is unknown, whatever is remembered of it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from functools import lru_cache

from pykafka_broker.cluster.delegation_tokens import is_expired, token_hmac
from pykafka_broker.security.sasl.realm import Realm, ScramKeys, TokenLogin

_DIGESTS = {1: "sha256", 2: "sha512"}
_ITERATIONS = 4096
_SALT_BYTES = 16
_REMEMBERED = 1024


def token_login(realm: Realm, kind: int, token_id: str) -> TokenLogin | None:
    """What logs in with that token by SCRAM-SHA-256 (1) or SCRAM-SHA-512 (2)."""
    secret_key = realm.settings.get("delegation.token.secret.key")
    token = realm.around.image().delegation_tokens.get(token_id)
    if secret_key is None or token is None or is_expired(token, realm.around.clock.wall):
        return None
    expires_ms = min(token.expiration_timestamp, token.max_timestamp)
    return TokenLogin(token.owner, _keys(kind, token_hmac(secret_key, token_id)), expires_ms)


@lru_cache(_REMEMBERED)  # some milliseconds each
def _keys(kind: int, proof: bytes) -> ScramKeys:
    digest = _DIGESTS[kind]
    # Any salt will do that differs from token to token and tells nothing of the Hmac.
    salt = hmac.digest(proof, b"salt", "sha256")[:_SALT_BYTES]
    salted = hashlib.pbkdf2_hmac(digest, base64.b64encode(proof), salt, _ITERATIONS)
    stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    return ScramKeys(salt, _ITERATIONS, stored, hmac.digest(salted, b"Server Key", digest))
