"""The session with ZooKeeper: the seam between the event loop and kazoo, whose client works with threads.

Rule: the loop never waits for ZooKeeper. Everything that asks ZooKeeper is a function of the client, handed to `run`,
which calls it in the one thread of the session: so these calls never meet each other. What kazoo tells from threads of
its own (a watch has fired, the connection is another one) reaches the loop by `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

R = TypeVar("R")
# ZooKeeper can't be asked now, or the session has ended: kazoo connects again by itself, and the caller asks again.
UNREACHABLE = (KazooException, KazooTimeoutError)


class ZooKeeperSession:
    """A session with the ZooKeeper of `zookeeper.connect`, renewed by kazoo when it has expired.

    connect: addresses, with a chroot behind them if there is one: `host:2181,other:2181/kafka`.
    on_event: called on the loop, with the path of a node that has changed, or with None when the connection has.
    """

    def __init__(
        self,
        connect: str,
        timeout_ms: int,
        loop: asyncio.AbstractEventLoop,
        on_event: Callable[[str | None], None],
    ) -> None:
        servers, slash, chroot = connect.partition("/")
        self._servers = servers
        self._chroot = (slash + chroot).rstrip("/")
        self._loop = loop
        self._on_event = on_event
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="zookeeper")
        self._client = KazooClient(hosts=servers, timeout=timeout_ms / 1000)
        self._client.add_listener(lambda state: self._tell(None))

    async def open(self, timeout_ms: int) -> None:
        """Connect, and make the chroot.

        Raises:
            OSError: no ZooKeeper has answered in time.
        """
        try:
            await self.run(partial(self._start, timeout_ms=timeout_ms))
        except UNREACHABLE as error:
            reason = f"no ZooKeeper answers within {timeout_ms} ms ({error})"
            raise OSError(errno.ETIMEDOUT, reason, self._servers) from error

    def _start(self, client: Any, timeout_ms: int) -> None:
        client.start(timeout_ms / 1000)
        if self._chroot:
            client.ensure_path(self._chroot)
            client.chroot = self._chroot

    async def run(self, work: Callable[[Any], R]) -> R:
        """Return what `work` returns of the client, called in the session's thread. Raises one of UNREACHABLE."""
        return await self._loop.run_in_executor(self._thread, work, self._client)

    def watch(self, event: Any) -> None:
        """Tell the loop of the path that an event names. To be given to kazoo, which calls it in another thread."""
        if event.path:
            self._tell(self._client.unchroot(event.path))

    def _tell(self, path: str | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._on_event, path)

    async def close(self) -> None:
        """End the session, and with it the ephemeral nodes. What still runs in the thread fails."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        with contextlib.suppress(*UNREACHABLE):
            self._client.stop()
            self._client.close()
        self._thread.shutdown()
