"""Documents at URLs: read at once from a file, off the event loop over HTTP, and never beyond the size limit."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pykafka_broker.server.documents import Documents, fetched
from pykafka_broker.server.event_loop import EventLoop, SystemClock


class Site:
    """A server of one document."""

    def __init__(self) -> None:
        site = self
        self.content, self.status, self.asked = b"one", 200, 0
        self.posted: list[tuple[str, bytes]] = []
        self.open = threading.Event()
        self.open.set()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked += 1
                site.open.wait(10)
                self.send_response(site.status)
                self.end_headers()
                self.wfile.write(site.content)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                site.posted.append((self.headers["Authorization"], body))
                self.send_response(site.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                self.wfile.write(site.content)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys?token=secret"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.open.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def documents(loop: asyncio.AbstractEventLoop) -> Documents:
    return Documents(EventLoop(loop, SystemClock()))


def run_until(loop: asyncio.AbstractEventLoop, condition: Callable[[], object]) -> None:
    for _ in range(10_000):
        if condition():
            return
        loop.run_until_complete(asyncio.sleep(0.001))
    raise TimeoutError


def test_a_file_is_read_at_once(documents: Documents, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"one")
    document = documents.document(path.as_uri())
    assert (document.content, document.error) == (b"one", "")
    path.write_bytes(b"two")
    document.read()
    assert document.content == b"two"


def test_the_same_url_is_the_same_document(documents: Documents, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"one")
    assert documents.document(path.as_uri()) is documents.document(path.as_uri())


def test_the_same_content_stays_the_same_object(documents: Documents, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"one")
    document = documents.document(path.as_uri())
    before = document.content
    document.read()
    assert document.content is before


def test_a_file_that_is_not_there_is_told(documents: Documents, tmp_path: Path) -> None:
    document = documents.document((tmp_path / "nowhere").as_uri())
    assert "No such file" in document.error
    assert (document.content, document.failures) == (b"", 1)
    document.read()
    assert document.failures == 2


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "data:,x", "/etc/hostname", "x", "", "http://[::1"])
def test_another_url_is_refused(documents: Documents, url: str) -> None:
    assert documents.document(url).error


def test_over_http_the_first_reading_is_waited_for_and_later_ones_are_not(
    site: Site, documents: Documents, loop: asyncio.AbstractEventLoop
) -> None:
    document = documents.document(site.url)
    assert document.content == b"one"
    site.content = b"two"
    site.open.clear()
    for _ in range(5):
        document.read()
    assert document.content == b"one"
    site.open.set()
    run_until(loop, lambda: document.content == b"two")
    assert site.asked == 2


def test_what_fails_leaves_the_content_as_it_was(
    site: Site, documents: Documents, loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    document = documents.document(site.url)
    site.status = 500
    document.read()
    run_until(loop, lambda: document.error)
    assert (document.content, document.failures) == (b"one", 1)
    assert "HTTP Error 500" in caplog.text
    assert "secret" not in caplog.text
    site.status = 200
    document.read()
    run_until(loop, lambda: not document.error)
    assert document.failures == 0


def test_a_huge_one_is_not_taken(documents: Documents, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(bytes((1 << 20) + 1))
    assert "more than" in documents.document(path.as_uri()).error


def test_what_speaks_no_http_is_told(documents: Documents, caplog: pytest.LogCaptureFixture) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as client:
                client.recv(1000)
                client.sendall(b"\x00\x01garbage\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        document = documents.document(f"http://127.0.0.1:{server.getsockname()[1]}/x")
    assert document.error


def test_a_reading_that_outlives_the_loop_is_forgotten(
    site: Site, documents: Documents, loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    document = documents.document(site.url)
    site.open.clear()
    document.read()
    loop.close()
    with caplog.at_level(logging.DEBUG):
        site.open.set()
        for thread in threading.enumerate():
            if thread.name == "document":
                thread.join(10)
    assert "the loop has ended" in caplog.text


def test_what_is_sent_is_answered_and_goes_nowhere_else(site: Site) -> None:
    headers = {"Authorization": "Basic c2VjcmV0"}
    assert fetched(site.url, headers, b"grant_type=x") == (b"one", "")
    site.status = 307
    content, error = fetched(site.url, headers, b"grant_type=x")
    assert (content, error) == (b"", "HTTP Error 307: Temporary Redirect")
    assert site.posted == [("Basic c2VjcmV0", b"grant_type=x")] * 2
    assert site.asked == 0
