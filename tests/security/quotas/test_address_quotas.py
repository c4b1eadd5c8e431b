"""Connections of one address, at the times at which a real Kafka let them in and turned them away."""

from __future__ import annotations

from pykafka_broker.security.quotas.client_quotas import AddressQuotas
from pykafka_broker.security.quotas.rate import Windows

NOW = 1_700_000_000_000
HERE, THERE = "127.0.0.1", "10.0.0.1"


def quotas(values: dict[str | None, float]) -> AddressQuotas:
    found = AddressQuotas(Windows(3, 1000))
    found.quotas = values
    return found


def test_who_has_no_quota_is_let_in() -> None:
    found = quotas({THERE: 1.0})
    assert [found.throttle_ms(HERE, NOW) for _ in range(1000)] == [0] * 1000


def test_connections_come_in_as_with_kafka() -> None:
    found = quotas({HERE: 2.0})
    assert [found.throttle_ms(HERE, NOW + at) for at in (0, 5, 7, 8)] == [0] * 4
    assert found.throttle_ms(HERE, NOW + 12) == 488
    assert found.throttle_ms(HERE, NOW + 518) == 0
    assert found.throttle_ms(HERE, NOW + 520) == 480
    assert found.throttle_ms(HERE, NOW + 1021) == 979
    assert found.throttle_ms(HERE, NOW + 2027) == 973
    assert found.throttle_ms(HERE, NOW + 3033) == 0


def test_nobody_is_held_for_longer_than_a_window() -> None:
    found = quotas({None: 0.1})
    found.throttle_ms(HERE, NOW)
    assert found.throttle_ms(HERE, NOW) == 1000


def test_a_quota_of_zero_lets_nobody_in() -> None:
    """ZooKeeper and metadata of older releases may hold one."""
    found = quotas({None: 0.0})
    assert [found.throttle_ms(HERE, NOW + at) for at in (0, 1, 5000)] == [1000] * 3


def test_the_default_is_for_each_address_that_has_none_of_its_own() -> None:
    found = quotas({None: 0.1, THERE: 100.0})
    assert [found.throttle_ms(THERE, NOW) for _ in range(9)] == [0] * 9
    for host in ("10.0.0.2", "10.0.0.3"):
        assert found.throttle_ms(host, NOW) == 1000
