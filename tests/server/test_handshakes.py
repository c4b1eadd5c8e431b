"""Handshakes by the thousand, and such that never end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import resource
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from pykafka_broker.broker.purgatory import Purgatory
from pykafka_broker.server import handshakes
from pykafka_broker.server.readiness import new_event_loop
from tests.server.support import run, until
from tests.server.test_server import framed, serving
from tests.server.tls_support import client_context, tls_settings

HALF_A_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)


def test_who_does_not_shake_hands_in_time_is_disconnected_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handshakes, "TIMEOUT_MS", 300)

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, connect, _):
            port = server.listeners[0].port
            client = await connect()
            mute = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
            for sock in mute[1:]:
                sock.sendall(HALF_A_HELLO)
            await until(lambda: server.connection_count == 4)
            await until(lambda: server.connection_count == 1)
            client.send(b"echo:still here")
            assert await client.answer() == b"still here"
            for sock in mute:
                assert sock.recv(1) == b""
                sock.close()

    with caplog.at_level(logging.INFO):
        run(scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "listener FRONT: closed 3 connections without a TLS handshake after 300 ms"
    ]


def test_a_broker_in_the_place_of_another_goes_on_watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "TIMEOUT_MS", 500)

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, _, _):
            with socket.create_connection(("127.0.0.1", server.listeners[0].port)) as mute:
                await until(lambda: server.connection_count == 1)
                before, after = server.purgatory, Purgatory()
                server.purgatory = server.broker.purgatory = after  # type: ignore[attr-defined]
                before.answer_all(server.turns.clock.now)
                assert server.connection_count == 1
                await until(lambda: server.connection_count == 0)
                assert mute.recv(1) == b""

    run(scenario)


def test_two_thousand_half_open_handshakes_cost_little_and_others_are_served(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 5000:
        pytest.skip("the system allows too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 5000), hard))

    async def scenario() -> None:
        settings = tls_settings(tmp_path, connections_max_idle_ms="600000")
        async with serving(tmp_path, client_context(), **settings) as (server, connect, _):
            port = server.listeners[0].port
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            half = []
            for number in range(2000):
                half.append(socket.create_connection(("127.0.0.1", port)))
                half[-1].sendall(HALF_A_HELLO)
                if number % 20 == 0:
                    await asyncio.sleep(0)
            await until(lambda: server.connection_count == 2000)
            client = await connect()
            client.send(b"echo:served")
            assert await client.answer() == b"served"
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # KiB
            for sock in half:
                sock.close()
            await until(lambda: server.connection_count == 1)

    try:
        run(scenario)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_turn_does_a_few_steps_only_and_the_next_one_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (_, connect, _):
            clients = await asyncio.gather(*(connect() for _ in range(60)))
            for number, client in enumerate(clients):
                client.send(b"echo:%d" % number)
            assert [await client.answer() for client in clients] == [b"%d" % number for number in range(60)]

    run(scenario)


def test_a_handshake_may_come_byte_by_byte(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, _, _):
            loop = asyncio.get_running_loop()
            sock = socket.create_connection(("127.0.0.1", server.listeners[0].port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setblocking(False)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
            steps: list[Callable[[], object]] = [
                client.do_handshake,
                lambda: client.write(framed(b"echo:slowly")),
                lambda: client.read(4 + len(b"slowly")),
            ]
            for step in steps:
                while True:
                    try:
                        found = step()
                        break
                    except ssl.SSLWantReadError:
                        for byte in outgoing.read():
                            await loop.sock_sendall(sock, bytes([byte]))
                            await asyncio.sleep(0)
                        incoming.write(await asyncio.wait_for(loop.sock_recv(sock, 65536), 10))
            assert found == framed(b"slowly")
            sock.close()

    run(scenario)


def starts(count: int, seed: int) -> list[bytes]:
    """Of connections: random bytes, some of which begin as records of TLS do."""
    made = random.Random(seed)
    beginnings = (
        b"",
        b"\x16\x03\x01",
        b"\x16\x03\x01\x00\x30\x01\x00\x00\x2c\x03\x03",
        b"\x80\x2e\x01\x03\x01",
        b"\x15\x03\x03",
    )
    return [made.choice(beginnings) + made.randbytes(made.choice((1, 5, 40, 300, 3000))) for _ in range(count)]


def damaged_hellos(count: int, seed: int) -> list[bytes]:
    """Of connections: a ClientHello with some bytes changed or left out, or a whole one and what is no answer to it."""
    made = random.Random(seed)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        client_context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    hello = outgoing.read()
    found = []
    for _ in range(count):
        damaged = bytearray(hello)
        for _ in range(made.choice((0, 1, 2, 8))):
            damaged[made.randrange(len(damaged))] = made.randrange(256)
        if made.random() < 0.2:
            del damaged[made.randrange(len(damaged)) :]
        found.append(bytes(damaged) + made.choice((b"", b"\x16\x03\x03\x00\x20", b"\x17\x03\x03")) + made.randbytes(32))
    return found


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("made", [starts, damaged_hellos])
def test_whatever_comes_before_or_in_a_handshake_others_are_served(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
    made: Callable[[int, int], list[bytes]],
) -> None:
    count = 100_000 if request.config.getoption("--slow") else 1000

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, connect, _):
            port = server.listeners[0].port
            client = await connect()
            for number, start in enumerate(made(count, 14)):
                sock = socket.create_connection(("127.0.0.1", port))
                sock.sendall(start)
                sock.close()
                if number % 25 == 0:
                    client.send(b"echo:%d" % number)
                    assert await client.answer() == b"%d" % number
            await until(lambda: server._next_id == count + 1 and server.connection_count == 1, 60)

    with caplog.at_level(logging.ERROR), asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(scenario())
    assert caplog.records == []


def test_what_comes_after_a_handshake_is_closed_if_it_is_no_tls(tmp_path: Path) -> None:
    """Records that nobody encrypted."""

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, connect, _):
            client = await connect()
            raw = client.writer.get_extra_info("socket")
            client.send(b"echo:a")
            assert await client.answer() == b"a"
            raw = socket.socket(fileno=os.dup(raw.fileno()))
            raw.sendall(framed(b"echo:plain"))
            await until(lambda: not server.connection_count)
            raw.close()

    run(scenario)
