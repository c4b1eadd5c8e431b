"""TLS between a client and a server that answers itself: what comes through, and what does not."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Any

import pytest

from tests.server.support import run, until
from tests.server.test_server import framed, readiness, serving
from tests.server.tls_support import client_context, tls_settings

__all__ = ["readiness"]  # a fixture: by an epoll, and by the readers of any loop
pytestmark = pytest.mark.usefixtures("readiness")
MEGABYTE = 1 << 20


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_are_answered_in_order(tmp_path: Any, version: ssl.TLSVersion) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(version), **tls_settings(tmp_path)) as (_, connect, _):
            client = await connect()
            client.send(b"echo:a", b"echo:b")
            assert [await client.answer(), await client.answer()] == [b"a", b"b"]

    run(scenario)


def test_many_requests_of_one_record_are_all_served(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (_, connect, _):
            client = await connect()
            client.send(*(b"echo:%d" % number for number in range(1000)))
            assert [await client.answer() for _ in range(1000)] == [b"%d" % number for number in range(1000)]

    run(scenario)


def test_large_requests_and_answers_of_which_the_socket_takes_a_part_at_a_time_come_whole(tmp_path: Any) -> None:
    body = bytes(range(256)) * (4 * MEGABYTE // 256)

    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path, socket_send_buffer_bytes="4096")) as (
            _,
            connect,
            _,
        ):
            client = await connect()
            client.send(b"echo:" + body, b"file:10000000", b"echo:last")
            assert await client.answer() == body
            assert await client.answer() == (bytes(range(256)) * 40_000)[:10_000_000]
            assert await client.answer() == b"last"

    run(scenario)


def test_what_waits_behind_a_request_is_served_when_that_is_answered(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (_, connect, router):
            client, other = await connect(), await connect()
            client.send(b"park:10000", b"echo:" + b"x" * MEGABYTE, b"echo:b")
            await until(lambda: router.served)
            other.send(b"wake:now")
            assert await other.answer() == b"now"
            assert await client.answer() == b"now"
            assert await client.answer() == b"x" * MEGABYTE
            assert await client.answer() == b"b"

    run(scenario)


def test_the_end_is_said_in_both_directions(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, connect, _):
            client = await connect()
            client.send(b"bad")
            assert await client.closed()  # by close_notify, or else asyncio would raise
            client = await connect()
            client.send(b"echo:a")
            await client.answer()
            client.writer.close()
            await until(lambda: not server.connection_count)

    run(scenario)


def test_a_client_that_goes_without_a_word_has_closed_its_connection(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, connect, _):
            client = await connect()
            client.send(b"echo:a")
            await client.answer()
            client.writer.transport.abort()
            await until(lambda: not server.connection_count)

    run(scenario)


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (framed(b"\x00\x12\x00\x03\x00\x00\x00\x01"), "the client does not speak TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client does not speak TLS, but HTTP"),
        (b"\x16\x03\x01\x00\x05hello", "the TLS handshake failed"),
    ],
)
def test_who_does_not_speak_tls_is_closed_with_one_line_in_the_log(
    tmp_path: Any, caplog: pytest.LogCaptureFixture, first: bytes, why: str
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, _, _):
            port = server.listeners[0].port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(first)
            await asyncio.wait_for(reader.read(), 20)
            writer.close()
            await until(lambda: not server.connection_count)

    with caplog.at_level(logging.INFO):
        run(scenario)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert why in lines[0]
    assert "127.0.0.1:" in lines[0]


def test_a_client_that_breaks_off_in_the_handshake_is_forgotten(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, client_context(), **tls_settings(tmp_path)) as (server, _, _):
            port = server.listeners[0].port
            for first in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"):
                with socket.create_connection(("127.0.0.1", port)) as sock:
                    sock.sendall(first)
            await until(lambda: server._next_id == 3 and not server.connection_count)

    run(scenario)
