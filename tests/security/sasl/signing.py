"""Keys that sign tokens. They are made once for a run: RSA takes its time."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.security.sasl.bearer import claims

SHARED = b"0123456789abcdef" * 4
_KINDS: dict[str, Any] = {"r": RSAAlgorithm, "e": ECAlgorithm, "o": OKPAlgorithm}


@cache
def private_key(kid: str) -> Any:
    """Return a private key; the first letter of its name gives the kind: r(sa), e(c), o(kp), h(mac)."""
    if kid[0] == "r":
        return rsa.generate_private_key(65537, 2048)
    if kid[0] == "e":
        return ec.generate_private_key(ec.SECP256R1())
    return SHARED if kid[0] == "h" else ed25519.Ed25519PrivateKey.generate()


def public_key(kid: str, **more: Any) -> dict[str, Any]:
    if kid[0] == "h":
        return {"kty": "oct", "k": _oct(), "kid": kid, **more}
    found: dict[str, Any] = json.loads(_KINDS[kid[0]].to_jwk(private_key(kid).public_key()))
    return {**found, "kid": kid, **more}


def _oct() -> str:
    return jwt.utils.base64url_encode(SHARED).decode()


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(keys)}).encode()


def signed(kid: str | None = "r1", algorithm: str = "RS256", by: str = "", **changed: Any) -> str:
    """Return a token of good claims but for the changes, signed by the key `by` or the key of that name."""
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(claims(**changed), private_key(by or kid or "r1"), algorithm, headers=headers)


def signed_text(payload: str, **headers: Any) -> str:
    """Return a signed token whose claims are this text."""
    signatures = jwt.api_jws.PyJWS()
    return signatures.encode(payload.encode(), private_key("r1"), "RS256", headers={"kid": "r1", **headers})
