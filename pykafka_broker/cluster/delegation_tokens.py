"""Delegation tokens as metadata (KIP-48, KIP-373).

Rule: a token is known by its id and proved by its Hmac, which is made of the id and the broker's secret key and stored
nowhere. The Hmac is enough to act as the owner, so it is in no text and no error. An expired token counts as none,
whether it was removed already or not; times are those of the wall clock.
"""

from __future__ import annotations

import hmac
from collections.abc import Generator, Set

from pykafka_broker.cluster.controller import MAX_RECORDS_PER_OPERATION, Controller, Decision
from pykafka_broker.cluster.features import METADATA_VERSION
from pykafka_broker.cluster.image import MetadataImage
from pykafka_broker.cluster.records import ApiMessageAndVersion
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import uuid_text
from pykafka_broker.protocol.stored.delegation_token_record import DelegationTokenRecord
from pykafka_broker.protocol.stored.remove_delegation_token_record import RemoveDelegationTokenRecord
from pykafka_broker.steps import Pace, at_once

_LAST_MS = (1 << 63) - 1
MAX_RENEWERS = 1000  # of one token: a record has to hold all of them
_TOKENS_FROM = 14  # the first metadata.version with records of tokens, 3.6-IV2


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Return the proof of having a token."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


class TokenIndex:
    """The ids of an image's tokens by Hmac (Kafka: DelegationTokenCache)."""

    def __init__(self, image: MetadataImage, secret_key: str) -> None:
        self._image = image
        self._secret_key = secret_key
        self._ids: dict[bytes, str] = {}  # of removed tokens too
        self._known: set[str] = set()  # the same ids

    def learn(self, wanted: bytes) -> Generator[None, None, None]:
        """Take in the tokens made since the last call, in steps, unless the wanted one is known already."""
        tokens = self._image.delegation_tokens
        if wanted in self._ids:
            return
        if len(self._known) > 2 * len(tokens):
            self._ids, self._known = {}, set()
        pace = Pace()
        for token_id in tokens.keys() - self._known:
            self._ids[token_hmac(self._secret_key, token_id)] = token_id
            self._known.add(token_id)
            if pace.due():
                yield None

    def find(self, wanted: bytes) -> DelegationTokenRecord | None:
        at_once(self.learn(wanted))
        return self._image.delegation_tokens.get(self._ids.get(bytes(wanted), ""))


def token_index(image: MetadataImage, secret_key: str) -> TokenIndex:
    """Return the index of an image's tokens, which `TokenIndex.learn` fills."""
    index: TokenIndex = image.token_index or TokenIndex(image, secret_key)
    image.token_index = index
    return index


def is_expired(token: DelegationTokenRecord, wall: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < wall


def create_token(
    controller: Controller, owner: str, requester: str, renewers: list[str], lifetime_ms: int, wall: int
) -> Decision[tuple[DelegationTokenRecord, bytes]]:
    secret_key = _enabled(controller)
    config = controller.config
    most = config.delegation_token_max_lifetime_ms
    end = min(wall + (min(most, lifetime_ms) if lifetime_ms > 0 else most), _LAST_MS)
    expiry = min(end, wall + config.delegation_token_expiry_time_ms)
    token_id = uuid_text(controller.new_uuid())
    token = DelegationTokenRecord(owner, requester, renewers, wall, end, expiry, token_id)
    return Decision([ApiMessageAndVersion(token, 0)], (token, token_hmac(secret_key, token_id)))


def renew_token(controller: Controller, principal: str, wanted: bytes, period_ms: int, wall: int) -> Decision[int]:
    """Renew a token up to the maximum lifetime, and return the new expiry time."""
    token = _found(controller, wanted)
    if is_expired(token, wall):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _check_may_renew(token, principal)
    most = controller.config.delegation_token_expiry_time_ms
    return _expires(token, wall + (min(most, period_ms) if period_ms > 0 else most))


def expire_token(controller: Controller, principal: str, wanted: bytes, period_ms: int, wall: int) -> Decision[int]:
    """Let a token expire after a period, at once if negative, and return the new expiry time."""
    token = _found(controller, wanted)
    _check_may_renew(token, principal)
    if period_ms < 0:
        return Decision([_removal(token)], wall)
    if is_expired(token, wall):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _expires(token, wall + period_ms)


def expired_tokens(image: MetadataImage, wall: int) -> list[ApiMessageAndVersion]:
    """Return records removing expired tokens, as many as fit into a batch."""
    records = []
    for token in image.delegation_tokens.values():
        if is_expired(token, wall):
            records.append(_removal(token))
            if len(records) == MAX_RECORDS_PER_OPERATION:
                break
    return records


def is_of(token: DelegationTokenRecord, people: Set[str] | None) -> bool:
    """Return whether one of `people` is the token's owner, requester or a renewer; True for None."""
    return people is None or not people.isdisjoint((token.owner, token.requester, *token.renewers))


def _enabled(controller: Controller) -> str:
    """Return the secret key, if the broker has tokens enabled."""
    secret_key: str | None = controller.config.delegation_token_secret_key
    if secret_key is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if controller.image.features.get(METADATA_VERSION, 0) < _TOKENS_FROM:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    return secret_key


def _found(controller: Controller, wanted: bytes) -> DelegationTokenRecord:
    token = token_index(controller.image, _enabled(controller)).find(wanted)
    if token is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _check_may_renew(token: DelegationTokenRecord, principal: str) -> None:
    """Refuse anybody but owner and renewers: a requester has no say in another's token afterwards."""
    if principal != token.owner and principal not in token.renewers:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _expires(token: DelegationTokenRecord, wanted: int) -> Decision[int]:
    expiry = min(token.max_timestamp, wanted)
    renewed = DelegationTokenRecord(
        token.owner,
        token.requester,
        token.renewers,
        token.issue_timestamp,
        token.max_timestamp,
        expiry,
        token.token_id,
    )
    return Decision([ApiMessageAndVersion(renewed, 0)], expiry)


def _removal(token: DelegationTokenRecord) -> ApiMessageAndVersion:
    return ApiMessageAndVersion(RemoveDelegationTokenRecord(token.token_id), 0)
