"""Tokens as a real Kafka counts them: one a second, three windows of a second."""

from __future__ import annotations

import math

from pykafka_broker.security.quotas.rate import Windows
from pykafka_broker.security.quotas.token_bucket import TokenBucket

THREE = Windows(3, 1000)
NOW = 1_700_000_000_000


def test_a_full_one_may_be_overdrawn_and_the_debt_is_waited_for() -> None:
    bucket = TokenBucket(THREE)
    bucket.record(6, 1.0, NOW)
    assert bucket.throttle_ms(1.0, NOW) == 3000
    assert bucket.throttle_ms(1.0, NOW + 53) == 2947
    assert bucket.throttle_ms(1.0, NOW + 3000) == 0


def test_tokens_come_back_at_the_rate_up_to_all_windows() -> None:
    bucket = TokenBucket(THREE)
    bucket.record(3, 1.0, NOW)
    bucket.record(5, 1.0, NOW + 60_000)
    assert bucket.throttle_ms(1.0, NOW + 60_000) == 2000


def test_another_quota_pays_the_debt_at_its_own_rate() -> None:
    bucket = TokenBucket(THREE)
    bucket.record(6, 1.0, NOW)
    assert bucket.throttle_ms(2.0, NOW) == 1500


def test_what_is_given_back_was_not_spent() -> None:
    bucket = TokenBucket(THREE)
    bucket.record(6, 1.0, NOW)
    bucket.record(-6, 1.0, NOW)
    assert bucket.throttle_ms(1.0, NOW) == 0
    assert not bucket.matters(NOW)


def test_it_matters_until_it_is_full_again() -> None:
    bucket = TokenBucket(THREE)
    assert not bucket.matters(NOW)
    bucket.record(6, 1.0, NOW)
    assert bucket.matters(NOW + 5999)
    assert not bucket.matters(NOW + 6000)


def test_a_quota_may_be_infinite_or_next_to_nothing() -> None:
    bucket = TokenBucket(THREE)
    bucket.record(6, math.inf, NOW)
    assert bucket.throttle_ms(math.inf, NOW) == 0
    assert not bucket.matters(NOW)
    bucket = TokenBucket(THREE)
    bucket.record(6, 5e-324, NOW)
    assert bucket.throttle_ms(5e-324, NOW) == 0x7FFFFFFF
