"""Connections are taken as limits allow, with time moved by hand."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import threading
from concurrent.futures import wait
from typing import Any

import pytest

from pykafka_broker.config import BrokerConfig, ConfigError
from pykafka_broker.server.accepting import ConnectionQuota
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.server import Server
from tests.server.support import run, until
from tests.server.test_muted_connections import throttling
from tests.server.test_server import Client, serving


class Addresses:
    """Quotas that hold each address up for `hold_ms`."""

    def __init__(self, hold_ms: int) -> None:
        self.hold_ms = hold_ms

    def metered(self, endpoint: Any, context: Any, size: int) -> Any:
        return endpoint, context

    def connection_throttle_ms(self, host: str) -> int:
        return self.hold_ms


async def another_listener(server: Server, name: str) -> Listener:
    listener = Listener(name, "127.0.0.1", 0)
    server.listen([listener])
    return listener


async def connected(listener: Listener) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", listener.port))


def test_one_that_comes_too_fast_is_held_unread_and_closed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (server, connect, router, time):
            server.broker.services.quotas = quotas = Addresses(700)
            client = await connect()
            client.send(b"echo:a")
            await until(lambda: len(server._muting))
            time.move(699)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.reader.read(1), 0.05)
            time.move(1)
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(client.reader.read(1), 10)
            assert (server.connection_count, router.served) == (0, [])
            quotas.hold_ms = 0
            client = await connect()
            client.send(b"echo:b")
            assert await client.answer() == b"b"

    run(scenario)


def test_one_that_is_held_goes_with_the_broker(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (server, connect, _, _):
            server.broker.services.quotas = Addresses(700)
            client = await connect()
            await until(lambda: len(server._muting))
            await server.stop()
            assert await client.closed()

    run(scenario)


def test_where_a_listener_is_full_the_next_one_waits_and_others_do_not(tmp_path: Any) -> None:
    limits = {"listener_name_small_max_connections": "1"}

    async def scenario() -> None:
        async with serving(tmp_path, **limits) as (server, connect, _):
            small = await another_listener(server, "SMALL")
            first = await connected(small)
            first.send(b"echo:a")
            assert await first.answer() == b"a"
            second = await connected(small)
            second.send(b"echo:b")
            other = await connect()
            other.send(b"echo:o")
            assert await other.answer() == b"o"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(second.reader.read(1), 0.05)
            first.writer.close()
            assert await second.answer() == b"b"

    run(scenario)


def test_new_ones_wait_for_the_rate_of_their_listener(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"listener_name_slow_max_connection_creation_rate": "2", "quota_window_num": "2"}

    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch, **limits) as (server, connect, _, time):
            slow = await another_listener(server, "SLOW")
            clients = [await connected(slow) for _ in range(4)]
            for client in clients:
                client.send(b"echo:a")
            assert [await client.answer() for client in clients[:2]] == [b"a"] * 2
            other = await connect()
            other.send(b"echo:o")
            assert await other.answer() == b"o"
            assert server.connection_count == 3
            time.move(501)
            assert await clients[2].answer() == b"a"
            assert server.connection_count == 4
            time.move(501)
            assert await clients[3].answer() == b"a"

    run(scenario)


HERE, THERE = "HERE", "THERE"


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({key.replace("_", "."): value for key, value in settings.items()})


def counted(config: BrokerConfig) -> ConnectionQuota:
    quota = ConnectionQuota(config, now=0)
    quota.add(HERE)
    quota.add(THERE)
    return quota


def follow(quota: ConnectionQuota, config: BrokerConfig) -> None:
    """Apply the limits of a configuration, with the addresses of its host names once they are looked up."""
    quota.follow(config)
    if quota._lookup is not None:
        wait([quota._lookup], timeout=20)
    quota.follow(config)


def come_at_once(quota: ConnectionQuota, now: int) -> int:
    """Return how many connections may come at `now` before one has to wait."""
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


def test_it_is_full_where_the_system_can_wait_for_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka_broker.server.accepting.MOST_CONNECTIONS", 2)
    quota = counted(config(max_connections="3"))
    quota.enter("10.0.0.1", HERE)
    assert not quota.full(HERE)
    quota.enter("10.0.0.2", HERE)
    assert quota.full(HERE)


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


def test_with_a_rate_of_nothing_each_one_waits_a_second() -> None:
    """Asked of Kafka 4.4.0: four connections one after the other are served after a second each."""
    quota = counted(config(max_connection_creation_rate="0"))
    assert quota.pause_ms(HERE, 0) == 1001
    assert come_at_once(quota, now=1001) == 1
    assert come_at_once(quota, now=2002) == 1


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
    follow(quota, changed)
    assert not quota.full(HERE)
    assert quota.enter("10.0.0.1", HERE) == 1
    assert [quota.enter("127.0.0.1", HERE) for _ in range(4)] == [None, None, None, 3]
    assert come_at_once(quota, now=0) == 5  # the rest of the 10 connections that a rate of 1 allows at first


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


def test_the_limit_of_all_is_one_of_each_listener_too() -> None:
    """Asked of Kafka 4.4.0: beside a client the listener between brokers takes as many as it would alone, no more."""
    quota = ConnectionQuota(config(max_connections="3"), 0, between_brokers=THERE)
    for name in (HERE, THERE):
        quota.add(name)
    quota.enter("10.0.0.1", HERE)
    for _ in range(3):
        assert not quota.full(THERE)
        quota.enter("10.0.0.1", THERE)
    assert quota.full(THERE)


def test_clients_leave_room_for_other_nodes() -> None:
    """Asked of Kafka 4.4.0's ConnectionQuotas: the listener between brokers counts, and is not held up (KIP-402)."""
    limits = config(max_connections="1", max_connection_creation_rate="1", quota_window_num="2")
    quota = ConnectionQuota(limits, 0, between_brokers=THERE)
    quota.add(THERE)
    quota.enter("10.0.0.1", THERE)
    assert quota.full(THERE)  # the only listener is that of clients, too
    quota.leave("10.0.0.1", THERE)
    quota.add(HERE)
    quota.add("CONTROLLER", for_controllers=True)
    quota.enter("10.0.0.1", HERE)
    assert quota.full(HERE)
    assert not quota.full(THERE)
    assert not quota.full("CONTROLLER")
    assert quota.pause_ms(HERE, 0) > 0
    assert quota.pause_ms(THERE, 0) == quota.pause_ms("CONTROLLER", 0) == 0
    quota.enter("10.0.0.1", "CONTROLLER")
    assert not quota.is_exceeded
    quota.enter("10.0.0.1", THERE)
    assert quota.is_exceeded
    assert [quota.makes_room(name) for name in (HERE, THERE, "CONTROLLER")] == [True, False, False]


def test_the_client_that_has_rested_longest_makes_room_for_a_broker(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"max_connections": "2", "inter_broker_listener_name": "INNER"}

    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch, **limits) as (server, connect, _, time):
            inner = await another_listener(server, "INNER")
            clients = []
            for _ in range(2):
                clients.append(await connect())
                clients[-1].send(b"echo:c")
                assert await clients[-1].answer() == b"c"
                time.move(10)
            clients[0].send(b"echo:again")
            assert await clients[0].answer() == b"again"
            broker = await connected(inner)
            broker.send(b"echo:b")
            assert await broker.answer() == b"b"
            assert await clients[1].closed()
            clients[0].send(b"echo:on")
            assert await clients[0].answer() == b"on"

    run(scenario)


def test_a_host_that_nobody_knows(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def unknown(host: str, port: None, **kinds: int) -> None:
        host.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides: nowhere: Name or service not known"):
        ConnectionQuota(config(max_connections_per_ip_overrides="nowhere:1"), now=0)
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides: a\.\.b: .*'idna'"):
        ConnectionQuota(config(max_connections_per_ip_overrides="a..b:1"), now=0)
    quota = counted(config(max_connections="7"))
    with caplog.at_level(logging.WARNING):
        follow(quota, config().with_dynamic({"max.connections.per.ip.overrides": "nowhere:1"}, {}))
    assert "nowhere" in caplog.text


def test_a_host_has_its_first_address_of_ipv4_or_else_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(host: str, port: None, **kinds: int) -> Any:
        six = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::7", 0, 0, 0))
        return [six] if host == "six" else [six, (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", known)
    quota = counted(config(max_connections_per_ip_overrides="both:0,six:0"))
    assert [quota.enter(host, HERE) for host in ("10.0.0.7", "0:0:0:0:0:0:0:7", "10.0.0.8")] == [0, 0, None]


def test_an_address_of_ipv6_has_its_own_limit_in_whatever_form(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, max_connections_per_ip_overrides="::7:0, 0:0:0::8:0, [::6]:0") as (server, _, _):
            for host, is_open in (("::6", False), ("::7", False), ("::8", False), ("::9", True)):
                with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()):
                    ours, _ = door.accept()
                    server._adopt(ours, (host, 50000), server.listeners[0])
                    assert (ours.fileno() >= 0) is is_open

    run(scenario)


def test_a_connection_that_can_not_be_served_is_closed_and_not_counted(tmp_path: Any) -> None:
    def refuse(sock: socket.socket) -> Any:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    async def scenario() -> None:
        async with serving(tmp_path) as (server, _, _):
            listener = server.listeners[0]
            server._securities[listener.name] = server._securities[listener.name]._replace(new_transport=refuse)
            with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()):
                ours, _ = door.accept()
                server._adopt(ours, ("127.0.0.1", 50000), listener)
                assert (ours.fileno(), server.connection_count, server._quota.count) == (-1, 0, 0)

    run(scenario)


def test_hosts_that_are_set_at_run_time_are_looked_up_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slow(host: str, port: None, **kinds: int) -> Any:
        go_on.wait(20)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 0))]

    quota = counted(config())
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    changed = config().with_dynamic({"max.connections.per.ip.overrides": "slow:0"}, {})
    quota.follow(changed)
    assert quota.enter("10.0.0.7", HERE) is None
    go_on.set()
    follow(quota, changed)
    assert quota.enter("10.0.0.7", HERE) == 0
