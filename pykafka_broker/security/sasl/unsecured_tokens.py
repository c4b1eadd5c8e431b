"""Unsecured tokens: `alg` is none and there is no signature, so anybody may be anybody. For tests only, and what Kafka
takes where nothing else is configured.

Rule: the options of the login module say which claims are looked at and how exactly; one that can't be read ends the
start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jws import InvalidToken, Shown, json_object, parts_of, text_claim, time_claim

_PREFIX = "unsecuredValidator"


class UnsecuredTokens:
    """Knows tokens that somebody has made who was not asked who he is."""

    __slots__ = ("_principal_claim", "_required_scope", "_scope_claim", "_skew_ms")

    def __init__(self, options: Mapping[str, str]) -> None:
        self._principal_claim = options.get(_PREFIX + "PrincipalClaimName", "").strip() or "sub"
        self._scope_claim = options.get(_PREFIX + "ScopeClaimName", "").strip() or "scope"
        self._required_scope = tuple(options.get(_PREFIX + "RequiredScope", "").split())
        self._skew_ms = _skew_ms(options.get(_PREFIX + "AllowableClockSkewMs", "").strip() or "0")

    def shown(self, token: str, wall: int) -> Shown:
        header, payload, signature = parts_of(token)
        if json_object(header).get("alg") != "none" or signature:
            raise InvalidToken("only unsecured tokens are taken here")
        claims = json_object(payload)
        name = text_claim(claims, self._principal_claim)
        expires = self._checked_times(claims, wall)
        self._check_scope(claims)
        return Shown(name, int(expires * 1000))

    def _checked_times(self, claims: dict[str, Any], wall: int) -> float:
        issued, expires = time_claim(claims, "iat"), time_claim(claims, "exp")
        if expires is None:
            raise InvalidToken("it has no claim exp")
        if wall - self._skew_ms >= expires * 1000:
            raise InvalidToken("it has expired")
        if issued is not None and issued * 1000 > wall + self._skew_ms:
            raise InvalidToken("it is issued in the future")
        if issued is not None and expires <= issued:
            raise InvalidToken("it expires before it is issued")
        return expires

    def _check_scope(self, claims: dict[str, Any]) -> None:
        scope = claims.get(self._scope_claim)
        if scope is not None and not isinstance(scope, str | list):
            raise InvalidToken(f"its claim {self._scope_claim} is neither a text nor a list")
        held = scope.split() if isinstance(scope, str) else scope or []
        if any(wanted not in held for wanted in self._required_scope):
            raise InvalidToken("it lacks a scope", self._required_scope)


def _skew_ms(text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"Invalid value {text} for the option {_PREFIX}AllowableClockSkewMs: not a number of ms")
    return int(text)
