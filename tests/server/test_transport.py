"""Bytes in and out: files by way of memory, and a channel over a transport that has wishes, as TLS does.

Addresses of clients, as Kafka writes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka_broker import platform
from pykafka_broker.server.channel import Channel, FrameReader
from pykafka_broker.server.event_loop import EventLoop, SystemClock
from pykafka_broker.server.transport import (
    READ,
    WRITE,
    PlainTransport,
    copy_file,
    has_come,
)
from tests.server.support import run, until

CONTENT = bytes(range(256)) * 4000


class Piece:
    def __init__(self, file: Any, position: int, length: int) -> None:
        self.file, self.position, self.length = file, position, length

    def __len__(self) -> int:
        return self.length

    def fileno(self) -> int:
        return self.file.fileno()

    def advance(self, count: int) -> Piece:
        return Piece(self.file, self.position + count, self.length - count)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("lacking", ["nothing", "sendfile"])
def test_a_file_is_sent_as_far_as_the_socket_takes_it(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    if lacking == "sendfile":
        monkeypatch.setattr(platform, "SEND_FILE", None)
    ours, theirs = pair
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    transport = PlainTransport(ours)
    got, position = b"", 100
    with path.open("rb") as file:
        while position < len(CONTENT):
            sent = transport.send_file(Piece(file, position, len(CONTENT) - position))
            assert sent > 0
            position += sent
            if position < len(CONTENT):
                with pytest.raises(BlockingIOError):
                    transport.send_file(Piece(file, position, len(CONTENT) - position))
            while len(got) < position - 100:
                got += theirs.recv(1 << 20)
        assert got == CONTENT[100:]


class Layered:
    """Stands for TLS: every second read wants to write first, sends want to read first, and a read takes more from the
    socket than it hands out."""

    wishes = True

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.read_on, self.write_on = READ, WRITE
        self.calls = 0
        self.kept = b""

    @property
    def has_buffered(self) -> bool:
        return bool(self.kept)

    def has_input(self) -> bool:
        return self.has_buffered or has_come(self.sock)

    def recv_into(self, buffer: memoryview) -> int:
        self.calls += 1
        if not self.kept and self.calls % 2:
            self.read_on = WRITE
            raise BlockingIOError
        self.read_on = READ
        if not self.kept:
            self.kept = self.sock.recv(1 << 16)
        most = min(5, len(buffer))
        given, self.kept = self.kept[:most], self.kept[most:]
        buffer[: len(given)] = given
        return len(given)

    def send(self, data: Any, flags: int) -> int:
        if self.wishes and self.write_on == WRITE:
            self.write_on = READ
            raise BlockingIOError
        self.write_on = WRITE
        return self.sock.send(data)

    def send_file(self, piece: Any) -> int:
        raise NotImplementedError

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()


class Echo(Channel):
    """A channel that answers each frame with itself."""

    def __init__(self, turns: EventLoop, transport: Layered) -> None:
        self.lost_for: list[str] = []
        super().__init__(turns, transport, FrameReader(turns.scratch, turns.buffers, 1000))

    peer = "the test"

    def _deliver(self, frame: memoryview) -> bool:
        self.send([len(frame).to_bytes(4, "big"), bytes(frame)])
        return not self.sending

    def _lost(self, why: str) -> None:
        self.lost_for.append(why)


def frames_in(data: bytes) -> Iterator[bytes]:
    while data:
        size = int.from_bytes(data[:4], "big")
        yield data[4 : 4 + size]
        data = data[4 + size :]


def test_a_transport_may_want_to_write_before_it_reads_and_to_read_before_it_writes(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    bodies = [b"one", b"three", b"x" * 300]
    empty = bytes(4)  # a frame without content

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = pair
        theirs.setblocking(False)
        turns = EventLoop(loop, SystemClock())
        channel = Echo(turns, Layered(ours))
        await loop.sock_sendall(theirs, b"".join(len(body).to_bytes(4, "big") + body for body in bodies))
        got = b""
        while not got.replace(empty, b"").endswith(bodies[-1]):
            await loop.sock_sendall(theirs, empty)  # something to be read, for sends that want that
            with contextlib.suppress(TimeoutError):
                got += await asyncio.wait_for(loop.sock_recv(theirs, 1000), 0.02)
        assert [body for body in frames_in(got) if body] == bodies
        theirs.shutdown(socket.SHUT_WR)
        await until(lambda: channel.closed)
        assert channel.lost_for == ["the peer has closed the connection"]
        turns.close()

    run(scenario)


class Greedy(Layered):
    """A transport that takes everything at once."""

    taken = 0

    def send(self, data: Any, flags: int) -> int:
        self.taken += len(data)
        return len(data)

    def send_file(self, piece: Any) -> int:
        return copy_file(self.send, piece)


@pytest.mark.parametrize("pieces", [1, 40])
def test_a_peer_that_reads_as_fast_as_it_is_sent_to_gets_its_share_of_each_turn(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path, pieces: int
) -> None:
    path, size = tmp_path / "segment", 40 << 20
    with path.open("wb") as file:
        file.truncate(size)

    async def scenario() -> None:
        turns = EventLoop(asyncio.get_running_loop(), SystemClock())
        transport = Greedy(pair[0])
        channel = Echo(turns, transport)
        with path.open("rb") as file:
            channel.send([Piece(file, size // pieces * number, size // pieces) for number in range(pieces)])
            assert 0 < transport.taken <= 8 << 20
            await until(lambda: transport.taken == size)
        turns.close()

    run(scenario)


class Grudging(Layered):
    """A transport without wishes that hands out five bytes at a time."""

    wishes = False

    def recv_into(self, buffer: memoryview) -> int:
        self.calls = 1
        return super().recv_into(buffer)


def test_half_a_length_prefix_waits_for_what_the_transport_still_has(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """The socket tells of nothing more: the peer has sent all it wants to."""

    async def scenario() -> None:
        ours, theirs = pair
        turns = EventLoop(asyncio.get_running_loop(), SystemClock())
        channel = Echo(turns, Grudging(ours))
        theirs.sendall(bytes(4) * 3)  # frames without content: the first five bytes are one and a quarter of another
        theirs.setblocking(False)
        got = b""
        while len(got) < 12:
            got += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 100), 60)
        channel.close("the test ends")
        turns.close()

    run(scenario)
