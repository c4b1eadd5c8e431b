"""A broker for tests that have an event loop.

Rule: whatever waits for the broker does so in a thread, so the loop goes on serving the test's clients. A start that is
cancelled leaves no process behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pykafka_broker.testing.handle import Handle

if TYPE_CHECKING:
    from pykafka_broker.testing.process import KafkaBroker

T = TypeVar("T")


class Awaited:
    """All methods of something, to be awaited; what is no method is as it is. What a method returns that has methods of
    its own on the broker, such as a fault, has them awaited as well.
    """

    def __init__(self, of: Any) -> None:
        self._of = of

    def __repr__(self) -> str:
        return repr(self._of)

    def __getattr__(self, name: str) -> Any:
        return awaited(getattr(self._of, name))


def awaited(found: Any) -> Any:
    """The same, to be awaited where it is a method or a part of a broker."""
    if isinstance(found, Handle):
        return Awaited(found)
    if not callable(found):
        return found

    @wraps(found)
    async def in_thread(*args: Any, **kwargs: Any) -> Any:
        return awaited(await asyncio.to_thread(found, *args, **kwargs))

    return in_thread


class AsyncKafkaBroker:
    """What `async with KafkaBroker() as broker` gives; `AsyncKafkaBroker(kafka_broker)` is one for a broker that a
    fixture has started. All methods of `KafkaBroker` are there and are awaited, those of `broker.clock` and its other
    parts too: `await broker.clock.advance(minutes=10)`.
    """

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker

    def __repr__(self) -> str:
        return repr(self.broker)

    def __getattr__(self, name: str) -> Any:
        return awaited(getattr(self.broker, name))

    @property
    def control_url(self) -> str:
        """Where the control API is."""
        return self.broker.control_url

    def client_config(self, client: str, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """Settings for a client, by its name; as `KafkaBroker.client_config`."""
        return self.broker.client_config(client, user, mechanism)

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
