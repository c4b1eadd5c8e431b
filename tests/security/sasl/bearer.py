"""Tokens and the client messages that carry them."""

from __future__ import annotations

import base64
import json
from typing import Any

WALL = 1_700_000_000_000
NOW = WALL // 1000


def encoded(part: object) -> str:
    text = part if isinstance(part, str) else json.dumps(part)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def claims(**changed: Any) -> dict[str, Any]:
    """Return good claims but for the changes; None takes a claim away."""
    all_claims = {"sub": "alice", "iat": NOW - 10, "exp": NOW + 60, **changed}
    return {name: value for name, value in all_claims.items() if value is not None}


def unsecured(payload: object = None, header: object = None, signature: str = "", **changed: Any) -> str:
    header = {"alg": "none"} if header is None else header
    return f"{encoded(header)}.{encoded(claims(**changed) if payload is None else payload)}.{signature}"


def message(token: str, authorization_id: str = "", more: str = "") -> bytes:
    return f"n,{authorization_id},\1auth=Bearer {token}\1{more}\1".encode()
