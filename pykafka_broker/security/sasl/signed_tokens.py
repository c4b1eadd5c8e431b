"""Signed tokens (RFC 7519) against the keys of a JWKS, as Kafka's `OAuthBearerValidatorCallbackHandler` takes them.

Rule: the signature first, by a key that the token names and never by one that it brings; then its claims, by the wall
clock of the broker. An unsigned token is no token here. PyJWT does the signatures; it is imported by the first listener
that has this.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jwks import Jwks
from pykafka_broker.security.sasl.jws import InvalidToken, Shown, json_object, parts_of, text_claim, time_claim
from pykafka_broker.security.sasl.realm import Realm

try:
    from jwt.api_jws import PyJWS
    from jwt.exceptions import PyJWTError
except ImportError:
    raise ConfigError(
        "Signed tokens of OAUTHBEARER need PyJWT and cryptography: pip install PyJWT cryptography"
    ) from None

_ALGORITHMS = frozenset(f"{family}{bits}" for family in ("RS", "PS", "ES", "HS") for bits in (256, 384, 512)) | {
    "EdDSA"
}


_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_VALIDATORS = (_PACKAGE + "DefaultJwtValidator", _PACKAGE + "BrokerJwtValidator")


class SignedTokens:
    """Knows tokens that were signed with one of the keys. Raises ConfigError."""

    def __init__(self, realm: Realm) -> None:
        settings = realm.settings
        url = settings.get("sasl.oauthbearer.jwks.endpoint.url")
        if not url:
            raise ConfigError(
                f"sasl.oauthbearer.jwks.endpoint.url of listener {realm.listener} is not set: the keys that sign tokens"
            )
        _check_validator(settings.get("sasl.oauthbearer.jwt.validator.class"), realm.listener)
        self._clock = realm.around.clock
        self._keys = Jwks(settings, realm.around.document(url))
        self._skew_s: int = settings.get("sasl.oauthbearer.clock.skew.seconds")
        self._audiences = frozenset(settings.get("sasl.oauthbearer.expected.audience") or ())
        self._issuer: str | None = settings.get("sasl.oauthbearer.expected.issuer")
        self._sub_claim: str = settings.get("sasl.oauthbearer.sub.claim.name")
        self._scope_claim: str = settings.get("sasl.oauthbearer.scope.claim.name")
        self._signatures = PyJWS()

    def shown(self, token: str, wall: int) -> Shown:
        self._check_signature(token)
        claims = json_object(parts_of(token)[1])
        expires = self._checked_times(claims, wall / 1000)
        self._check_origin(claims)
        scope = claims.get(self._scope_claim)
        if isinstance(scope, str) and not scope.strip():
            raise InvalidToken(f"its claim {self._scope_claim} is empty")
        return Shown(text_claim(claims, self._sub_claim).strip(), int(expires * 1000))

    def _check_signature(self, token: str) -> None:
        header = json_object(parts_of(token)[0])
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
            raise InvalidToken("it is not signed, or in a way that is not taken")
        if "crit" in header:
            raise InvalidToken("it wants more to be understood than is")
        if not isinstance(kid, str | None):
            raise InvalidToken("its key's id is no text")
        key = self._keys.key(kid, algorithm, self._clock.now)
        if key is None:
            raise InvalidToken("there is no such key")
        try:
            self._signatures.decode_complete(token, key, algorithms=[algorithm])
        except (PyJWTError, ValueError):
            raise InvalidToken("its signature is wrong") from None

    def _checked_times(self, claims: dict[str, Any], now: float) -> float:
        issued, expires = time_claim(claims, "iat"), time_claim(claims, "exp")
        begins = time_claim(claims, "nbf")
        if issued is None or expires is None:
            raise InvalidToken("it has not both of the claims iat and exp")
        if now - self._skew_s >= expires:
            raise InvalidToken("it has expired")
        if expires < issued or (begins is not None and expires < begins):
            raise InvalidToken("it expires before it begins")
        if begins is not None and begins > now + self._skew_s:
            raise InvalidToken("it is not valid yet")
        return expires

    def _check_origin(self, claims: dict[str, Any]) -> None:
        issuer, audience = claims.get("iss"), claims.get("aud")
        if self._issuer is not None and issuer != self._issuer:
            raise InvalidToken("it is from another issuer")
        meant = [audience] if isinstance(audience, str) else audience
        if meant is None:
            meant = []
        elif not isinstance(meant, list) or not all(isinstance(each, str) for each in meant):
            raise InvalidToken("its claim aud is neither a text nor a list of texts")
        # A token that is meant for somebody is meant for nobody else: not for who has no name either.
        if self._audiences.isdisjoint(meant) and (self._audiences or audience is not None):
            raise InvalidToken("it is meant for another audience")


def _check_validator(name: str, listener: str) -> None:
    if name not in _VALIDATORS:
        raise ConfigError(
            f"Invalid value {name} for configuration sasl.oauthbearer.jwt.validator.class of listener {listener}: "
            "tokens are not validated by that class here"
        )
