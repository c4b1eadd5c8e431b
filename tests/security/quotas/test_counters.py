from __future__ import annotations

import tracemalloc
from functools import partial

from pykafka_broker.security.quotas.counters import MOST, Counters
from pykafka_broker.security.quotas.rate import Rate, Windows
from pykafka_broker.security.quotas.token_bucket import TokenBucket

THREE = Windows(3, 1000)
NOW = 1_700_000_000_000


def counters() -> Counters[Rate]:
    return Counters(partial(Rate, THREE), THREE.all_ms)


def test_who_comes_again_has_the_same_counter() -> None:
    rates = counters()
    assert rates.get("a", NOW) is rates.get("a", NOW)
    assert rates.get("a", NOW) is not rates.get("b", NOW)


def test_a_counter_that_still_matters_is_kept() -> None:
    rates = counters()
    rates.get("other", NOW)
    rate = rates.get("a", NOW + 2900)
    rate.record(1, NOW + 2900)
    assert rates.get("a", NOW + 3100) is rate
    rate.record(1, NOW + 5800)
    rates.get("other", NOW + 6200)
    assert rates.get("a", NOW + 6300) is rate


def test_a_counter_that_matters_no_more_is_forgotten() -> None:
    rates = counters()
    rates.get("a", NOW).record(1, NOW)
    rates.get("b", NOW + 4000)
    rates.get("b", NOW + 8000)
    assert len(rates) == 1


def test_a_debt_is_remembered_for_as_long_as_it_takes() -> None:
    buckets = Counters(partial(TokenBucket, THREE), THREE.all_ms, lasting=True)
    buckets.get("a", NOW).record(63, 1.0, NOW)
    for second in range(0, 60, 4):
        buckets.get("b", NOW + second * 1000)
    assert buckets.get("a", NOW + 58_000).throttle_ms(1.0, NOW + 58_000) == 2000
    for second in range(64, 80, 4):
        buckets.get("b", NOW + second * 1000)
    assert len(buckets) == 1


def test_a_long_name_takes_no_more_than_a_short_one() -> None:
    rates = counters()
    tracemalloc.start()
    try:
        for number in range(200):
            rates.get(("", f"{number}" + 32_000 * "x"), NOW)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
    assert len(rates) == 200


def test_a_million_names_take_no_more_than_their_share() -> None:
    rates = counters()
    for number in range(200_000):
        rates.get(number, NOW).record(1, NOW)
    assert len(rates) <= 2 * MOST + 2
