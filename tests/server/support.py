"""Helpers that the tests of the server share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pykafka_broker.control.moving_time import MovableClock
from pykafka_broker.server.event_loop import new_event_loop
from pykafka_broker.server.server import Server


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario on an event loop like a broker's."""

    async def timed() -> None:
        await asyncio.wait_for(scenario(), 60)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(timed())


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Let the event loop run until the condition holds."""
    for _ in range(int(seconds * 1000)):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came")


class Time:
    """A server's time, which only the test moves until it is released."""

    def __init__(self, server: Server, clock: MovableClock) -> None:
        self._server, self._clock = server, clock
        clock.hold()
        server.hold_timer()

    def move(self, ms: int) -> None:
        self._clock.move(ms)
        self._server.do_due()

    def release(self) -> None:
        """Let the time run on."""
        self._clock.release()
        self._server.release_timer()
