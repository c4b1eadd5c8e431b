"""The numbers of a real Kafka, which was asked with windows of one second.

Tokens as a real Kafka counts them: one a second, three windows of a second.
"""

from __future__ import annotations

import math

import pytest

from pykafka_broker.security.quotas.rate import Rate, TokenBucket, Windows

THREE = Windows(3, 1000)
NOW = 1_700_000_000_000


@pytest.mark.parametrize(("size", "throttle_ms"), [(20_000, 0), (50_108, 3011), (100_108, 8011), (200_108, 18_011)])
def test_throttle_times_are_those_of_kafka(size: int, throttle_ms: int) -> None:
    rate = Rate(THREE)
    rate.record(size, NOW)
    assert rate.throttle_ms(10_000, NOW) == throttle_ms


def test_what_was_used_before_counts_with_the_time_since_then() -> None:
    rate = Rate(THREE)
    rate.record(1104, NOW)
    rate.record(30_107, NOW + 20)
    assert rate.throttle_ms(10_000, NOW + 20) == 1101  # 31211 bytes / 10000 - 2.020 s


def test_whoever_comes_after_a_pause_may_use_all_windows_but_one() -> None:
    rate = Rate(Windows(11, 1000))
    rate.record(100_000, NOW)
    assert rate.throttle_ms(10_000, NOW) == 0
    rate.record(1, NOW)
    assert rate.throttle_ms(10_000, NOW + 1) == 0
    rate.record(100, NOW + 1)
    assert rate.throttle_ms(10_000, NOW + 1) == 9


def test_with_one_window_there_is_nothing_to_use_at_once() -> None:
    for size, throttle_ms in ((1107, 27), (40_107, 1002), (100_107, 2502)):
        rate = Rate(Windows(1, 1000))
        rate.record(size, NOW)
        assert rate.throttle_ms(40_000, NOW) == throttle_ms


def test_a_record_at_the_end_of_a_window_begins_the_next_one() -> None:
    rate = Rate(THREE)
    rate.record(50_000, NOW)
    rate.record(50_000, NOW + 1000)
    assert rate.throttle_ms(10_000, NOW + 3000) == 3000  # 50000 / 10000 - 2 s


def test_what_is_as_old_as_all_windows_does_not_count() -> None:
    rate = Rate(THREE)
    rate.record(50_000, NOW)
    assert rate.throttle_ms(10_000, NOW + 2999) > 0
    assert rate.throttle_ms(10_000, NOW + 3000) == 0


def test_a_sample_counts_as_long_as_its_last_record_does() -> None:
    rate = Rate(THREE)
    rate.record(50_000, NOW)
    rate.record(1, NOW + 900)
    assert rate.throttle_ms(10_000, NOW + 3000) == 2000  # 50001 / 10000 - 3 s
    assert rate.throttle_ms(10_000, NOW + 3900) == 0


def test_a_window_more_than_there_are_counts_while_the_oldest_is_not_too_old() -> None:
    rate = Rate(THREE)
    for at, size in ((0, 50_000), (999, 1), (1000, 1), (2000, 1), (3000, 1)):
        rate.record(size, NOW + at)
    assert rate.throttle_ms(10_000, NOW + 3000) == 2000  # 50004 / 10000 - 3 s


def test_what_is_taken_back_was_never_used() -> None:
    rate = Rate(THREE)
    rate.record(100_000, NOW)
    rate.record(-100_000, NOW + 1)
    assert rate.throttle_ms(10_000, NOW + 1) == 0


@pytest.mark.parametrize("windows", [THREE, Windows(11, 1000)])
def test_the_rate_is_held_over_ten_seconds(windows: Windows) -> None:
    """Clients whose requests are small against the quota reach its rate.

    Larger requests come in the bursts of Kafka's arithmetic.
    """
    rate, now, used = Rate(windows), NOW, 0
    while now < NOW + 20_000:  # the free burst is used up by then
        rate.record(100, now)
        now += 1 + rate.throttle_ms(100_000, now)
    begin = now
    while now < begin + 10_000:
        rate.record(100, now)
        used += 100
        now += 1 + rate.throttle_ms(100_000, now)
    assert used == pytest.approx(1_000_000, rel=0.05)


def test_it_matters_until_nothing_of_it_counts() -> None:
    rate = Rate(THREE)
    assert not rate.matters(NOW)
    rate.record(1, NOW)
    assert rate.matters(NOW + 2999)
    assert not rate.matters(NOW + 3000)


def test_no_throttle_is_longer_than_an_answer_can_tell() -> None:
    """Kafka takes any number above 0 for a percentage."""
    rate = Rate(THREE)
    rate.record(100, NOW)
    assert rate.throttle_ms(5e-324, NOW) == 0x7FFFFFFF
    assert rate.throttle_ms(math.inf, NOW) == 0


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


def test_it_matters_until_it_is_full_again() -> None:
    bucket = TokenBucket(THREE)
    assert not bucket.matters(NOW)
    bucket.record(6, 1.0, NOW)
    assert bucket.matters(NOW + 5999)
    assert not bucket.matters(NOW + 6000)


def test_a_quota_may_be_infinite_or_next_to_nothing_or_nothing() -> None:
    bucket = TokenBucket(THREE)
    bucket.record(6, math.inf, NOW)
    assert bucket.throttle_ms(math.inf, NOW) == 0
    assert not bucket.matters(NOW)
    bucket = TokenBucket(THREE)
    bucket.record(6, 5e-324, NOW)
    assert bucket.throttle_ms(5e-324, NOW) == 0x7FFFFFFF
    bucket = TokenBucket(THREE)
    bucket.record(6, 0.0, NOW)
    assert bucket.throttle_ms(0.0, NOW) == 0
    assert bucket.matters(NOW + 1_000_000_000)
