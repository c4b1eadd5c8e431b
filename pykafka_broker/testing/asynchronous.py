"""A broker for tests that have an event loop.

Rule: whatever waits for the broker's process does so in a thread, so the loop goes on serving the test's clients. A
start that is cancelled leaves no process behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from pykafka_broker.testing.process import KafkaBroker

T = TypeVar("T")


class AsyncKafkaBroker:
    """What `async with KafkaBroker() as broker` gives; `AsyncKafkaBroker(kafka_broker)` is one for a broker that a
    fixture has started. `start`, `stop`, `kill`, `restart` and `close` are awaited.
    """

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker

    def __repr__(self) -> str:
        return repr(self.broker)

    @property
    def bootstrap_servers(self) -> str:
        """The address for a client's setting of that name."""
        return self.broker.bootstrap_servers

    @property
    def host(self) -> str:
        return self.broker.host

    @property
    def port(self) -> int:
        return self.broker.port

    @property
    def config(self) -> dict[str, str]:
        return self.broker.config

    @property
    def data_dir(self) -> Path:
        return self.broker.data_dir

    @property
    def pid(self) -> int:
        """The id of its process, the last one if that has ended."""
        return self.broker.pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self.broker.running

    @property
    def log(self) -> str:
        """The end of what the broker has logged since it was made, restarts included."""
        return self.broker.log

    async def start(self) -> Self:
        """Start the process and wait until clients may connect."""
        await self._in_thread(self.broker.start, self.broker.kill)
        return self

    async def stop(self, timeout_s: float = 30) -> None:
        """End the broker as SIGTERM does: everything is flushed and marked as cleanly shut down."""
        await self._in_thread(lambda: self.broker.stop(timeout_s))

    async def kill(self) -> None:
        """End the broker as kill -9 does."""
        await self._in_thread(self.broker.kill)

    async def restart(self) -> None:
        """`stop` and `start` on the same port and data."""
        await self._in_thread(self.broker.restart, self.broker.kill)

    async def close(self) -> None:
        """`stop`, then remove what is temporary."""
        await self._in_thread(self.broker.close)

    async def exit(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The end of a `with` block."""
        await self._in_thread(lambda: self.broker.__exit__(kind, error, trace))

    async def _in_thread(self, work: Callable[[], T], undo: Callable[[], object] | None = None) -> T:
        """A thread can't be cancelled: who is, waits for it, and what it has done is taken back."""
        working = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait([working])
            if undo is not None:
                await asyncio.to_thread(undo)
            raise
