"""OAUTHBEARER (RFC 7628): the client shows a token that somebody else has made.

Rule: a token that is not accepted is answered with a challenge, which says so as JSON, and refused with the same text
at the client's next message, a single 0x01. A message that makes no sense is refused at once, and so is a token after a
few others, so that a client that guesses tokens meets the delay of a refusal. The log has one line for a bad token,
which names the rule that it breaks and nothing of the token.

Unsecured tokens have no signature (`alg` is none), so anybody may be anybody: they are for tests only, and what Kafka
takes where nothing else is configured. The options of the login module say which claims are checked, and how exactly;
an option that can't be read ends the start.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from pykafka_broker.config import ConfigError
from pykafka_broker.security.sasl.jaas import login_module
from pykafka_broker.security.sasl.jws import InvalidToken, ShownToken, json_object, parts_of, text_claim, time_claim
from pykafka_broker.security.sasl.mechanism import Challenge, Done, LoginRefused, Realm

_PREFIX = "unsecuredValidator"


class UnsecuredTokens:
    """A check of tokens without signatures, made by anybody."""

    __slots__ = ("_principal_claim", "_required_scope", "_scope_claim", "_skew_ms")

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
        from pykafka_broker.security.sasl.signed_tokens import SignedTokens

        return SignedTokens(realm)
    from pykafka_broker.security.hooks.login import HookedTokens

    return HookedTokens(realm.settings, handler)


class OAuthBearer:
    """A client's login."""

    __slots__ = ("_challenge", "_listener", "_shown", "_validator")

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
