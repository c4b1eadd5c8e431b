"""Frames out of a stream, however it is cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.errors import FrameError
from pykafka_broker.server.channel import FrameReader
from pykafka_broker.server.event_loop import FIRST_BUFFER_BYTES, BufferPool

MAX = 1 << 20


class Harness:
    """A reader, and what it delivered. `stop_after` makes it wait after so many frames."""

    def __init__(self, scratch: int = 4096, max_bytes: int = MAX) -> None:
        self.pool = BufferPool()
        self.reader = FrameReader(memoryview(bytearray(scratch)), self.pool, max_bytes)
        self.frames: list[bytes] = []
        self.stop_after: int | None = None
        self.most = 1 << 20

    def deliver(self, frame: memoryview) -> bool:
        self.frames.append(bytes(frame))
        frame[:] = b"\xee" * len(frame)  # whoever serves a frame may write into it
        return self.stop_after is None or len(self.frames) < self.stop_after

    def feed(self, data: bytes) -> None:
        while data:
            target = self.reader.target()
            taken = data[: len(target)]
            target[: len(taken)] = taken
            self.reader.received(len(taken), self.deliver, self.most)
            data = data[len(taken) :]


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@given(st.lists(st.binary(max_size=200), max_size=20), st.lists(st.integers(1, 300), min_size=1, max_size=50))
def test_any_cut_gives_the_same_frames(bodies: list[bytes], cuts: list[int]) -> None:
    harness = Harness(scratch=256)
    stream = framed(*bodies)
    position = index = 0
    while position < len(stream):
        size = cuts[index % len(cuts)]
        harness.feed(stream[position : position + size])
        position += size
        index += 1
    assert harness.frames == bodies
    assert not harness.reader.in_the_middle


def test_a_frame_much_larger_than_the_shared_buffer() -> None:
    harness = Harness()
    body = bytes(range(256)) * 2000
    harness.feed(framed(b"before", body, b"after"))
    assert harness.frames == [b"before", body, b"after"]


def test_a_buffer_is_used_again() -> None:
    harness = Harness()
    harness.feed(framed(b"a" * 100_000))
    kept = harness.pool.take(80_000)
    harness.pool.give(kept)
    harness.feed(framed(b"b" * 90_000))
    assert harness.pool.take(80_000) is kept


def test_who_is_not_known_yet_gets_little_memory_for_a_promise() -> None:
    harness = Harness()
    harness.reader.is_known = False
    body = bytes(range(250)) * 2000
    harness.feed(framed(body)[:20])
    assert len(harness.reader.target()) <= 1024
    harness.feed(framed(body)[20:])
    assert harness.frames == [body]


def test_memory_grows_with_what_arrives_not_with_what_is_promised() -> None:
    harness = Harness(max_bytes=100 << 20)
    harness.feed(struct.pack(">i", 100 << 20) + b"x" * 100)
    assert len(harness.reader.target()) <= FIRST_BUFFER_BYTES
    harness.feed(b"y" * (3 * FIRST_BUFFER_BYTES))
    assert len(harness.reader.target()) <= 4 * FIRST_BUFFER_BYTES


@pytest.mark.parametrize("size", [-1, -(2**31), MAX + 1, 2**31 - 1])
def test_an_impossible_length_is_refused_at_its_four_bytes(size: int) -> None:
    harness = Harness()
    with pytest.raises(FrameError, match=str(size)):
        harness.feed(struct.pack(">i", size))


@pytest.mark.parametrize(("start", "spoken"), [(b"GET / HTTP/1.1\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01", "TLS")])
def test_who_speaks_another_protocol_is_recognised(start: bytes, spoken: str) -> None:
    harness = Harness(max_bytes=100 << 20)
    with pytest.raises(FrameError, match=f"the client speaks {spoken}"):
        harness.feed(start)


def test_the_largest_allowed_frame_passes() -> None:
    harness = Harness()
    harness.feed(framed(b"z" * MAX))
    assert [len(frame) for frame in harness.frames] == [MAX]


def test_what_waits_is_served_on_resume_and_may_be_written_into() -> None:
    harness = Harness()
    harness.stop_after = 1
    harness.feed(framed(b"one", b"two", b"three") + struct.pack(">i", 4) + b"fo")
    assert harness.frames == [b"one"]
    assert harness.reader.has_waiting
    harness.stop_after = None
    harness.reader.resume(harness.deliver, harness.most)
    assert harness.frames == [b"one", b"two", b"three"]
    assert harness.reader.in_the_middle
    harness.feed(b"ur")
    assert harness.frames[-1] == b"four"


def test_nothing_is_left_after_close() -> None:
    harness = Harness()
    harness.feed(struct.pack(">i", 10) + b"half")
    assert harness.reader.in_the_middle
    harness.reader.close()
    assert not harness.reader.in_the_middle
