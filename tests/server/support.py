"""Helpers that the tests of the server share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pykafka_broker.server.event_loop import new_event_loop


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
