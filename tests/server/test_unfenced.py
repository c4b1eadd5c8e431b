"""A process waits until its broker is unfenced, and leaves when it may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pykafka_broker.server.unfenced import Unfenced


class World:
    """What `Unfenced` sees of the broker and of the process."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.left: list[Callable[[], None]] = []
        self.stopped = asyncio.Event()
        self.startup: Any = self
        self.turns: Any = self
        self.broker: Any = self
        self.unfenced = Unfenced(self.startup, self, self.stopped)  # type: ignore[arg-type]

    def begin(self) -> None:
        self.calls.append("begin")

    def accept(self) -> None:
        self.calls.append("accept")

    def run(self, step: Callable[[], None]) -> None:
        step()

    def leave(self, left: Callable[[], None]) -> None:
        self.calls.append("leave")
        self.left.append(left)


def test_clients_are_told_of_when_it_is_unfenced() -> None:
    async def play() -> None:
        world = World()
        waiting = asyncio.ensure_future(world.unfenced.wait())
        await asyncio.sleep(0)
        world.startup.on_serving()
        await asyncio.sleep(0)
        assert (world.calls, waiting.done()) == (["begin", "accept"], False)
        world.startup.on_unfenced()
        await waiting
        assert not world.unfenced.is_refused

    asyncio.run(play())


def test_a_stop_ends_the_wait() -> None:
    async def play() -> None:
        world = World()
        world.stopped.set()
        await world.unfenced.wait()
        assert world.calls == ["begin"]

    asyncio.run(play())


def test_one_that_is_refused_ends_without_asking_for_leave() -> None:
    async def play() -> None:
        world = World()
        world.startup.on_refused("of another cluster")
        assert (world.stopped.is_set(), world.unfenced.is_refused) == (True, True)
        await world.unfenced.leave()
        assert world.calls == []

    asyncio.run(play())


def test_it_leaves_when_it_may() -> None:
    async def play() -> None:
        world = World()
        leaving = asyncio.ensure_future(world.unfenced.leave())
        await asyncio.sleep(0)
        assert (world.calls, leaving.done()) == (["leave"], False)
        world.left[0]()
        await leaving

    asyncio.run(play())
