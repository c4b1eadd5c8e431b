"""OAUTHBEARER (RFC 7628): the client shows a token that somebody else has made.

Rule: a token that is not taken is answered with a challenge, which says so as JSON, and refused with the same text at
the client's next message, a single 0x01; a message that makes no sense is refused at once, and so is a token after
a few others, since whoever tries tokens is to feel the delay of a refusal. What is wrong with a token is one line of
the log, by the name of the rule that it breaks; nothing of the token is in it.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Protocol

from pykafka_broker.security.sasl.jws import InvalidToken, Shown
from pykafka_broker.security.sasl.mechanism import Challenge, Done, Refused
from pykafka_broker.security.sasl.realm import Realm

log = logging.getLogger(__name__)

OAUTHBEARER = "OAUTHBEARER"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_UNSECURED = (None, _PACKAGE + "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler")
_SIGNED = tuple(_PACKAGE + place + "OAuthBearerValidatorCallbackHandler" for place in ("", "secured."))
_GIVEN_UP = b"\1"  # what a client sends that was refused
_MESSAGE = re.compile(
    r"n,(?:a=(?P<authorization_id>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER = re.compile(r"bearer +(?P<token>[-_.~+/A-Za-z0-9]+=*)", re.IGNORECASE)
_MOST_TOKENS = 4  # of one login
_MOST_BYTES = 1 << 16  # of a message: who has not said yet who it is may hold nobody up with half a megabyte of JSON
_NO_SENSE = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {OAUTHBEARER}"


class Validator(Protocol):
    """Who knows good tokens."""

    def shown(self, token: str, wall: int) -> Shown:
        """What it says at `wall` (epoch milliseconds). Raises InvalidToken."""


class OAuthBearerServer:
    """The mechanism on one listener: for unsecured tokens, unless Kafka's handler for signed ones is configured, or a
    class of Python.
    """

    __slots__ = ("_listener", "_validator")

    def __init__(self, realm: Realm) -> None:
        self._listener = realm.listener
        self._validator = _validator(realm)

    def begin(self) -> OAuthBearer:
        return OAuthBearer(self._validator, self._listener)


def _validator(realm: Realm) -> Validator:
    options = realm.jaas(OAUTHBEARER).options
    handler = realm.settings.get("sasl.server.callback.handler.class", OAUTHBEARER)
    if handler in _UNSECURED:
        from pykafka_broker.security.sasl.unsecured_tokens import UnsecuredTokens

        return UnsecuredTokens(options)
    if handler in _SIGNED:
        from pykafka_broker.security.sasl.signed_tokens import SignedTokens

        return SignedTokens(realm)
    from pykafka_broker.security.hooks.bearer import HookedTokens

    return HookedTokens(realm.settings, handler)


class OAuthBearer:
    """One client that logs in."""

    __slots__ = ("_challenge", "_listener", "_shown", "_validator")

    def __init__(self, validator: Validator, listener: str) -> None:
        self._shown = 0
        self._validator = validator
        self._listener = listener
        self._challenge: str | None = None

    def step(self, token: bytes, wall: int) -> Challenge | Done:
        if token == _GIVEN_UP and self._challenge is not None:
            raise Refused(self._challenge)
        self._shown += 1
        if self._shown > _MOST_TOKENS and self._challenge is not None:
            raise Refused(self._challenge)
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
            raise Refused(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({shown.name})"
            )
        return Done(b"", f"User:{shown.name}", shown.expires_ms)


def _read(message: bytes) -> tuple[str | None, str]:
    """The authorization id, which Kafka compares as it was sent, and the token."""
    match = _MESSAGE.fullmatch(message.decode("latin-1"))
    if match is None:
        raise Refused(_NO_SENSE)
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\1")[:-1])
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise Refused(_NO_SENSE)
    return match["authorization_id"], bearer["token"]


def _challenge(lacking: tuple[str, ...]) -> str:
    if not lacking:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":{json.dumps("[" + ", ".join(lacking) + "]")}}}'
