"""OAUTHBEARER (RFC 7628): the client shows a token that somebody else has made.

Rule: a token that is not accepted is answered with a challenge, which says so as JSON, and refused with the same text
at the client's next message, a single 0x01. A message that makes no sense is refused at once, and so is a token after a
few others, so that a client that guesses tokens meets the delay of a refusal. The log has one line for a bad token,
which names the rule that it breaks and nothing of the token.

Unsecured tokens have no signature (`alg` is none), so anybody may be anybody: they are for tests only, and what Kafka
takes where nothing else is configured. The options of the login module say which claims are checked, and how exactly;
an option that can't be read ends the start.

Signed tokens (RFC 7519) are checked against the keys of a JSON Web Key Set (RFC 7517), as Kafka's
`OAuthBearerValidatorCallbackHandler` does it: first the signature, by a key that the token names and never by one that
it brings; then the claims, by the wall clock of the broker. PyJWT checks the signatures, and is imported by the first
listener with signed tokens.

The keys come from a file or a URL. The last readable set counts until a newer set can be read; without a readable set
the broker does not start. A login reads the keys again if they are older than
`sasl.oauthbearer.jwks.endpoint.refresh.ms`, or if a token names an unknown key: at most once a second, and ever more
seldom after failures. No login waits for a URL: it is judged by the present keys.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pykafka_broker.config import ConfigError
from pykafka_broker.security.listener_settings import ListenerSettings
from pykafka_broker.security.sasl.jaas import login_module
from pykafka_broker.security.sasl.jws import (
    InvalidToken,
    ShownToken,
    json_object,
    json_of,
    parts_of,
    text_claim,
    time_claim,
)
from pykafka_broker.security.sasl.mechanism import Challenge, Done, LoginRefused, Realm, RemoteDocument

if TYPE_CHECKING:
    from jwt import PyJWK

_PREFIX = "unsecuredValidator"


class UnsecuredTokens:
    """A check of tokens without signatures, made by anybody."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._principal_claim = options.get(_PREFIX + "PrincipalClaimName", "").strip() or "sub"
        self._scope_claim = options.get(_PREFIX + "ScopeClaimName", "").strip() or "scope"
        self._required_scope = tuple(options.get(_PREFIX + "RequiredScope", "").split())
        self._skew_ms = _skew_ms(options.get(_PREFIX + "AllowableClockSkewMs", "").strip() or "0")

    def shown(self, token: str, wall: int) -> ShownToken:
        header, payload, signature = parts_of(token)
        if json_object(header).get("alg") != "none" or signature:
            raise InvalidToken("only unsecured tokens are taken here")
        claims = json_object(payload)
        name = text_claim(claims, self._principal_claim)
        expires = self._checked_times(claims, wall)
        self._check_scope(claims)
        return ShownToken(name, int(expires * 1000))

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


log = logging.getLogger(__name__)

OAUTHBEARER = "OAUTHBEARER"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_UNSECURED = (None, _PACKAGE + "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler")
_SIGNED = tuple(_PACKAGE + place + "OAuthBearerValidatorCallbackHandler" for place in ("", "secured."))
_AWS_MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
_GIVEN_UP = b"\1"  # a client's acknowledgement of a refusal
_MESSAGE = re.compile(
    r"n,(?:a=(?P<authorization_id>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER = re.compile(r"bearer +(?P<token>[-_.~+/A-Za-z0-9]+=*)", re.IGNORECASE)
_MOST_TOKENS = 4  # of one login
_MOST_BYTES = 1 << 16  # of a message: an unknown client may hold nobody up with half a megabyte of JSON
_NO_SENSE = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {OAUTHBEARER}"


class Validator(Protocol):
    """A check of tokens."""

    def shown(self, token: str, wall: int) -> ShownToken:
        """Return the content of a token at `wall` (epoch milliseconds). Raises InvalidToken."""


def oauthbearer(realm: Realm) -> Callable[[], OAuthBearer]:
    """Return the maker of logins on a listener. Raises ConfigError.

    Unsecured tokens are accepted, unless Kafka's handler for signed tokens is configured, a class of Python, or the
    login module of Amazon MSK.
    """
    return partial(OAuthBearer, _validator(realm), realm.settings.name)


def _validator(realm: Realm) -> Validator:
    module = login_module(realm.settings, OAUTHBEARER)
    if module.name == _AWS_MODULE:
        from pykafka_broker.security.sasl.aws_msk_iam import AwsTokens

        return AwsTokens(realm.settings)
    options = module.options
    handler = realm.settings.get("sasl.server.callback.handler.class", OAUTHBEARER)
    if handler in _UNSECURED:
        return UnsecuredTokens(options)
    if handler in _SIGNED:
        return SignedTokens(realm)
    from pykafka_broker.security.hooks.login import HookedTokens

    return HookedTokens(realm.settings, handler)


class OAuthBearer:
    """A client's login."""

    def __init__(self, validator: Validator, listener: str) -> None:
        self._shown = 0
        self._validator = validator
        self._listener = listener
        self._challenge: str | None = None

    def step(self, token: bytes, wall: int) -> Challenge | Done:
        if token == _GIVEN_UP and self._challenge is not None:
            raise LoginRefused(self._challenge)
        self._shown += 1
        if self._shown > _MOST_TOKENS and self._challenge is not None:
            raise LoginRefused(self._challenge)
        try:
            if len(token) > _MOST_BYTES:
                raise InvalidToken("it is too long to be looked at")
            authorization_id, bearer = _read(token)
            shown = self._validator.shown(bearer, wall)
        except InvalidToken as error:
            log.info("Listener %s: a token is not taken: %s", self._listener, error)
            self._challenge = _challenge(error.lacking)
            return Challenge(self._challenge.encode())
        if authorization_id not in (None, shown.name):
            raise LoginRefused(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({shown.name})"
            )
        return Done(b"", f"User:{shown.name}", shown.expires_ms)


def _read(message: bytes) -> tuple[str | None, str]:
    """Return the authorization id, compared as sent in Kafka, and the token."""
    match = _MESSAGE.fullmatch(message.decode("latin-1"))
    if match is None:
        raise LoginRefused(_NO_SENSE)
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\1")[:-1])
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise LoginRefused(_NO_SENSE)
    return match["authorization_id"], bearer["token"]


def _challenge(lacking: tuple[str, ...]) -> str:
    if not lacking:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":{json.dumps("[" + ", ".join(lacking) + "]")}}}'


# -- signed tokens


_URL = "sasl.oauthbearer.jwks.endpoint.url"
_SOONEST_MS = 1000  # between two readings for unknown keys
_MOST_KEYS = 1000
# The kind of key that an algorithm needs, by the first two letters of the algorithm.
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP", "HS": "oct"}


class Jwks:
    """The keys of a listener. Raises ConfigError without any key at the start."""

    def __init__(self, settings: ListenerSettings, document: RemoteDocument) -> None:
        self._document = document
        self._refresh_ms: int = settings.get("sasl.oauthbearer.jwks.endpoint.refresh.ms")
        self._backoff_ms: int = settings.get("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")
        self._backoff_max_ms: int = settings.get("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")
        self._taken_over: bytes | None = None  # the document that the keys are from, or the latest unreadable one
        self._keys: list[dict[str, Any]] = []
        wrong = self._take_over() if document.content or not document.error else document.error
        if wrong:
            raise ConfigError(f"Invalid value for configuration {_URL} of listener {settings.name}: {wrong}")

    def key(self, kid: str | None, algorithm: str, now: int) -> PyJWK | None:
        """Return the key with an id; without an id the first fitting key."""
        if now - self._document.read_at >= self._refresh_ms:
            self._read_again(now)
        self._take_over()
        found = self._matching_key(kid, algorithm)
        if found is None and now - self._document.read_at >= _SOONEST_MS:
            self._read_again(now)
            self._take_over()
            found = self._matching_key(kid, algorithm)
        return found

    def _read_again(self, now: int) -> None:
        """Read the document again, unless the last reading failed too recently."""
        document = self._document
        if document.failures:
            pause = min(self._backoff_max_ms, self._backoff_ms << min(document.failures - 1, 20))
            if now - document.read_at < pause:
                return
        document.read()

    def _take_over(self) -> str:
        """Take over the keys of a newly read document; return the reason if they are unusable, else an empty text."""
        content = self._document.content
        if content is self._taken_over:
            return ""
        self._taken_over = content
        try:
            self._keys = _keys_of(content)
        except (ValueError, RecursionError) as error:
            wrong = str(error) if isinstance(error, _NoKeys) else "it is no JSON"
            log.warning("The keys that sign tokens stay as they were: %s", wrong)
            return wrong
        return ""

    def _matching_key(self, kid: str | None, algorithm: str) -> PyJWK | None:
        kind = _KINDS.get(algorithm[:2])
        for key in self._keys:
            if key["kty"] == kind and (kid is None or key.get("kid") == kid) and key.get("alg") in (None, algorithm):
                return _usable(key, algorithm)
        return None


class _NoKeys(ValueError):
    """A document without usable keys; the text has nothing of its content."""


def _keys_of(content: bytes) -> list[dict[str, Any]]:
    """Return the keys for signatures. Raises ValueError, RecursionError."""
    found = json_of(content)
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, dict) and isinstance(key.get("kty"), str) for key in keys):
        raise _NoKeys("it is no JSON Web Key Set")
    usable = [key for key in keys if key.get("use") in (None, "sig")]
    if not usable:
        raise _NoKeys("there is no key for signatures in it")
    if len(usable) > _MOST_KEYS:
        raise _NoKeys("there are too many keys in it")
    return usable


def _usable(key: dict[str, Any], algorithm: str) -> PyJWK | None:
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        return PyJWK(key, algorithm)
    except (PyJWTError, ValueError, TypeError):
        log.warning("A key that signs tokens can't be used for %s", algorithm)
        return None


_ALGORITHMS = frozenset(f"{family}{bits}" for family in ("RS", "PS", "ES", "HS") for bits in (256, 384, 512)) | {
    "EdDSA"
}
_VALIDATORS = (_PACKAGE + "DefaultJwtValidator", _PACKAGE + "BrokerJwtValidator")


class SignedTokens:
    """A check of signed tokens. Raises ConfigError."""

    def __init__(self, realm: Realm) -> None:
        try:
            from jwt.api_jws import PyJWS
        except ImportError:
            raise ConfigError(
                "Signed tokens of OAUTHBEARER need PyJWT and cryptography: pip install PyJWT cryptography"
            ) from None
        settings = realm.settings
        url = settings.get("sasl.oauthbearer.jwks.endpoint.url")
        if not url:
            raise ConfigError(f"{_URL} of listener {settings.name} is not set: the keys that sign tokens")
        _check_validator(settings.get("sasl.oauthbearer.jwt.validator.class"), settings.name)
        self._clock = realm.around.clock
        self._keys = Jwks(settings, realm.around.document(url))
        self._skew_s: int = settings.get("sasl.oauthbearer.clock.skew.seconds")
        self._audiences = frozenset(settings.get("sasl.oauthbearer.expected.audience") or ())
        self._issuer: str | None = settings.get("sasl.oauthbearer.expected.issuer")
        self._any_audience = settings.is_of_4_4 and not self._audiences
        if self._any_audience and not settings.get("sasl.oauthbearer.allow.unverified.audience"):
            raise _unexpected("audience", settings.name)
        any_issuer = settings.is_of_4_4 and not self._issuer
        if any_issuer and not settings.get("sasl.oauthbearer.allow.unverified.issuer"):
            raise _unexpected("issuer", settings.name)
        self._sub_claim: str = settings.get("sasl.oauthbearer.sub.claim.name")
        self._scope_claim: str = settings.get("sasl.oauthbearer.scope.claim.name")
        self._signatures = PyJWS()

    def shown(self, token: str, wall: int) -> ShownToken:
        self._check_signature(token)
        claims = json_object(parts_of(token)[1])
        expires = self._checked_times(claims, wall / 1000)
        self._check_origin(claims)
        scope = claims.get(self._scope_claim)
        if isinstance(scope, str) and not scope.strip():
            raise InvalidToken(f"its claim {self._scope_claim} is empty")
        return ShownToken(text_claim(claims, self._sub_claim).strip(), int(expires * 1000))

    def _check_signature(self, token: str) -> None:
        header = json_object(parts_of(token)[0])
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
            raise InvalidToken("it is not signed, or in a way that is not taken")
        if "crit" in header:
            raise InvalidToken("it wants more to be understood than is")
        if not isinstance(kid, str | None):
            raise InvalidToken("its key's id is no text")
        from jwt.exceptions import PyJWTError

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
        if not isinstance(issuer, str | None):
            raise InvalidToken("its claim iss is no text")
        if self._issuer is not None and issuer != self._issuer:
            raise InvalidToken("it is from another issuer")
        if self._any_audience:
            return
        meant = [audience] if isinstance(audience, str) else audience
        if meant is None:
            meant = []
        elif not isinstance(meant, list) or not all(isinstance(each, str) for each in meant):
            raise InvalidToken("its claim aud is neither a text nor a list of texts")
        # A token with an audience is only for a broker that expects this audience. A broker that expects an audience
        # takes no token without.
        if self._audiences.isdisjoint(meant) and (self._audiences or audience is not None):
            raise InvalidToken("it is meant for another audience")


def _unexpected(claim: str, listener: str) -> ConfigError:
    """Return the refusal of a listener that says neither what a token must name nor that anything will do."""
    return ConfigError(
        f"sasl.oauthbearer.expected.{claim} of listener {listener} is not set: set it, or "
        f"sasl.oauthbearer.allow.unverified.{claim} to true, which takes tokens of any {claim}"
    )


def _check_validator(name: str, listener: str) -> None:
    if name not in _VALIDATORS:
        raise ConfigError(
            f"Invalid value {name} for configuration sasl.oauthbearer.jwt.validator.class of listener {listener}: "
            "tokens are not validated by that class here"
        )
