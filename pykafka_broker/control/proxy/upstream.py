"""One connection to the broker behind the proxy, for one of a client's.

Rule: a request that was sent is answered or refused, in the order in which they were sent; after the end of the
connection there is no other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from pykafka_broker.broker.waiting import Future
from pykafka_broker.errors import FrameError
from pykafka_broker.server.turns import Turns

_SIZE_BYTES = 4


class Upstream:
    """`on_lost` is called once when the broker has closed it or can't be reached."""

    def __init__(self, turns: Turns, address: tuple[str, int], on_lost: Callable[[str], None]) -> None:
        self._turns = turns
        self._address = address
        self._on_lost = on_lost
        self._unsent: list[bytes] = []
        self._waiting: deque[Future[bytes]] = deque()
        self._writer: asyncio.StreamWriter | None = None
        self._task = turns.loop.create_task(self._run())

    def send(self, frame: bytes, answer: Future[bytes] | None) -> None:
        """Send a request; the frame of its answer completes `answer`, or a FrameError ends it."""
        if answer is not None:
            self._waiting.append(answer)
        data = len(frame).to_bytes(_SIZE_BYTES, "big") + frame
        if self._writer is None:
            self._unsent.append(data)
        else:
            self._writer.write(data)

    def close(self) -> None:
        """The client has gone."""
        self._task.cancel()

    async def _run(self) -> None:
        host, port = self._address
        why = f"{host}:{port} has closed the connection"
        try:
            reader, self._writer = await asyncio.open_connection(host, port)
            self._writer.writelines(self._unsent)
            while True:
                size = int.from_bytes(await reader.readexactly(_SIZE_BYTES), "big")
                self._turns.run(partial(self._answered, await reader.readexactly(size)))
        except asyncio.IncompleteReadError:
            pass
        except OSError as error:
            why = f"{host}:{port}: {error.strerror or error}"
        finally:
            if self._writer is not None:
                self._writer.close()
        self._turns.run(partial(self._lost, why))

    def _answered(self, frame: bytes) -> None:
        if self._waiting:
            self._waiting.popleft().complete(frame)

    def _lost(self, why: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        for future in waiting:
            future.fail(FrameError(why))
        self._on_lost(why)
