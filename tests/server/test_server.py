"""Sockets: how a connection begins, order, waiting, back-pressure, limits and the end.

A router made for the test stands in for the broker's.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka_broker import platform
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.waiting.future import Future, Parked, Purgatory
from pykafka_broker.clock import Clock
from pykafka_broker.config import BrokerConfig
from pykafka_broker.control.moving_time import MovableClock
from pykafka_broker.errors import FrameError
from pykafka_broker.server import server as server_module
from pykafka_broker.server.connection import ClientConnection
from pykafka_broker.server.event_loop import EventLoop, SystemClock
from pykafka_broker.server.listeners import Listener
from pykafka_broker.server.server import Server, security_of
from pykafka_broker.server.tls_listener import TlsListener
from pykafka_broker.server.transport import PlainTransport, prepare
from tests.security.tls.certificates import server_certificate
from tests.server.support import Time, run, until


class FakeBroker:
    """Stand-in for a broker: the few things that a server asks of one."""

    def __init__(self, config: dict[str, str]) -> None:
        self.config = BrokerConfig(config)
        self.clock: Clock = Clock()
        self.services = self
        self.quotas = None
        self.emulation = None
        self.purgatory = Purgatory()

    def check_listeners_by(self, checks: Any) -> None:
        pass

    def settle(self) -> None:
        self.purgatory.settle(self.clock.now)

    def next_deadline(self) -> int | None:
        return self.purgatory.next_deadline()

    def on_deadline(self) -> None:
        self.purgatory.on_deadline(self.clock.now)

    def connection_closed(self, context: Any) -> None:
        pass


class FakePending(PendingReply):
    def __init__(self, future: Future[bytes]) -> None:
        self.future = future

    def pieces(self) -> list[bytes]:
        return [framed(self.future.result())]


class FileRange:
    """A slice of a file, as the log hands them out."""

    def __init__(self, fd: int, position: int, length: int) -> None:
        self.fd, self.position, self.length = fd, position, length

    def __len__(self) -> int:
        return self.length

    def fileno(self) -> int:
        return self.fd

    def read(self) -> bytes:
        return platform.read_at(self.fd, self.length, self.position)

    def advance(self, count: int) -> FileRange:
        return FileRange(self.fd, self.position + count, self.length - count)


class FakeRouter:
    """`echo:x` answers x; `park:ms` and `yield:ms` wait under the key "k", `wake:x` wakes them; `file:n` sends a file;
    `who` is told its principal; `bad` is refused; `bug` is a defect."""

    def __init__(self, broker: FakeBroker, fd: int) -> None:
        self.broker = broker
        self.fd = fd
        self.woken: list[bytes] = []
        self.served: list[bytes] = []

    def dispatch(self, context: Any, frame: memoryview) -> Any:
        verb, _, argument = bytes(frame).partition(b":")
        self.served.append(verb)
        if verb == b"bad":
            raise FrameError("refused")
        if verb == b"bug":
            raise ZeroDivisionError
        if verb == b"file":
            size = int(argument)
            return [struct.pack(">i", size), FileRange(self.fd, 0, size)]
        if verb in (b"park", b"yield"):
            parked = Parked(
                self.broker.clock.now + int(argument),
                keys=("k",),
                poll=lambda now: self.woken[0] if self.woken else None,
                expire=lambda now: b"expired",
                yields=verb == b"yield",
            )
            self.broker.purgatory.park(parked)
            return FakePending(parked)
        if verb == b"who":
            return [framed(context.principal.encode())]
        if verb == b"wake":
            self.woken.append(argument)
            self.broker.purgatory.touch("k")
        return [framed(argument)]


def now_ms() -> int:
    return int(time.monotonic() * 1000)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


Connect = Callable[[], Awaitable["Client"]]


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *requests: bytes) -> None:
        self.writer.write(b"".join(framed(request) for request in requests))

    async def answer(self) -> bytes:
        (size,) = struct.unpack(">i", await asyncio.wait_for(self.reader.readexactly(4), 60))
        return await asyncio.wait_for(self.reader.readexactly(size), 60)

    async def closed(self) -> bool:
        return await asyncio.wait_for(self.reader.read(1), 60) == b""


@asynccontextmanager
async def serving(
    tmp_path: Any, tls: ssl.SSLContext | None = None, /, **config: str
) -> AsyncIterator[tuple[Server, Connect, FakeRouter]]:
    """Run a server, and clients that connect by TLS if a context is given for them."""
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(256)) * 40_000)
    fd = os.open(path, os.O_RDONLY)
    broker = FakeBroker({key.replace("_", "."): value for key, value in config.items()})
    turns = EventLoop(asyncio.get_running_loop(), SystemClock())
    broker.clock = turns.clock
    server = Server(broker, turns)  # type: ignore[arg-type]
    router = server.router = FakeRouter(broker, fd)
    listener = Listener("FRONT", "127.0.0.1", 0, protocol="PLAINTEXT" if tls is None else "SSL")
    server.listen([listener])
    server.start()

    async def connect() -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", listener.port, ssl=tls))

    try:
        yield server, connect, router
    finally:
        await server.stop()
        turns.close()
        os.close(fd)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MovableClock:
    """The clock of the test's servers, which the test may hold and move."""
    clock = MovableClock()
    monkeypatch.setattr("tests.server.test_server.SystemClock", lambda: clock)
    return clock


@pytest.fixture(params=["epoll", "the loop's readers"])
def readiness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two ways to learn that sockets are ready: epoll, and the readers of asyncio's own loop."""
    if request.param != "epoll":
        monkeypatch.setattr("tests.server.support.new_event_loop", asyncio.new_event_loop)


@pytest.mark.usefixtures("readiness")
def test_requests_sent_in_one_go_are_answered_in_order(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, _):
            client = await connect()
            client.send(*(b"echo:%d" % n for n in range(500)))
            assert [await client.answer() for _ in range(500)] == [b"%d" % n for n in range(500)]

    run(scenario)


@pytest.mark.usefixtures("readiness")
def test_who_sends_thousands_of_requests_does_not_keep_others_waiting(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, router):
            greedy, modest = await connect(), await connect()
            for client in (greedy, modest):
                client.send(b"echo:x")
                await client.answer()
            router.served.clear()
            greedy.send(*[b"echo:greedy"] * 20_000)
            modest.send(b"modest:x")
            assert await modest.answer() == b"x"
            assert router.served.index(b"modest") < 8_000
            assert [await greedy.answer() for _ in range(20_000)] == [b"greedy"] * 20_000

    run(scenario)


def test_a_request_that_comes_byte_by_byte_after_one_that_waited_is_served(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, _):
            client = await connect()
            client.send(b"park:1")
            assert await client.answer() == b"expired"
            for byte in framed(b"echo:slow"):
                client.writer.write(bytes((byte,)))
                await client.writer.drain()
                await asyncio.sleep(0.002)
            assert await client.answer() == b"slow"

    run(scenario)


def test_a_client_that_breaks_off_while_its_input_waits_is_forgotten(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (server, connect, router):
            client = await connect()
            client.send(b"park:60000", *[b"echo:never"] * 50_000)
            await until(lambda: b"park" in router.served)
            sock = client.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.writer.transport.abort()
            await until(lambda: not server._connections)
            assert not len(server.purgatory)

    run(scenario)


@pytest.mark.usefixtures("readiness")
def test_a_parked_request_holds_up_its_own_connection_only(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, router):
            waiting, other = await connect(), await connect()
            waiting.send(b"park:60000", b"echo:after")
            other.send(b"echo:now")
            assert await other.answer() == b"now"
            assert b"echo" not in router.served[: router.served.index(b"park") + 1]
            other.send(b"wake:up")
            assert await other.answer() == b"up"
            assert [await waiting.answer(), await waiting.answer()] == [b"up", b"after"]

    run(scenario)


def test_a_parked_request_is_answered_at_its_deadline(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, _):
            client = await connect()
            begun = now_ms()
            client.send(b"park:60")
            assert await client.answer() == b"expired"
            assert now_ms() - begun >= 59

    run(scenario)


def test_deadlines_hold_when_the_wall_clock_is_set_back(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, clock: MovableClock
) -> None:
    wall = int(time.time())
    monkeypatch.setattr("time.time", lambda: wall)

    async def scenario() -> None:
        async with serving(tmp_path, connections_max_idle_ms="300") as (server, connect, _):
            stands = Time(server, clock)
            idle, waiting = await connect(), await connect()
            waiting.send(b"park:500")
            await until(lambda: len(server.purgatory))
            begun = now_ms()
            stands.release()
            monkeypatch.setattr("time.time", lambda: wall - 1200)
            assert await idle.closed()
            assert await waiting.answer() == b"expired"
            assert now_ms() - begun >= 400
            assert clock.wall == (wall - 1200) * 1000

    run(scenario)


def test_one_that_yields_is_answered_when_the_next_request_arrives(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, _):
            client = await connect()
            client.send(b"yield:60000")
            client.send(b"echo:next")
            assert [await client.answer(), await client.answer()] == [b"expired", b"next"]

    run(scenario)


@pytest.mark.usefixtures("readiness")
def test_a_client_that_leaves_while_parked_is_forgotten(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (server, connect, _):
            client, other = await connect(), await connect()
            client.send(b"yield:60000")
            other.send(b"echo:x")
            await other.answer()
            while not len(server.purgatory):
                other.send(b"echo:x")
                await other.answer()
            client.writer.close()
            await client.writer.wait_closed()
            while len(server.purgatory):
                other.send(b"echo:x")
                await other.answer()

    run(scenario)


@pytest.mark.parametrize("size", [10, 32_768, 32_769, 10_000_000])
def test_files_arrive_whole_small_and_large(tmp_path: Any, size: int) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, _):
            client = await connect()
            client.send(b"file:%d" % size, b"echo:after")
            assert await client.answer() == (bytes(range(256)) * 40_000)[:size]
            assert await client.answer() == b"after"

    run(scenario)


@pytest.mark.usefixtures("readiness")
def test_a_client_that_does_not_read_gets_nothing_more_served(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, router):
            client, other = await connect(), await connect()
            client.send(*[b"file:10000000"] * 15)
            for _ in range(20):
                other.send(b"echo:x")
                await other.answer()
            assert router.served.count(b"file") < 10
            for _ in range(15):
                assert len(await client.answer()) == 10_000_000

    run(scenario)


def test_a_refused_frame_closes_that_connection_only(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, _):
            bad, good = await connect(), await connect()
            bad.send(b"bad", b"echo:never")
            assert await bad.closed()
            huge = await connect()
            huge.writer.write(struct.pack(">i", 2**31 - 1))
            assert await huge.closed()
            good.send(b"echo:on")
            assert await good.answer() == b"on"

    run(scenario)


def test_a_defect_closes_the_connection_and_is_logged(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, _):
            bad, good = await connect(), await connect()
            bad.send(b"bug")
            assert await bad.closed()
            good.send(b"echo:on")
            assert await good.answer() == b"on"

    run(scenario)
    assert "ZeroDivisionError" in caplog.text


def test_a_defect_at_a_deadline_stops_no_timer(
    tmp_path: Any, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setattr("pykafka_broker.server.server._PAUSE_MS", 20)
    once = [ZeroDivisionError("at a deadline")]

    async def scenario() -> None:
        async with serving(tmp_path) as (server, connect, _):
            on_deadline = server.broker.on_deadline

            def stumble_once() -> None:
                if once:
                    raise once.pop()
                on_deadline()

            server.broker.on_deadline = stumble_once  # type: ignore[method-assign]
            waiting = await connect()
            waiting.send(b"park:30")
            assert await waiting.answer() == b"expired"

    run(scenario)
    assert "ZeroDivisionError: at a deadline" in caplog.text


def test_an_address_that_can_not_be_bound_is_named(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (server, _, _):
            taken = server.listeners[0].port
            with pytest.raises(OSError, match=rf"127\.0\.0\.1:{taken}: Address already in use"):
                server.listen([Listener("PLAINTEXT", "127.0.0.1", taken)])

    run(scenario)


def test_a_large_request_is_taken_in(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (_, connect, _):
            client = await connect()
            body = os.urandom(3_000_000)
            client.send(b"echo:" + body, b"echo:after")
            assert await client.answer() == body
            assert await client.answer() == b"after"

    run(scenario)


def test_a_part_of_a_large_request_settles_nothing(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (server, connect, _):
            client = await connect()
            client.send(b"echo:first")
            await client.answer()
            (connection,) = server._connections.values()
            settled, settle = [], server.turns.settle

            def count() -> None:
                settled.append(connection._reader.partial is not None)
                settle()

            server.turns.settle = count
            request = framed(b"echo:" + bytes(200_000))
            for start in range(0, len(request), 20_000):
                client.writer.write(request[start : start + 20_000])
                await client.writer.drain()
                await asyncio.sleep(0.005)
            assert len(await client.answer()) == 200_000
            assert settled.count(True) <= 1  # the first part may have come with nothing to compare it with
            assert False in settled

    run(scenario)


def test_while_large_requests_fill_the_memory_the_next_one_waits(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, queued_max_request_bytes="2000000") as (server, connect, router):
            first, second, third = [await connect() for _ in range(3)]
            body = b"echo:" + os.urandom(3_000_000)
            half = framed(body)
            first.writer.write(half[:1_500_000])
            while not server.request_memory.is_full:
                third.send(b"echo:small")
                assert await third.answer() == b"small"
            second.send(body, b"echo:after")
            router.served.clear()
            for _ in range(100):  # turns of the loop in which the second one might be read
                third.send(b"echo:small")
                assert await third.answer() == b"small"
            assert router.served == [b"echo"] * 100
            first.writer.write(half[1_500_000:])
            for client in (first, second):
                assert await client.answer() == body[5:]
            assert await second.answer() == b"after"
            assert not server.request_memory.is_full

    run(scenario)


def test_connections_per_ip_are_limited(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, max_connections_per_ip="2") as (_, connect, _):
            first, second = await connect(), await connect()
            for client in (first, second):
                client.send(b"echo:x")
                await client.answer()
            assert await (await connect()).closed()
            first.writer.close()
            second.send(b"echo:x")
            await second.answer()
            again = await connect()
            again.send(b"echo:in")
            assert await again.answer() == b"in"

    run(scenario)


def test_a_client_that_is_reset_before_it_is_accepted_disturbs_nobody(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On macOS such a socket takes no options."""
    times = 3

    def prepared(sock: socket.socket, *sizes: int) -> None:
        nonlocal times
        if times:
            times -= 1
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        prepare(sock, *sizes)

    async def scenario() -> None:
        async with serving(tmp_path, max_connections_per_ip="1") as (_, connect, _):
            for _ in range(3):
                assert await (await connect()).closed()
            client = await connect()
            client.send(b"echo:x")
            assert await client.answer() == b"x"

    monkeypatch.setattr("pykafka_broker.server.server.prepare", prepared)
    run(scenario)


def test_above_max_connections_the_next_one_waits(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, max_connections="1") as (_, connect, _):
            first, second = await connect(), await connect()
            first.send(b"echo:1")
            assert await first.answer() == b"1"
            second.send(b"echo:2")
            first.send(b"echo:3")
            assert await first.answer() == b"3"
            first.writer.close()
            assert await second.answer() == b"2"

    run(scenario)


def test_new_connections_come_at_the_rate_that_is_allowed(tmp_path: Any) -> None:
    async def scenario() -> None:
        limits = {"max_connection_creation_rate": "20", "quota_window_num": "1"}  # one comes every 50 ms
        async with serving(tmp_path, **limits) as (server, connect, _):
            limit, clock = server._quota._all, server.turns.clock
            limit._allowance, limit._counted = 1.0, clock.now  # no burst, however long the start took
            begun = clock.now
            for _ in range(5):
                client = await connect()
                client.send(b"echo:x")
                assert await client.answer() == b"x"
            assert clock.now - begun >= 150

    run(scenario)


def test_while_the_clock_stands_only_what_is_due_already_is_done(tmp_path: Any, clock: MovableClock) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (server, connect, _):
            early, late = await connect(), await connect()
            stands = Time(server, clock)
            late.send(b"park:20")
            await until(lambda: len(server.purgatory))
            early.send(b"park:0")
            assert await early.answer() == b"expired"
            await asyncio.sleep(0.05)
            assert len(server.purgatory) == 1
            stands.release()
            assert await late.answer() == b"expired"

    run(scenario)


def test_a_host_that_has_vanished_is_noticed_by_the_system(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (server, connect, _):
            client = await connect()
            client.send(b"echo:x")
            await client.answer()
            (connection,) = server._connections.values()
            assert isinstance(connection._transport, PlainTransport)
            assert connection._transport._sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

    run(scenario)


def test_idle_connections_are_closed_and_waiting_ones_are_not(tmp_path: Any, clock: MovableClock) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, connections_max_idle_ms="400") as (server, connect, _):
            stands = Time(server, clock)
            idle, waiting = await connect(), await connect()
            waiting.send(b"park:1500")
            await until(lambda: len(server.purgatory))
            stands.move(401)
            assert await idle.closed()
            assert len(server._connections) == 1
            stands.move(1099)
            assert await waiting.answer() == b"expired"
            stands.move(400)
            waiting.send(b"echo:x")
            assert await waiting.answer() == b"x", "it is idle since its answer, not since its request"

    run(scenario)


def test_very_many_idle_connections_are_closed_in_several_turns(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, clock: MovableClock
) -> None:
    monkeypatch.setattr(server_module, "_CLOSED_AT_ONCE", 3)

    async def scenario() -> None:
        async with serving(tmp_path, connections_max_idle_ms="400") as (server, connect, _):
            stands = Time(server, clock)
            clients = [await connect() for _ in range(8)]
            await until(lambda: len(server._connections) == 8)
            left = [8]
            server.turns.observers.append(lambda: left.append(len(server._connections)))
            for ms in (401, 0, 0):
                stands.move(ms)
            assert all([await client.closed() for client in clients])
            assert max(before - after for before, after in pairwise(left)) == 3

    run(scenario)


def test_who_takes_nothing_of_an_answer_is_idle_too(tmp_path: Any, clock: MovableClock) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, connections_max_idle_ms="400") as (server, connect, _):
            stands = Time(server, clock)
            client = await connect()
            client.send(*[b"file:10000000"] * 5)
            other = await connect()
            other.send(b"echo:x")
            await other.answer()
            assert len(server._connections) == 2
            while len(server._connections) > 1:
                other.send(b"echo:x")
                await other.answer()
                stands.move(100)
            assert len(server._connections) == 1
            client.writer.close()

    run(scenario)


@pytest.mark.usefixtures("readiness")
def test_stopping_lets_an_answer_out(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as (server, connect, router):
            client, idle = await connect(), await connect()
            client.send(b"file:10000000", b"echo:not served any more")
            other = await connect()
            while b"file" not in router.served:
                other.send(b"echo:x")
                await other.answer()
            stopping = asyncio.ensure_future(server.stop())
            assert len(await client.answer()) == 10_000_000
            assert await client.closed()
            assert await idle.closed()
            await stopping
            with pytest.raises(OSError):
                socket.create_connection(("127.0.0.1", client.writer.get_extra_info("peername")[1]), 0.5)

    run(scenario)


def test_behind_a_plain_listener_is_the_socket_itself() -> None:
    server: Any = SimpleNamespace(broker=SimpleNamespace(config=BrokerConfig()))
    security = security_of(Listener("PLAINTEXT", "127.0.0.1", 0), server)
    assert security.new_transport is PlainTransport
    assert security.new_connection is ClientConnection


def test_behind_one_with_tls_a_client_has_the_name_of_its_certificate_or_that_of_its_login(tmp_path: Path) -> None:
    config = BrokerConfig(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": server_certificate().write(tmp_path / "broker.pem"),
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.front.scram-sha-256.sasl.jaas.config": "ScramLoginModule required;",
        }
    )
    server: Any = SimpleNamespace(broker=SimpleNamespace(config=config), turns=SimpleNamespace(clock=Clock()))
    tls = security_of(Listener("FRONT", "127.0.0.1", 0, protocol="SSL"), server)
    assert isinstance(tls.new_connection.__self__, TlsListener)  # type: ignore[attr-defined]
    both = security_of(Listener("FRONT", "127.0.0.1", 0, protocol="SASL_SSL"), server)
    assert isinstance(both.new_transport.__self__, TlsListener)  # type: ignore[attr-defined]
    assert not isinstance(getattr(both.new_connection, "__self__", None), TlsListener)
