"""Delegation tokens: the rights to use one, and its lifetime. The answers are those of a real 4.4.0 broker."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pykafka_broker.cluster.delegation_tokens import (
    create_token,
    expire_token,
    expired_tokens,
    is_of,
    renew_token,
    token_hmac,
)
from pykafka_broker.cluster.image import MetadataDelta
from pykafka_broker.cluster.image_records import image_records
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.stored.delegation_token_record import DelegationTokenRecord
from pykafka_broker.protocol.stored.feature_level_record import FeatureLevelRecord
from tests.cluster.support import Cluster

NOW, DAY = 1_700_000_000_000, 86_400_000
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"


class Tokens:
    """A cluster with a secret key; the time is moved by hand."""

    def __init__(self, **config: str) -> None:
        self.cluster = Cluster(1, delegation_token_secret_key="sesame", **config)
        self.image = self.cluster.image
        self.wall = NOW

    def create(self, lifetime_ms: int = -1, owner: str = ALICE, requester: str = ALICE, *renewers: str) -> Any:
        made = create_token(self.cluster.controller, owner, requester, list(renewers), lifetime_ms, self.wall)
        return self.cluster.do(made)

    def renew(self, proof: bytes, period_ms: int = -1, principal: str = ALICE) -> Any:
        return self.cluster.do(renew_token(self.cluster.controller, principal, proof, period_ms, self.wall))

    def expire(self, proof: bytes, period_ms: int = -1, principal: str = ALICE) -> Any:
        return self.cluster.do(expire_token(self.cluster.controller, principal, proof, period_ms, self.wall))

    def sweep(self) -> None:
        self.cluster.apply(expired_tokens(self.image, self.wall))


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


def refused(code: ErrorCode, decide: Any, *given: Any) -> None:
    with pytest.raises(ApiError) as caught:
        decide(*given)
    assert caught.value.code == code


def test_the_hmac_is_kafkas() -> None:
    """The HMAC of a token that a real 4.4.0 made with that key."""
    password = "ZBldt/Erd/gtfXGoCt5h8e0BOBPeA22K0af1/GDoMQty3/Vu1U0dfcbv3kovrx+MyDDu26NRWzmnz06KuSWliw=="
    assert base64.b64encode(token_hmac("sesame", "27UlhRRZRmO9SIhw8_ar3Q")).decode() == password


@pytest.mark.parametrize(
    ("asked", "expires", "ends"),
    [
        (-1, DAY, 7 * DAY),
        (0, DAY, 7 * DAY),
        (10_000, 10_000, 10_000),
        (2 * DAY, DAY, 2 * DAY),
        ((1 << 63) - 1, DAY, 7 * DAY),
    ],
)
def test_a_token_lives_no_longer_than_it_was_asked_for_and_than_is_allowed(
    tokens: Tokens, asked: int, expires: int, ends: int
) -> None:
    token, proof = tokens.create(asked)
    assert (token.issue_timestamp, token.expiration_timestamp, token.max_timestamp) == (NOW, NOW + expires, NOW + ends)
    assert proof == token_hmac("sesame", token.token_id)
    assert tokens.image.delegation_tokens == {token.token_id: token}


@pytest.mark.parametrize(("asked", "expires"), [(-1, DAY), (0, DAY), (100_000, 100_000), ((1 << 63) - 1, DAY)])
def test_a_renewal_counts_from_now(tokens: Tokens, asked: int, expires: int) -> None:
    token, proof = tokens.create()
    tokens.wall += DAY // 2
    assert tokens.renew(proof, asked) == tokens.wall + expires
    assert tokens.image.delegation_tokens[token.token_id].expiration_timestamp == tokens.wall + expires


def test_a_renewal_never_goes_past_the_end(tokens: Tokens) -> None:
    token, proof = tokens.create(DAY + 5)
    tokens.wall += DAY
    assert tokens.renew(proof) == token.max_timestamp == NOW + DAY + 5


def test_owner_and_renewers_may_renew_and_nobody_else(tokens: Tokens) -> None:
    _, proof = tokens.create(-1, ALICE, CAROL, BOB)
    for principal in (ALICE, BOB):
        tokens.renew(proof, -1, principal)
        tokens.expire(proof, 1000, principal)
    for principal in (CAROL, "User:dave", "Group:alice"):  # Carol has asked for it, which gives her nothing
        refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, tokens.renew, proof, -1, principal)
        refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, tokens.expire, proof, 1000, principal)


def test_a_negative_period_removes_a_token_at_once(tokens: Tokens) -> None:
    _, proof = tokens.create()
    assert tokens.expire(proof, -1) == NOW
    assert not tokens.image.delegation_tokens
    refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, tokens.expire, proof)
    refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, tokens.renew, proof)


def test_a_token_may_be_told_to_live_longer_than_a_renewal_lasts(tokens: Tokens) -> None:
    token, proof = tokens.create()
    assert tokens.expire(proof, 2 * DAY) == NOW + 2 * DAY
    assert tokens.expire(proof, (1 << 63) - 1) == token.max_timestamp


def test_an_expired_token_can_only_be_removed(tokens: Tokens) -> None:
    _, proof = tokens.create()
    tokens.expire(proof, 0)
    tokens.wall += 1
    for principal in (ALICE, CAROL):
        refused(ErrorCode.DELEGATION_TOKEN_EXPIRED, tokens.renew, proof, -1, principal)
    refused(ErrorCode.DELEGATION_TOKEN_EXPIRED, tokens.expire, proof, 1000)
    refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, tokens.expire, proof, 1000, CAROL)
    tokens.expire(proof)
    assert not tokens.image.delegation_tokens


def test_a_sweep_takes_what_has_expired_and_leaves_the_rest(tokens: Tokens) -> None:
    tokens.create(1000)
    kept, _ = tokens.create(2000)
    tokens.wall += 1000
    tokens.sweep()
    assert len(tokens.image.delegation_tokens) == 2
    tokens.wall += 1
    tokens.sweep()
    assert list(tokens.image.delegation_tokens) == [kept.token_id]


def test_a_sweep_is_no_larger_than_a_batch(tokens: Tokens) -> None:
    for number in range(10_001):
        tokens.image.apply(DelegationTokenRecord(token_id=str(number)), MetadataDelta())
    assert len(expired_tokens(tokens.image, NOW)) == 10_000


def test_little_is_remembered_of_tokens_that_have_gone(tokens: Tokens) -> None:
    _, kept = tokens.create()
    for _ in range(100):
        _, proof = tokens.create()
        tokens.expire(proof)
        tokens.renew(kept)
    assert len(tokens.image.token_index._ids) < 10
    tokens.renew(kept)


def test_without_a_secret_key_there_are_no_tokens() -> None:
    cluster = Cluster()
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    refused(disabled, create_token, cluster.controller, ALICE, ALICE, [], -1, NOW)
    for decide in (renew_token, expire_token):
        refused(disabled, decide, cluster.controller, ALICE, b"x", -1, NOW)


def test_a_metadata_version_that_has_no_tokens_is_told(tokens: Tokens) -> None:
    tokens.image.apply(FeatureLevelRecord("metadata.version", 13), MetadataDelta())
    refused(ErrorCode.UNSUPPORTED_VERSION, tokens.create)


def test_whoever_has_a_part_in_a_token_finds_it(tokens: Tokens) -> None:
    token, _ = tokens.create(-1, ALICE, CAROL, BOB)
    for principal in (ALICE, BOB, CAROL):
        assert is_of(token, frozenset({principal}))
    assert is_of(token, None)
    assert not is_of(token, frozenset({"User:dave"}))
    assert not is_of(token, frozenset())


def test_a_snapshot_holds_the_tokens(tokens: Tokens) -> None:
    token, _ = tokens.create(-1, ALICE, CAROL, BOB, "User:a,b=c ü")
    kept = [record.message for record in image_records(tokens.image, 2, 4) if record.message.API_KEY == 10]
    assert kept == [token]


def test_a_token_may_be_made_for_ever() -> None:
    longest = str((1 << 63) - 1)
    tokens = Tokens(delegation_token_max_lifetime_ms=longest, delegation_token_expiry_time_ms=longest)
    token, proof = tokens.create()
    assert token.expiration_timestamp == token.max_timestamp == (1 << 63) - 1
    assert tokens.renew(proof) == (1 << 63) - 1
