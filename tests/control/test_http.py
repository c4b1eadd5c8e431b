"""A request is served as long as somebody waits for the answer, and no longer."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

import pytest

from pykafka_broker.control.http import Request, Response
from pykafka_broker.control.http_listener import HttpListener

_NO_LINGER = struct.pack("ii", 1, 0)  # a close resets the connection


def _close(client: socket.socket) -> None:
    client.close()


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    client.close()


async def _served_until(gone: Callable[[socket.socket], None] | None) -> str:
    """How the serving of a request ends whose client goes so; None: the listener closes."""
    begun, ended = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def serve(request: Request) -> Response:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set_result("cancelled")
            raise
        raise AssertionError

    listener = HttpListener(serve, lambda request: 0)
    await listener.open("127.0.0.1", 0)
    host, _, port = listener.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await begun.wait()
        if gone is None:
            await listener.close()
            assert ended.done()
        else:
            gone(client)
        async with asyncio.timeout(5):
            await ended
    await listener.close()
    return str(ended.result())


@pytest.mark.parametrize("gone", [_close, _reset, None], ids=["closed", "reset", "listener"])
def test_whoever_has_gone_is_not_served_on(gone: Callable[[socket.socket], None] | None) -> None:
    assert asyncio.run(_served_until(gone)) == "cancelled"


async def _answer_to(head: bytes, size: int) -> bytes:
    """The status line for a request with a body of that size, where only `me` may send more than ten bytes."""

    async def serve(request: Request) -> Response:
        return Response(200, "text/plain", b"")

    listener = HttpListener(serve, lambda request: 1 << 20 if request.headers.get("x-user") == "me" else 10)
    await listener.open("127.0.0.1", 0)
    host, _, port = listener.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST / HTTP/1.1\r\nhost: localhost\r\n%scontent-length: %d\r\n\r\n" % (head, size) + bytes(size))
    line = await reader.readline()
    writer.close()
    await listener.close()
    return line


def test_a_stranger_sends_no_long_body() -> None:
    assert b" 200 " in asyncio.run(_answer_to(b"", 10))
    assert b" 413 " in asyncio.run(_answer_to(b"", 11))
    assert b" 200 " in asyncio.run(_answer_to(b"x-user: me\r\n", 11))
