"""Connections are taken as limits allow, with time moved by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.server import Server
from tests.server.support import run, until
from tests.server.test_muted_connections import throttling
from tests.server.test_server import Client, serving


class Addresses:
    """Quotas that turn connections away as long as they are told to."""

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
