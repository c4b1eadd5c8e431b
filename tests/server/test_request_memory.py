"""Memory for requests that are coming in: who must wait, and that nobody waits for ever."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka_broker.server.channel import LimitedFrameReader, RequestMemory
from pykafka_broker.server.event_loop import BufferPool

SCRATCH = 64


class Loop:
    def __init__(self) -> None:
        self.soon: deque[Callable[[], None]] = deque()

    def run(self) -> None:
        while self.soon:
            self.soon.popleft()()


class Sender:
    """One client and the connection that reads from it."""

    def __init__(self, memory: RequestMemory, data: bytes = b"") -> None:
        self.memory = memory
        self.reader = LimitedFrameReader(memoryview(bytearray(SCRATCH)), BufferPool(), 1 << 20, memory, self.stall)
        self.data = data
        self.reading = True
        self.frames: list[bytes] = []

    def stall(self) -> None:
        self.reading = False
        self.memory.wait(self.go_on)

    def go_on(self) -> None:
        self.reading = True
        self.reader.resume(self.deliver, 1 << 20)

    def deliver(self, frame: memoryview) -> bool:
        if frame[:3] == b"bug":
            raise ZeroDivisionError
        self.frames.append(bytes(frame))
        return True

    def feed(self, most: int = 1 << 20) -> None:
        while self.data and self.reading and most:
            target = self.reader.target()
            count = min(len(self.data), len(target), most)
            target[:count] = self.data[:count]
            self.data, most = self.data[count:], most - count
            self.reader.received(count, self.deliver, 1 << 20)


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def memory(loop: Loop) -> RequestMemory:
    return RequestMemory(1000, loop.soon.append)


def test_a_large_request_waits_while_there_is_no_memory(loop: Loop, memory: RequestMemory) -> None:
    first, second = Sender(memory, framed(b"a" * 1500)), Sender(memory, framed(b"b" * 500))
    first.feed(700)
    second.feed()
    assert (second.reading, second.frames) == (False, [])
    assert len(second.data) == 504 - SCRATCH
    small = Sender(memory, framed(b"c" * 40))
    small.feed()
    assert small.frames == [b"c" * 40]  # served where it was received
    first.feed()
    loop.run()
    second.feed()
    assert (first.frames, second.frames) == ([b"a" * 1500], [b"b" * 500])


def test_below_the_limit_one_more_is_begun_and_read_to_its_end(memory: RequestMemory) -> None:
    senders = [Sender(memory, framed(b"x" * 600)) for _ in range(3)]
    for sender in senders:
        sender.feed(300)
    assert [sender.reading for sender in senders] == [True, True, False]
    senders[1].feed()
    assert senders[1].frames == [b"x" * 600]


@pytest.mark.parametrize("end", ["close", "defect"])
def test_what_comes_to_nothing_makes_room_too(loop: Loop, memory: RequestMemory, end: str) -> None:
    first, second = Sender(memory, framed(b"bug" * 500)), Sender(memory, framed(b"b" * 500))
    first.feed(700)
    second.feed()
    if end == "close":
        first.reader.close()
    else:
        with pytest.raises(ZeroDivisionError):
            first.feed()
        first.reader.close()
    loop.run()
    second.feed()
    assert second.frames == [b"b" * 500]
    third = Sender(memory, framed(b"c" * 1500))
    third.feed()
    assert third.frames == [b"c" * 1500]


def test_who_is_not_known_yet_takes_nothing_of_it() -> None:
    memory = RequestMemory(1000, Loop().soon.append)
    strangers = [Sender(memory, framed(b"s" * 500)[:100]) for _ in range(9)]
    for stranger in strangers:
        stranger.reader.is_known = False
        stranger.feed()
    assert not memory.is_full
    known = Sender(memory, framed(b"k" * 1500)[:100])
    known.feed()
    assert memory.is_full
    strangers[0].data = b"s" * 404
    strangers[0].feed()
    assert strangers[0].frames == [b"s" * 500]
    for sender in strangers[1:]:
        sender.reader.close()
    assert memory.is_full
    known.reader.close()
    assert not memory.is_full


@given(
    st.lists(st.lists(st.integers(0, 1200), min_size=1, max_size=6), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
)
def test_everybody_is_served_in_the_end(sizes: list[list[int]], random: Random) -> None:
    loop = Loop()
    memory = RequestMemory(1000, loop.soon.append)
    wanted = [[bytes([number]) * size for number, size in enumerate(each)] for each in sizes]
    senders = [Sender(memory, framed(*each)) for each in wanted]
    for _ in range(2000):
        waiting = [sender for sender in senders if sender.data and sender.reading]
        if not waiting:
            loop.run()
            if not any(sender.data and sender.reading for sender in senders):
                break
            continue
        random.choice(waiting).feed(random.randrange(1, 900))
        if random.random() < 0.5:
            loop.run()
    assert [sender.frames for sender in senders] == wanted
    assert not memory.is_full
