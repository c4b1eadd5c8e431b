"""A request is served as long as somebody waits for the answer, and no longer; who is refused is told so."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import shutil
import socket
import struct
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker.control import http as module
from pykafka_broker.control.http import HttpAddress, HttpListener, Request, Response

_NO_LINGER = struct.pack("ii", 1, 0)  # a close resets the connection


def _close(client: socket.socket) -> None:
    client.close()


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    client.close()


async def _served_until(gone: Callable[[socket.socket], None] | None) -> str:
    """Return how the handler of a request ends when `gone` closes the client's socket; None: the listener closes."""
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
    await listener.open(HttpAddress("127.0.0.1", 0, None), "a test")
    host, _, port = listener.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await begun.wait()
        if gone is None:
            await listener.close()
            assert ended.done()
        else:
            gone(client)
        async with asyncio.timeout(60):
            await ended
    await listener.close()
    return str(ended.result())


@pytest.mark.parametrize("gone", [_close, _reset, None], ids=["closed", "reset", "listener"])
def test_whoever_has_gone_is_not_served_on(gone: Callable[[socket.socket], None] | None) -> None:
    assert asyncio.run(_served_until(gone)) == "cancelled"


LONG_ANSWER = 64 << 20  # more than the system's buffers take


async def _in_pieces() -> AsyncIterator[bytes]:
    for _ in range(LONG_ANSWER >> 20):
        yield bytes(1 << 20)


async def _with_one_who_reads_nothing(body: Any, then: Callable[[HttpListener], Awaitable[object]]) -> None:
    """Call `then` with a listener whose long answer is on its way to a client that does not read it."""

    async def serve(request: Request) -> Response:
        return Response(200, "text/plain", body())

    listener = HttpListener(serve, lambda request: 0)
    await listener.open(HttpAddress("127.0.0.1", 0, None), "a test")
    host, _, port = listener.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await asyncio.to_thread(client.recv, 1)
        async with asyncio.timeout(60):
            await then(listener)
    await listener.close()


@pytest.mark.parametrize("body", [lambda: bytes(LONG_ANSWER), _in_pieces], ids=["whole", "in pieces"])
class TestWhoReadsNothing:
    def test_does_not_hold_up_the_end(self, body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_LAST_BYTES_S", 0.1, raising=False)
        asyncio.run(_with_one_who_reads_nothing(body, lambda listener: listener.close()))

    def test_gives_the_place_up_after_a_while(self, body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_UNREAD_S", 0.1, raising=False)
        monkeypatch.setattr(module, "_LAST_BYTES_S", 0.1, raising=False)

        async def all_gone(listener: HttpListener) -> None:
            await asyncio.gather(*listener._clients, return_exceptions=True)  # they may have gone already

        asyncio.run(_with_one_who_reads_nothing(body, all_gone))


@pytest.mark.parametrize(
    ("limit", "begin"),
    [("_HEAD_S", b"GET / "), ("_REQUEST_S", b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 9999\r\n\r\n")],
)
def test_a_client_that_sends_a_byte_at_a_time_gives_the_place_up(
    limit: str, begin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 0.2)
    monkeypatch.setattr(module, "_LAST_BYTES_S", 0.1)

    async def serve(request: Request) -> Response:
        raise AssertionError("the request is never complete")

    async def run() -> None:
        listener = HttpListener(serve, lambda request: 10_000)
        await listener.open(HttpAddress("127.0.0.1", 0, None), "a test")
        _, writer = await asyncio.open_connection("127.0.0.1", int(listener.url.rpartition(":")[2]))
        await asyncio.sleep(0.3)
        assert listener._clients, "it may rest before it begins"
        writer.write(begin)
        async with asyncio.timeout(30):
            while listener._clients:
                writer.write(b"x")
                await asyncio.sleep(0.02)
        writer.close()
        await listener.close()

    asyncio.run(run())


@pytest.mark.parametrize("body", [lambda: bytes(9), _in_pieces], ids=["whole", "in pieces"])
def test_a_head_is_answered_without_the_body(body: Any) -> None:
    async def scenario() -> None:
        async def serve(request: Request) -> Response:
            return Response(200, "text/plain", body())

        listener = HttpListener(serve, lambda request: 0)
        await listener.open(HttpAddress("127.0.0.1", 0, None), "a test")
        await asyncio.to_thread(ask_twice, listener.url)
        await listener.close()

    def ask_twice(url: str) -> None:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
        with contextlib.closing(connection):
            for _ in range(2):
                connection.request("HEAD", "/")
                response = connection.getresponse()
                assert (response.status, response.read(), response.will_close) == (200, b"", False)

    asyncio.run(scenario())


# -- refusals: by the head, and so that the client gets the answer

MOST = 1 << 20
LONG = 40 << 20
ME = {"x-user": "me"}


def _judge(request: Request) -> Response | int:
    if request.headers.get("x-user") != "me":
        return Response(401, "text/plain", b"who are you?")
    return MOST


@pytest.fixture
def url() -> Iterator[str]:
    """Return the URL of a listener in another thread that serves only `me`, with bodies of up to a megabyte."""

    async def serve(request: Request) -> Response:
        return Response(200, "text/plain", str(len(request.body)).encode())

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    listener = HttpListener(serve, _judge)
    asyncio.run_coroutine_threadsafe(listener.open(HttpAddress("127.0.0.1", 0, None), "a test"), loop).result()
    yield listener.url
    asyncio.run_coroutine_threadsafe(listener.close(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def _by_http_client(url: str, body: Any, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    connection.request("POST", "/", body, headers)
    with contextlib.closing(connection):
        return connection.getresponse().status


def _by_urllib(url: str, body: Any, headers: dict[str, str]) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def _pieces(size: int) -> Iterator[bytes]:
    """Return a body in pieces, whose length the client does not announce."""
    return (bytes(1 << 16) for _ in range(size >> 16))


CLIENTS = {"http.client": _by_http_client, "urllib": _by_urllib}
BODIES: dict[str, Callable[[int], Any]] = {"its length told": bytes, "in chunks": _pieces}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("body", BODIES)
class TestRefusals:
    def test_a_stranger_is_told_so_however_long_the_body(self, url: str, client: str, body: str) -> None:
        for size in (1 << 16, 7 << 20, LONG):
            assert CLIENTS[client](url, BODIES[body](size), {}) == 401

    def test_a_body_above_the_limit_is_told_so(self, url: str, client: str, body: str) -> None:
        assert CLIENTS[client](url, BODIES[body](MOST), ME) == 200
        for size in (MOST + (1 << 16), 7 << 20, LONG):
            assert CLIENTS[client](url, BODIES[body](size), ME) == 413


def _first_line(url: str, head: bytes) -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\n" + head + b"\r\n")
        return client.makefile("rb").readline()


def test_an_announced_length_is_enough(url: str) -> None:
    """A request is refused by its announced length, before any byte of the body."""
    terabyte = b"content-length: 1099511627776\r\n"
    assert b" 401 " in _first_line(url, terabyte)
    assert b" 413 " in _first_line(url, b"x-user: me\r\n" + terabyte)


def test_whoever_asks_first_is_answered_without_the_body(url: str) -> None:
    asks = b"expect: 100-continue\r\ncontent-length: "
    assert b" 401 " in _first_line(url, asks + b"10\r\n")
    assert b" 413 " in _first_line(url, b"x-user: me\r\n" + asks + b"7000000\r\n")
    assert b" 100 " in _first_line(url, b"x-user: me\r\n" + asks + b"10\r\n")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.parametrize(("headers", "status"), [([], "401"), (["-H", "x-user: me"], "413")])
@pytest.mark.parametrize("way", [[], ["-H", "expect:"], ["-H", "transfer-encoding: chunked"]])
def test_curl_is_told_too(url: str, headers: list[str], way: list[str], status: str, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(bytes(7 << 20))
    command = ["curl", "-s", "-o", "-", "-w", "%{http_code}", "--data-binary", f"@{body}", *headers, *way, url]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stdout[-3:].decode()) == (0, status)


def test_a_stranger_without_a_body_keeps_the_connection(url: str) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    with contextlib.closing(connection):
        for headers, status in (({}, 401), (ME, 200)):
            connection.request("GET", "/", headers=headers)
            response = connection.getresponse()
            response.read()
            assert response.status == status
            assert not response.will_close


def test_a_head_without_end_is_refused(url: str) -> None:
    assert b" 431 " in _first_line(url, b"x-long: " + bytes(b"a" * (1 << 20)) + b"\r\n")


def test_an_answer_that_fails_in_the_middle_is_no_whole_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"half"
        raise ValueError("no more")

    async def serve(request: Request) -> Response:
        return Response(200, "text/plain", pieces())

    def ask(port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/")
        with pytest.raises(http.client.IncompleteRead):
            connection.getresponse().read()
        connection.close()

    async def run() -> None:
        listener = HttpListener(serve, lambda request: 0)
        await listener.open(HttpAddress("127.0.0.1", 0, None), "a test")
        await asyncio.to_thread(ask, int(listener.url.rpartition(":")[2]))
        await listener.close()

    asyncio.run(run())
    assert "an answer ends in the middle" in caplog.text


def test_one_connection_too_many_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_CONNECTIONS", 1)
    monkeypatch.setattr(module, "_MOST_REFUSED", 1)

    async def serve(request: Request) -> Response:
        return Response(200, "text/plain", b"served")

    async def run() -> None:
        listener = HttpListener(serve, lambda request: 0)
        await listener.open(HttpAddress("127.0.0.1", 0, None), "a test")
        port = int(listener.url.rpartition(":")[2])
        first, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await first.readline()).startswith(b"HTTP/1.1 200")
        second, other = await asyncio.open_connection("127.0.0.1", port)
        other.write(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 8000000\r\n\r\n" + b"x" * 8_000_000)
        await other.drain()  # the rest of the request is taken, so that the answer is not lost
        head, _, body = (await second.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert f"content-length: {len(body)}".encode() in head
        third, another = await asyncio.open_connection("127.0.0.1", port)
        assert await third.read() == b""  # a refused client is still there
        for each in (writer, other, another):
            each.close()
        await listener.close()

    asyncio.run(run())


def test_a_request_for_no_host_is_told_so() -> None:
    assert module.why_another_name({}) == "the request does not say for which host it is"
    assert module.why_another_name({"host": "example.org"}) == "example.org is not a name of this machine"
    assert module.why_another_name({"host": "[::1]:80"}) is None


def test_others_are_served_between_the_requests_of_a_client() -> None:
    """A client may send thousands at once; those that are refused by their heads are answered without a wait."""
    count = 300

    async def serve(request: Request) -> Response:
        raise AssertionError("each is refused")

    async def run() -> None:
        listener = HttpListener(serve, lambda request: Response(403, "text/plain", b""))
        await listener.open(HttpAddress("127.0.0.1", 0, None), "a test")
        reader, writer = await asyncio.open_connection("127.0.0.1", int(listener.url.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n" * count)
        await reader.readline()
        turns = 0
        answered = asyncio.ensure_future(_lines_like(reader, b"HTTP/1.1 403", count - 1))
        while not answered.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > count // 2
        writer.close()
        await listener.close()

    asyncio.run(run())


async def _lines_like(reader: asyncio.StreamReader, begin: bytes, count: int) -> None:
    while count:
        count -= (await reader.readline()).startswith(begin)
