"""Answers of one turn leave together, and in their order."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from pykafka_broker.broker.requests.encoded_reply import UnwrittenReply
from pykafka_broker.server import event_loop as event_loop_module
from pykafka_broker.server.channel import Channel, FrameReader
from pykafka_broker.server.event_loop import (
    KEPT_BYTES,
    MOST_KEPT,
    EventLoop,
    ResponseBatch,
    SystemClock,
    new_event_loop,
)
from pykafka_broker.server.transport import READ, PlainTransport


class Noting:
    def __init__(self, name: str, sent: list[tuple[str, bytes]]) -> None:
        self.name = name
        self.sent = sent

    def send_kept(self, answer: bytes | UnwrittenReply) -> None:
        self.sent.append((self.name, b"".join(answer) if isinstance(answer, list) else answer))


@pytest.fixture
def sent() -> list[tuple[str, bytes]]:
    return []


def slow(monkeypatch: pytest.MonkeyPatch, each_ns: int) -> None:
    """Let each look at the clock show a time `each_ns` after the one before."""
    now = iter(range(each_ns, 1 << 40, each_ns))
    monkeypatch.setattr(event_loop_module, "nanoseconds", lambda: next(now))


def test_they_are_kept_to_the_end_and_joined_where_one_follows_another_of_its_own(
    monkeypatch: pytest.MonkeyPatch, sent: list[tuple[str, bytes]]
) -> None:
    slow(monkeypatch, 50_000)
    a, b = Noting("a", sent), Noting("b", sent)
    answers = ResponseBatch()
    answers.gather(2)
    for sender, data in ((a, b"1"), (a, b"2"), (b, b"3"), (a, b"4")):
        answers.add(sender, data)
    assert sent == []
    answers.send()
    assert sent == [("a", b"12"), ("b", b"3"), ("a", b"4")]
    assert not answers.gathers
    answers.send()
    assert len(sent) == 3


def test_what_is_served_at_once_is_sent_at_once(monkeypatch: pytest.MonkeyPatch, sent: list[tuple[str, bytes]]) -> None:
    slow(monkeypatch, 1_000)
    answers = ResponseBatch()
    answers.gather(8)
    answers.add(Noting("a", sent), b"1")
    assert sent == [("a", b"1")]
    assert not answers.gathers  # nor are the others of this turn kept
    answers.gather(100)
    answers.add(Noting("a", sent), b"2")
    assert answers.gathers  # gathering is always worth it for so many
    assert len(sent) == 1


def test_the_first_one_does_not_wait_for_all_of_very_many(
    monkeypatch: pytest.MonkeyPatch, sent: list[tuple[str, bytes]]
) -> None:
    slow(monkeypatch, 50_000)
    answers = ResponseBatch()
    answers.gather(100)
    for number in range(MOST_KEPT):
        assert sent == []
        answers.add(Noting(str(number), sent), b"x")
    assert [name for name, _ in sent] == [str(number) for number in range(MOST_KEPT)]
    assert answers.gathers


class Sending(PlainTransport):
    """A transport that notes what is sent, and how many requests were served by then."""

    __slots__ = ()

    def __init__(self, sock: socket.socket, served: list[bytes], answered: list[tuple[bytes, int]]) -> None:
        super().__init__(sock)

        def send(data: Any, flags: int) -> int:
            answered.append((bytes(data), len(served)))
            return sock.send(data, flags)

        self.send = send


class Echo(Channel):
    """A channel that answers each frame with itself, `big` with much, and `bye` by hanging up."""

    def __init__(self, turns: EventLoop, sock: socket.socket, served: list[bytes]) -> None:
        self.served = served
        self.lost: list[str] = []
        super().__init__(turns, PlainTransport(sock), FrameReader(turns.scratch, turns.buffers, 1 << 20))

    @property
    def peer(self) -> str:
        return "peer"

    def _lost(self, why: str) -> None:
        self.lost.append(why)

    def _deliver(self, frame: memoryview) -> bool:
        data = bytes(frame)
        self.served.append(data)
        if data == b"bye":
            self.close("bye")
            return False
        answer = data * (KEPT_BYTES // 3 + 1) if data == b"big" else data
        self.send([struct.pack(">i", len(answer)), answer])
        return not self._out


class Slow:
    """A socket that is always ready, and takes 30 ms each time."""

    def __init__(self, name: int, now: list[int], served: list[int | str]) -> None:
        self._name, self._now, self._served = name, now, served

    def on_ready(self, events: int) -> None:
        self._now[0] += 30_000_000
        self._served.append(self._name)


def test_timers_run_within_a_long_turn_and_the_rest_of_the_sockets_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = new_event_loop()
    now, served = [0], list[int | str]()
    monkeypatch.setattr(event_loop_module, "nanoseconds", lambda: now[0])

    async def scenario() -> None:
        turns = EventLoop(loop, SystemClock())
        pairs = [socket.socketpair() for _ in range(5)]
        for name, (ours, theirs) in enumerate(pairs):
            theirs.send(b"x")
            turns.watch(Slow(name, now, served), ours.fileno(), READ)

        for _ in range(20):
            served.append("heartbeat")
            await asyncio.sleep(0)
        turns.close()
        for pair in pairs:
            for sock in pair:
                sock.close()

    loop.run_until_complete(scenario())
    loop.close()
    sockets = [each for each in served if each != "heartbeat"]
    assert len(sockets) > 10
    assert all(sockets.count(name) >= len(sockets) // 5 - 1 for name in range(5))  # nobody starves
    turns_between = " ".join(map(str, served)).split("heartbeat")
    assert max(len(each.split()) for each in turns_between) == 2


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def received(sock: socket.socket) -> list[bytes]:
    sock.setblocking(False)
    data = b""
    try:
        while piece := sock.recv(1 << 16):
            data += piece
    except BlockingIOError:
        pass
    found = []
    while data:
        (size,) = struct.unpack_from(">i", data)
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


def test_whatever_a_client_asks_its_answers_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop_module, "_SERVED_AT_ONCE_NS", 0)
    monkeypatch.setattr(event_loop_module, "_LONGEST_TURN_NS", 10**12)  # a busy machine ends no turn
    loop = new_event_loop()
    sends: list[tuple[int, int]] = []  # (requests served by then, bytes sent)

    async def scenario() -> None:
        turns, served = EventLoop(loop, SystemClock()), list[bytes]()
        pairs = [socket.socketpair() for _ in range(4)]
        channels = []
        for ours, theirs in pairs:
            for sock in (ours, theirs):
                sock.setblocking(False)
            channels.append(Echo(turns, ours, served))
        kept = Channel.send_kept

        def noted(self: Channel, data: bytes) -> None:
            sends.append((len(served), len(data)))
            kept(self, data)

        monkeypatch.setattr(Channel, "send_kept", noted)
        asked = [[b"one", b"two"], [b"one", b"big", b"two"], [b"one", b"bye", b"two"], [b"one"]]
        for (_, theirs), frames in zip(pairs, asked, strict=True):
            theirs.send(framed(*frames))
        pairs[3][1].close()  # it does not take its answer
        await asyncio.sleep(0.05)
        assert received(pairs[0][1]) == [b"one", b"two"]
        assert received(pairs[1][1]) == [b"one", b"big" * (KEPT_BYTES // 3 + 1), b"two"]
        assert received(pairs[2][1]) == [b"one"]  # answers that are due come before the end
        assert [channel.closed for channel in channels] == [False, False, True, True]
        assert len(channels[3].lost) == 1
        for channel in channels:
            channel.close("the test is over")
        for _, theirs in pairs:
            theirs.close()
        turns.close()

    loop.run_until_complete(scenario())
    loop.close()
    assert sends == [(3, 7), (6, 7), (8, 7)]  # of each channel the last one is kept, till another one sends past it


def end(turns: EventLoop, channels: Sequence[Channel], pairs: Sequence[tuple[socket.socket, socket.socket]]) -> None:
    for channel, (_, theirs) in zip(channels, pairs, strict=True):
        channel.close("the test is over")
        theirs.close()
    turns.close()


def test_an_answer_leaves_before_the_next_request_of_its_channel_is_served() -> None:
    """The loop sends an answer before it serves the next request of the same channel.

    Otherwise a crash in between would leave a producer in doubt about more than its last batch.
    """
    loop = new_event_loop()
    answered: list[tuple[bytes, int]] = []  # (bytes sent, requests of that channel served by then)

    async def scenario() -> None:
        turns = EventLoop(loop, SystemClock())
        pairs = [socket.socketpair() for _ in range(20)]
        channels = []
        for ours, theirs in pairs:
            ours.setblocking(False)
            served: list[bytes] = []
            transport = Sending(ours, served, answered)
            channels.append(Echo(turns, ours, served))
            channels[-1]._transport = transport
            theirs.send(framed(b"1", b"2", b"3"))
        await asyncio.sleep(0.05)
        assert [received(theirs) for _, theirs in pairs] == [[b"1", b"2", b"3"]] * 20
        end(turns, channels, pairs)

    loop.run_until_complete(scenario())
    loop.close()
    assert len(answered) == 60
    assert all(int(data[4:]) == count for data, count in answered)


class Buffering(Sending):
    """A transport that already holds the last bytes, as under TLS."""

    __slots__ = ("has_buffered",)


def test_nor_does_what_goes_on_in_the_same_turn_wait_with_it() -> None:
    """A channel serves received requests, then those that the transport buffers; each answer leaves first."""
    loop = new_event_loop()
    answered: list[tuple[bytes, int]] = []

    async def scenario() -> None:
        turns, served = EventLoop(loop, SystemClock()), list[bytes]()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        channel = Echo(turns, ours, served)
        channel._transport = transport = Buffering(ours, served, answered)
        transport.has_buffered = True
        channel._reader._waiting = framed(b"1")
        theirs.send(framed(b"2"))
        turns.answers.gather(20)
        channel.go_on()
        turns.answers.send()
        assert served == [b"1", b"2"]
        channel.close("the test is over")
        theirs.close()
        turns.close()

    loop.run_until_complete(scenario())
    loop.close()
    assert [(int(data[4:]), count) for data, count in answered] == [(1, 1), (2, 2)]


class Late(Echo):
    """A channel that answers at the end of the turn, if more is to be served in that turn."""

    def _deliver(self, frame: memoryview) -> bool:
        data = bytes(frame)
        self.served.append(data)
        if not self._turns.at_end(lambda: self.send([struct.pack(">i", len(data)), data])):
            self.send([struct.pack(">i", 5), b"alone"])
        return True


def test_the_last_steps_of_a_turn_come_before_its_answers_and_never_outside_of_one() -> None:
    loop = new_event_loop()

    async def scenario() -> None:
        turns, served, order = EventLoop(loop, SystemClock()), list[bytes](), list[str]()
        turns.settle = lambda: order.append(f"settled after {len(served)}")
        pairs = [socket.socketpair() for _ in range(3)]
        channels = []
        for ours, theirs in pairs:
            ours.setblocking(False)
            channels.append(Late(turns, ours, served))
            theirs.send(framed(b"one"))
        await asyncio.sleep(0.05)
        assert [received(theirs) for _, theirs in pairs] == [[b"one"]] * 3
        assert order[:1] == ["settled after 3"]
        assert not turns.at_end(lambda: order.append("never"))
        pairs[0][1].send(framed(b"two"))
        await asyncio.sleep(0.05)
        assert received(pairs[0][1]) == [b"alone"]
        assert "never" not in order
        end(turns, channels, pairs)

    loop.run_until_complete(scenario())
    loop.close()


def test_a_step_that_fails_takes_no_other_with_it(caplog: pytest.LogCaptureFixture) -> None:
    loop = new_event_loop()
    done: list[int] = []

    async def scenario() -> None:
        turns = EventLoop(loop, SystemClock())

        def fail() -> None:
            raise RuntimeError("a defect")

        for step in (partial(done.append, 1), fail, partial(done.append, 2)):
            turns.call_soon(step)
        await asyncio.sleep(0.01)
        turns.close()

    loop.run_until_complete(scenario())
    loop.close()
    assert done == [1, 2]
    assert "a defect in a step of the loop" in caplog.text


def test_a_turn_that_fails_has_answered_all_the_same() -> None:
    loop = new_event_loop()
    told: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))

    async def scenario() -> None:
        turns, served = EventLoop(loop, SystemClock()), list[bytes]()

        def fail() -> None:
            raise RuntimeError("a defect")

        turns.settle = fail
        pairs = [socket.socketpair() for _ in range(20)]
        channels = []
        for ours, theirs in pairs:
            ours.setblocking(False)
            channels.append(Echo(turns, ours, served))
            theirs.send(framed(b"one"))
        await asyncio.sleep(0.05)
        assert [received(theirs) for _, theirs in pairs] == [[b"one"]] * 20
        assert not turns.answers.gathers
        end(turns, channels, pairs)

    loop.run_until_complete(scenario())
    loop.close()
    assert told


def test_what_a_socket_does_not_take_goes_on_later() -> None:
    loop = new_event_loop()

    async def scenario() -> None:
        turns, served = EventLoop(loop, SystemClock()), list[bytes]()
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        channel = Echo(turns, ours, served)
        frames = [bytes([number]) * 3000 for number in range(20)]
        found, asked = b"", framed(*frames)
        while len(found) < len(framed(*frames)):
            with contextlib.suppress(BlockingIOError):
                asked = asked[theirs.send(asked) :] if asked else asked
            await asyncio.sleep(0.002)
            with contextlib.suppress(BlockingIOError):
                found += theirs.recv(2000)
        assert found == framed(*frames)
        channel.close("the test is over")
        theirs.close()
        turns.close()

    loop.run_until_complete(asyncio.wait_for(scenario(), 30))
    loop.close()


class Disk:
    """A disk that writes all that a turn has asked for in one go, and refuses some of it."""

    def __init__(self, turns: EventLoop) -> None:
        self._turns = turns
        self._unwritten: list[tuple[bytes, UnwrittenReply]] = []
        self.writes: list[int] = []

    def write(self, data: bytes) -> list[bytes]:
        if not (self._unwritten or self._turns.at_end(self._write)):
            return [struct.pack(">i", 4), told(data)]
        reply = UnwrittenReply([struct.pack(">i", 4), b"done"])
        self._unwritten.append((data, reply))
        return reply

    def _write(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        self.writes.append(len(unwritten))
        for data, reply in unwritten:
            reply[1:] = [told(data)]


def told(data: bytes) -> bytes:
    return b"done" if data == b"good" else b"fail"


class Writing(Echo):
    """A channel that has each frame written to the disk; after `big` its socket is full."""

    disk: Disk

    def _deliver(self, frame: memoryview) -> bool:
        data = bytes(frame)
        self.served.append(data)
        if data == b"big":
            self.send([struct.pack(">i", 8 << 20), bytes(8 << 20)])
        self.send(self.disk.write(data))
        return not self._out


def test_no_answer_leaves_before_the_record_that_it_rests_on_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop_module, "_SERVED_AT_ONCE_NS", 1 << 62)
    loop = new_event_loop()
    asked = [[b"bad"] if number % 3 else [b"good"] for number in range(40)]
    asked += [[b"good", b"bad", b"good"], [b"bad", b"bad"], [b"big", b"bad"]]

    async def scenario() -> None:
        turns, served = EventLoop(loop, SystemClock()), list[bytes]()
        disk = Disk(turns)
        pairs = [socket.socketpair() for _ in asked]
        channels = []
        for (ours, theirs), frames in zip(pairs, asked, strict=True):
            ours.setblocking(False)
            channels.append(Writing(turns, ours, served))
            channels[-1].disk = disk
            theirs.send(framed(*frames))
        answers: list[bytes] = [b"" for _ in asked]
        while len(served) < 46 or channels[-1].sending:
            await asyncio.sleep(0)
            for number, (_, theirs) in enumerate(pairs):
                theirs.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while piece := theirs.recv(1 << 20):
                        answers[number] += piece
        await asyncio.sleep(0.01)
        for number, (_, theirs) in enumerate(pairs):
            with contextlib.suppress(BlockingIOError):
                answers[number] += theirs.recv(1 << 20)
        answers[-1] = answers[-1].removeprefix(framed(bytes(8 << 20)))
        assert answers == [framed(*map(told, frames)) for frames in asked]
        assert max(disk.writes) == MOST_KEPT
        end(turns, channels, pairs)

    loop.run_until_complete(scenario())
    loop.close()


def test_what_is_to_be_written_waits_for_the_others_of_its_turn(
    monkeypatch: pytest.MonkeyPatch, sent: list[tuple[str, bytes]]
) -> None:
    slow(monkeypatch, 1_000)
    answers = ResponseBatch()
    answers.gather(2)
    assert answers.before(lambda: sent.append(("written", b"")))
    for name in "ab":
        answers.add(Noting(name, sent), UnwrittenReply([b"", b"1"]))
        assert sent == []
    answers.send()
    assert sent == [("written", b""), ("a", b"1"), ("b", b"1")]
    assert not answers.before(lambda: sent.append(("alone", b"")))


def test_an_answer_is_lost_if_the_write_before_has_a_defect(sent: list[tuple[str, bytes]]) -> None:
    def defect() -> None:
        raise ZeroDivisionError

    answers = ResponseBatch()
    answers.gather(100)
    assert answers.before(defect)
    answers.add(Noting("a", sent), UnwrittenReply([b"1"]))
    with pytest.raises(ZeroDivisionError):
        answers.send()
    answers.send()
    assert sent == []
