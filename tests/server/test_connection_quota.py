"""Limits of connections, with time moved by hand."""

from __future__ import annotations

import logging
import socket

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.server.connection_quota import ConnectionQuota


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({key.replace("_", "."): value for key, value in settings.items()})


def come_at_once(quota: ConnectionQuota, now: int) -> int:
    """How many may come before one has to wait."""
    for number in range(10_000):
        if quota.pause_ms(now):
            return number
        quota.enter("10.0.0.1")
    raise AssertionError("nobody ever waits")


def test_without_settings_nobody_waits() -> None:
    quota = ConnectionQuota(config(), now=0)
    for _ in range(10_000):
        assert quota.pause_ms(0) == 0
        assert quota.enter("10.0.0.1") is None
    assert quota.count == 10_000
    assert not quota.full


def test_it_is_full_at_max_connections_of_all_addresses() -> None:
    quota = ConnectionQuota(config(max_connections="2"), now=0)
    quota.enter("10.0.0.1")
    assert not quota.full
    quota.enter("10.0.0.2")
    assert quota.full
    quota.leave("10.0.0.1")
    assert not quota.full


def test_one_address_has_its_limit_and_another_its_own() -> None:
    quota = ConnectionQuota(config(max_connections_per_ip="1", max_connections_per_ip_overrides="127.0.0.1:2"), now=0)
    assert [quota.enter("10.0.0.1") for _ in range(2)] == [None, 1]
    assert [quota.enter("127.0.0.1") for _ in range(3)] == [None, None, 2]
    assert quota.count == 3
    quota.leave("10.0.0.1")
    assert quota.enter("10.0.0.1") is None


def test_new_ones_come_at_the_rate_after_the_first_burst() -> None:
    quota = ConnectionQuota(config(max_connection_creation_rate="5", quota_window_num="3"), now=0)
    assert come_at_once(quota, now=0) == 10  # two windows of a second
    assert quota.pause_ms(0) == 201
    assert quota.pause_ms(199) > 0
    assert come_at_once(quota, now=201) == 1
    assert come_at_once(quota, now=1201) == 5
    assert come_at_once(quota, now=60_000) == 10


def test_changes_at_run_time_are_heeded() -> None:
    quota = ConnectionQuota(config(max_connections="1"), now=0)
    quota.enter("10.0.0.1")
    changed = config().with_dynamic(
        {
            "max.connections": "5",
            "max.connections.per.ip": "1",
            "max.connections.per.ip.overrides": "127.0.0.1:3",
            "max.connection.creation.rate": "1",
        },
        {},
    )
    quota.follow(changed)
    assert not quota.full
    assert quota.enter("10.0.0.1") == 1
    assert [quota.enter("127.0.0.1") for _ in range(4)] == [None, None, None, 3]
    assert come_at_once(quota, now=0) == 5  # of the 10 that a rate of 1 allows at first


def test_a_host_that_nobody_knows(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def unknown(host: str) -> str:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides: nowhere: Name or service not known"):
        ConnectionQuota(config(max_connections_per_ip_overrides="nowhere:1"), now=0)
    quota = ConnectionQuota(config(max_connections="7"), now=0)
    with caplog.at_level(logging.WARNING):
        quota.follow(config().with_dynamic({"max.connections.per.ip.overrides": "nowhere:1"}, {}))
    assert "nowhere" in caplog.text
