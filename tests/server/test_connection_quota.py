"""Limits of connections, with time moved by hand."""

from __future__ import annotations

import logging
import socket

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.server.connection_quota import ConnectionQuota

HERE, THERE = "HERE", "THERE"


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({key.replace("_", "."): value for key, value in settings.items()})


def counted(config: BrokerConfig) -> ConnectionQuota:
    quota = ConnectionQuota(config, now=0)
    quota.add(HERE)
    quota.add(THERE)
    return quota


def come_at_once(quota: ConnectionQuota, now: int) -> int:
    """How many may come before one has to wait."""
    for number in range(10_000):
        if quota.pause_ms(HERE, now):
            return number
        quota.enter("10.0.0.1", HERE)
    raise AssertionError("nobody ever waits")


def test_without_settings_nobody_waits() -> None:
    quota = counted(config())
    for _ in range(10_000):
        assert quota.pause_ms(HERE, 0) == 0
        assert quota.enter("10.0.0.1", HERE) is None
    assert quota.count == 10_000
    assert not quota.full(HERE)


def test_it_is_full_at_max_connections_of_all_addresses() -> None:
    quota = counted(config(max_connections="2"))
    quota.enter("10.0.0.1", HERE)
    assert not quota.full(HERE)
    quota.enter("10.0.0.2", HERE)
    assert quota.full(HERE)
    quota.leave("10.0.0.1", HERE)
    assert not quota.full(HERE)


def test_one_address_has_its_limit_and_another_its_own() -> None:
    quota = counted(config(max_connections_per_ip="1", max_connections_per_ip_overrides="127.0.0.1:2"))
    assert [quota.enter("10.0.0.1", HERE) for _ in range(2)] == [None, 1]
    assert [quota.enter("127.0.0.1", HERE) for _ in range(3)] == [None, None, 2]
    assert quota.count == 3
    quota.leave("10.0.0.1", HERE)
    assert quota.enter("10.0.0.1", HERE) is None


def test_new_ones_come_at_the_rate_after_the_first_burst() -> None:
    quota = counted(config(max_connection_creation_rate="5", quota_window_num="3"))
    assert come_at_once(quota, now=0) == 10  # two windows of a second
    assert quota.pause_ms(HERE, 0) == 201
    assert quota.pause_ms(HERE, 199) > 0
    assert come_at_once(quota, now=201) == 1
    assert come_at_once(quota, now=1201) == 5
    assert come_at_once(quota, now=60_000) == 10


def test_changes_at_run_time_are_heeded() -> None:
    quota = counted(config(max_connections="1"))
    quota.enter("10.0.0.1", HERE)
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
    assert not quota.full(HERE)
    assert quota.enter("10.0.0.1", HERE) == 1
    assert [quota.enter("127.0.0.1", HERE) for _ in range(4)] == [None, None, None, 3]
    assert come_at_once(quota, now=0) == 5  # of the 10 that a rate of 1 allows at first


def test_a_listener_may_have_limits_of_its_own() -> None:
    settings = {
        "listener.name.here.max.connections": "2",
        "listener.name.here.max.connection.creation.rate": "5",
        "quota.window.num": "3",
    }
    quota = counted(BrokerConfig(settings))
    for _ in range(2):
        assert not quota.full(HERE)
        quota.enter("10.0.0.1", HERE)
    assert quota.full(HERE)
    assert not quota.full(THERE)
    assert come_at_once(quota, now=0) == 8
    assert quota.pause_ms(THERE, 0) == 0
    for _ in range(10):
        quota.leave("10.0.0.1", HERE)
    assert not quota.full(HERE)


def test_limits_of_a_listener_hold_beside_those_of_all() -> None:
    quota = counted(BrokerConfig({"max.connections": "3", "listener.name.here.max.connections": "2"}))
    for _ in range(2):
        quota.enter("10.0.0.1", THERE)
    quota.enter("10.0.0.1", HERE)
    assert quota.full(HERE)
    assert quota.full(THERE)


def test_a_host_that_nobody_knows(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def unknown(host: str) -> str:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides: nowhere: Name or service not known"):
        ConnectionQuota(config(max_connections_per_ip_overrides="nowhere:1"), now=0)
    quota = counted(config(max_connections="7"))
    with caplog.at_level(logging.WARNING):
        quota.follow(config().with_dynamic({"max.connections.per.ip.overrides": "nowhere:1"}, {}))
    assert "nowhere" in caplog.text
