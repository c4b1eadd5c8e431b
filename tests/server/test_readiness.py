"""Sockets of the turns beside the loop's own, on each kind of loop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from pykafka_broker.server.event_loop import EventLoop, SystemClock, WokenLoop, new_event_loop, plain_event_loop
from pykafka_broker.server.transport import READ, WRITE
from tests.server.support import until


class Noted:
    """A reader that notes what it has read."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.told: list[tuple[int, bytes]] = []

    def on_ready(self, events: int) -> None:
        self.told.append((events, self.sock.recv(100) if events & READ else b""))


@pytest.fixture(params=[new_event_loop, plain_event_loop], ids=["epoll", "the loop's readers"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    loop = request.param()
    yield loop
    loop.close()


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(3)]
    yield made
    for pair in made:
        for sock in pair:
            sock.close()


def test_the_loop_and_the_turns_are_both_told(
    loop: asyncio.AbstractEventLoop, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    async def scenario() -> None:
        turns = EventLoop(loop, SystemClock())
        sources = [Noted(ours) for ours, _ in pairs[:2]]
        for source in sources:
            turns.watch(source, source.sock.fileno(), READ)
        own: list[bytes] = []
        loop.add_reader(pairs[2][0], lambda: own.append(pairs[2][0].recv(100)))
        for _, theirs in pairs:
            theirs.send(b"x")
        threading.Thread(target=loop.call_soon_threadsafe, args=(own.append, b"thread")).start()
        await until(lambda: len(own) == 2 and all(source.told for source in sources))
        assert [source.told for source in sources] == [[(READ, b"x")]] * 2
        assert sorted(own) == [b"thread", b"x"]
        loop.remove_reader(pairs[2][0])
        for source in sources:
            turns.forget(source.sock.fileno())
        turns.close()

    loop.run_until_complete(scenario())


def test_what_is_watched_for_can_change_and_end(
    loop: asyncio.AbstractEventLoop, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    async def scenario() -> None:
        turns = EventLoop(loop, SystemClock())
        ours, theirs = pairs[0]
        source = Noted(ours)
        turns.watch(source, ours.fileno(), 0)
        theirs.send(b"x")
        await asyncio.sleep(0.01)
        assert source.told == []
        turns.change(ours.fileno(), WRITE)
        await asyncio.sleep(0.01)
        assert set(source.told) == {(WRITE, b"")}
        turns.change(ours.fileno(), READ)
        await asyncio.sleep(0.01)
        assert source.told[-1] == (READ, b"x")
        count = len(source.told)
        turns.forget(ours.fileno())
        theirs.send(b"y")
        await asyncio.sleep(0.01)
        assert len(source.told) == count
        turns.close()

    loop.run_until_complete(scenario())


def test_a_turn_settles_once_for_all_and_steps_come_in_the_next_one(
    loop: asyncio.AbstractEventLoop, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    async def scenario() -> None:
        turns = EventLoop(loop, SystemClock())
        happened: list[str] = []
        turns.settle = lambda: happened.append("settle")

        class Asking(Noted):
            def on_ready(self, events: int) -> None:
                super().on_ready(events)
                happened.append("served")
                turns.call_soon(lambda: happened.append("soon"))

        for ours, theirs in pairs:
            turns.watch(Asking(ours), ours.fileno(), READ)
            theirs.send(b"x")
        await asyncio.sleep(0.05)
        if hasattr(loop, "readiness"):
            assert happened == ["served"] * 3 + ["settle"] + ["soon"] * 3 + ["settle"]
        assert happened.count("soon") == happened.count("served") == 3
        assert "settle" in happened[happened.index("served") : happened.index("soon")]
        for ours, _ in pairs:
            turns.forget(ours.fileno())
        turns.close()

    loop.run_until_complete(scenario())


def test_who_rests_is_told_afterwards(
    loop: asyncio.AbstractEventLoop, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    async def scenario() -> None:
        turns = EventLoop(loop, SystemClock())
        before, during = (Noted(ours) for ours, _ in pairs[:2])
        turns.watch(before, before.sock.fileno(), READ)
        turns.pause()
        turns.watch(during, during.sock.fileno(), READ)
        for _, theirs in pairs[:2]:
            theirs.send(b"x")
        done: list[str] = []
        turns.call_soon(lambda: done.append("soon"))
        await asyncio.sleep(0.02)
        assert (before.told, during.told, done) == ([], [], ["soon"])
        turns.resume()
        await asyncio.sleep(0.02)
        assert (before.told, during.told) == ([(READ, b"x")], [(READ, b"x")])
        turns.close()

    loop.run_until_complete(scenario())


def test_what_is_done_soon_comes_once_a_turn_however_many_sockets_were_ready_meanwhile(
    loop: asyncio.AbstractEventLoop, pairs: list[tuple[socket.socket, socket.socket]]
) -> None:
    async def scenario() -> None:
        turns = EventLoop(loop, SystemClock())
        source = Noted(pairs[0][0])
        turns.watch(source, source.sock.fileno(), READ)
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1
            turns.call_soon(step)

        turns.call_soon(step)
        for _ in range(20):
            pairs[0][1].send(b"x")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert len(source.told) >= 19
        before = steps
        for _ in range(10):
            await asyncio.sleep(0)
        assert steps - before <= 11

    loop.run_until_complete(scenario())


@pytest.mark.posix("imitates Windows")
def test_a_signal_wakes_a_loop_whose_wait_goes_on() -> None:
    """On Windows a signal does not end the wait of the main thread."""
    loop, due, told = WokenLoop(), threading.Event(), list[str]()

    def send() -> None:
        due.wait()
        os.kill(os.getpid(), signal.SIGUSR1)

    def on_signal(*_: object) -> None:
        told.append("signal")
        loop.call_soon_threadsafe(loop.stop)

    before, others = signal.signal(signal.SIGUSR1, on_signal), threading.Thread(target=send)
    others.start()  # with the signal open, unlike this thread
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        loop.call_soon(due.set)
        late = loop.call_later(60, loop.stop)
        began = loop.time()
        loop.run_forever()
        late.cancel()
        assert told == ["signal"]
        assert loop.time() - began < 50
    finally:
        others.join()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        signal.signal(signal.SIGUSR1, before)
        loop.close()
