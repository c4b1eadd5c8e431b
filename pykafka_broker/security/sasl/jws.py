"""Tokens in compact form (RFC 7515): parts in base64 between dots, the first two of them objects in JSON.

Rule: anybody may send a token, so it is read strictly and no error shows any of it: repeated names, numbers that are
none and impossible times are refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, NamedTuple

_BASE64_URL = re.compile(r"[A-Za-z0-9_-]*")
_PARTS = 3
_MOST_SECONDS = 1 << 40


class ShownToken(NamedTuple):
    """The content of a good token: the client's name, and the end by the wall clock."""

    name: str
    expires_ms: int


class InvalidToken(Exception):
    """The rule broken by a token. lacking: the scopes asked for, where that is the rule."""

    def __init__(self, rule: str, lacking: tuple[str, ...] = ()) -> None:
        super().__init__(rule)
        self.lacking = lacking


def parts_of(token: str) -> list[str]:
    """Return header, claims and signature."""
    parts = token.split(".", _PARTS)
    if len(parts) != _PARTS:
        raise InvalidToken("it has not three parts")
    return parts


def json_object(part: str) -> dict[str, Any]:
    """Return the content of a header or of claims."""
    if _BASE64_URL.fullmatch(part) is None:
        raise InvalidToken("a part of it is no base64")
    try:
        found = json_of(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise InvalidToken("a part of it is no JSON") from None
    if not isinstance(found, dict):
        raise InvalidToken("a part of it is no object")
    return found


def json_of(text: bytes) -> Any:
    """Return strict JSON. Raises ValueError or RecursionError."""
    return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_constant)


def text_claim(claims: dict[str, Any], name: str) -> str:
    found = claims.get(name)
    if not isinstance(found, str) or not found.strip():
        raise InvalidToken(f"it has no claim {name}")
    if any("\ud800" <= each <= "\udfff" for each in found):  # which no answer and no record can hold
        raise InvalidToken(f"its claim {name} has half a character")
    return found


def time_claim(claims: dict[str, Any], name: str) -> float | None:
    """Return seconds since the epoch, or None for a missing claim."""
    found = claims.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) < _MOST_SECONDS:
        raise InvalidToken(f"its claim {name} is no time")
    return float(found)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice")
    return found


def _no_constant(text: str) -> None:
    raise ValueError(text)
