"""A client that is above its quota is answered, and then nothing of it is read until its time has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.control.moving_time import MovableClock
from pykafka_broker.server.server import Server
from tests.server.support import Time, run, until
from tests.server.test_server import Client, Connect, FakePending, FakeRouter, framed, serving

MINUTE = 60_000


class Throttling:
    """A layer before a router that mutes connections.

    Of a request `mute:ms:rest` the rest is served, and the connection is muted for `ms` once the answer is made.
    """

    def __init__(self, server: Server, inner: FakeRouter) -> None:
        self._server, self._inner = server, inner

    def dispatch(self, context: Any, frame: memoryview) -> Any:
        request = bytes(frame)
        if not request.startswith(b"mute:"):
            return self._inner.dispatch(context, frame)
        _, ms, rest = request.split(b":", 2)
        answer = self._inner.dispatch(context, memoryview(rest)) if rest else None
        if isinstance(answer, FakePending):
            return MutingPending(answer.future, lambda: self._mute(context, int(ms)))
        self._mute(context, int(ms))
        return answer

    def _mute(self, context: Any, ms: int) -> None:
        self._server.mute(context.id, self._server.turns.clock.now + ms)


class MutingPending(FakePending):
    def __init__(self, future: Future[bytes], mute: Any) -> None:
        super().__init__(future)
        self._mute = mute

    def pieces(self) -> list[bytes]:
        self._mute()
        return super().pieces()


@asynccontextmanager
async def throttling(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, **config: str
) -> AsyncIterator[tuple[Server, Connect, FakeRouter, Time]]:
    clock = MovableClock()
    monkeypatch.setattr("tests.server.test_server.SystemClock", lambda: clock)
    async with serving(tmp_path, **config) as (server, connect, router):
        server.router = Throttling(server, router)
        yield server, connect, router, Time(server, clock)


async def stays_silent(client: Client) -> bool:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(client.reader.read(1), 0.05)
    return True


def test_the_answer_comes_first_then_nothing_is_read(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (server, connect, router, time):
            client, other = await connect(), await connect()
            client.send(b"mute:%d:echo:a" % MINUTE)
            assert await client.answer() == b"a"
            client.send(b"echo:b")
            assert await stays_silent(client)
            other.send(b"echo:o")
            assert await other.answer() == b"o"
            time.move(MINUTE - 1)
            assert await stays_silent(client)
            assert router.served.count(b"echo") == 2
            time.move(1)
            assert await client.answer() == b"b"
            assert server.connection_count == 2

    run(scenario)


def test_frames_that_came_together_wait_too(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (_, connect, router, time):
            client = await connect()
            client.send(b"echo:1", b"mute:%d:echo:2" % MINUTE, b"echo:3", b"mute:%d:echo:4" % MINUTE, b"echo:5")
            assert [await client.answer(), await client.answer()] == [b"1", b"2"]
            assert await stays_silent(client)
            time.move(MINUTE)
            assert [await client.answer(), await client.answer()] == [b"3", b"4"]
            assert await stays_silent(client)
            assert len(router.served) == 4
            time.move(MINUTE)
            assert await client.answer() == b"5"

    run(scenario)


def test_one_that_wants_no_answer_is_muted_too(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (_, connect, _, time):
            client = await connect()
            client.send(b"mute:%d:" % MINUTE, b"echo:b")
            assert await stays_silent(client)
            time.move(MINUTE)
            assert await client.answer() == b"b"

    run(scenario)


def test_a_request_that_ends_the_wait_of_one_that_is_above_its_quota_waits_in_its_turn(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (_, connect, router, time):
            client = await connect()
            client.send(b"mute:%d:yield:%d" % (MINUTE, MINUTE))
            await until(lambda: router.served)
            client.send(b"echo:b", b"echo:c")
            assert await client.answer() == b"expired"
            assert await stays_silent(client)
            assert b"echo" not in router.served
            time.move(MINUTE)
            assert [await client.answer(), await client.answer()] == [b"b", b"c"]

    run(scenario)


def test_a_request_that_is_in_parts_comes_in_after_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (_, connect, _, time):
            client = await connect()
            large = framed(b"echo:" + b"x" * 3_000_000)
            client.writer.write(framed(b"mute:%d:echo:a" % MINUTE) + large[:100_000])
            assert await client.answer() == b"a"
            client.writer.write(large[100_000:])
            assert await stays_silent(client)
            time.move(MINUTE)
            assert await client.answer() == b"x" * 3_000_000

    run(scenario)


def test_a_long_answer_goes_out_while_it_is_muted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (_, connect, _, time):
            client = await connect()
            client.send(b"mute:%d:file:10000000" % MINUTE, b"echo:b")
            assert len(await client.answer()) == 10_000_000
            assert await stays_silent(client)
            time.move(MINUTE)
            assert await client.answer() == b"b"

    run(scenario)


def test_it_is_not_idle_meanwhile(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch, connections_max_idle_ms="1000") as (server, connect, _, time):
            client, idle = await connect(), await connect()
            idle.send(b"echo:i")
            await idle.answer()
            client.send(b"mute:%d:echo:a" % MINUTE)
            await client.answer()
            time.move(MINUTE - 1)
            assert await idle.closed()
            assert server.connection_count == 1
            time.move(1)
            client.send(b"echo:b")
            assert await client.answer() == b"b"

    run(scenario)


def test_one_that_leaves_is_forgotten(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (server, connect, _, time):
            client = await connect()
            client.send(b"mute:%d:echo:a" % MINUTE)
            await client.answer()
            [connection] = server.connections
            connection.close("a test")
            assert await client.closed()
            time.move(MINUTE)
            assert len(server._muting) == 0

    run(scenario)


def test_another_broker_in_the_place_of_this_one_knows_nothing_of_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (server, connect, _, _):
            client = await connect()
            client.send(b"mute:%d:echo:a" % MINUTE)
            await client.answer()
            server._router.serve = lambda services: None  # type: ignore[method-assign]
            server.replace(server.broker)
            client.send(b"echo:b")
            assert await client.answer() == b"b"

    run(scenario)


def test_a_stop_does_not_wait_for_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (server, connect, _, _):
            client = await connect()
            client.send(b"mute:%d:echo:a" % MINUTE)
            await client.answer()
            await asyncio.wait_for(server.stop(), 30)
            assert await client.closed()

    run(scenario)


def test_the_timer_runs_for_the_earliest_of_many(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (server, connect, router):
            server.router = Throttling(server, router)
            clients = [await connect() for _ in range(20)]
            for number, client in enumerate(clients):
                client.send(b"mute:%d:echo:a" % (50 if number == 10 else 10 * MINUTE), b"echo:%d" % number)
                assert await client.answer() == b"a"
            assert await clients[10].answer() == b"10"

    run(scenario)


def test_what_a_socket_takes_is_measured_once_it_is_asked_for(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with throttling(tmp_path, monkeypatch) as (server, connect, _, _):
            seen: list[int | None] = []
            inner = server.router.dispatch

            def dispatch(context: Any, frame: memoryview) -> Any:
                seen.append(context.network_ns)
                if len(seen) == 2:
                    server.broker.services.time_network(context.id)
                return inner(context, frame)

            monkeypatch.setattr(server.router, "dispatch", dispatch)
            client, large = await connect(), b"x" * 300_000
            for request in (b"echo:a", b"echo:b", b"echo:c", b"echo:" + large, b"echo:d"):
                client.send(request)
                assert await client.answer() == request[5:]
            assert seen[:2] == [None, None]
            times = [each or 0 for each in seen[2:]]
            assert 0 < times[0] < times[1] < times[2], "reading and writing add up until a request is charged with them"

    run(scenario)
