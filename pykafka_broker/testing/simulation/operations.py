"""The control API of a simulated node, without a socket.

Rule: the operations are those of every broker, and a call is one of them, with the same answer or refusal. What belongs
to a process (its disk, the other nodes) is the simulation's. Apart from `broker`, since a simulation without such a
call must not import the control API: the module is imported with the first one.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from pykafka_broker.control.control import Control
from pykafka_broker.control.door import ControlDoor
from pykafka_broker.control.http import HttpAddress, Request
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.state import BrokerState, DataDirLease
from pykafka_broker.server.listeners import listeners_of
from pykafka_broker.server.serving import Running
from pykafka_broker.testing.async_client import AsyncControlClient
from pykafka_broker.testing.control_client import DEFAULT_TIMEOUT_S, read_answer, written_call

if TYPE_CHECKING:
    from pykafka_broker.testing.simulation.node import SimNode

_DISK = "/data"


class SimClock:
    """The clock of a node, as `MovingTime` moves it (`MovableClock`)."""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self.hold, self.release = node.hold, node.release

    @property
    def now(self) -> int:
        return self._node.clock.now

    @property
    def wall(self) -> int:
        return self._node.clock.wall

    @property
    def held(self) -> bool:
        return self._node.held

    def move(self, ms: int) -> None:
        self._node.clock.set(self.now + ms, self.wall + ms)

    def set_wall(self, wall: int) -> None:
        self._node.clock.wall = wall

    def system_wall(self) -> int:
        return self._node.timeline.now


class _Jobs:
    """The jobs of a node (`JobRunner`)."""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self.submit = node.submit

    @property
    def is_idle(self) -> bool:
        return self._node.is_idle

    async def all_done(self) -> None:
        done = asyncio.get_running_loop().create_future()
        observers = self._node.server.turns.observers

        def look() -> None:
            if self.is_idle and not done.done():
                done.set_result(None)

        observers.append(look)
        try:
            if not self.is_idle:
                await done
        finally:
            observers.remove(look)


class _State(BrokerState):
    """The state of a node, which is the cluster's to keep and to replace; its disk fills and fails."""

    def __init__(self, running: Running, tenure: DataDirLease, node: SimNode) -> None:
        super().__init__(running, tenure)
        self._node = node

    def pretend_full(self, full: bool) -> None:
        if full:
            self._node.break_disk(_DISK, errno.ENOSPC)
        else:
            self._node.mend_disks()

    def pretend_broken(self) -> None:
        self._node.break_disk(_DISK, errno.EIO)

    def reset(self, keep: Collection[str]) -> None:
        self._refuse()

    def names(self) -> list[str]:
        self._refuse()

    def _take(self, name: str, last: str | None = None) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise Problem(409, "the state of a simulated broker is its cluster's: cluster.reset(), cluster.snapshot(...)")


class SimControlClient(AsyncControlClient):
    """The control API of one process of a node."""

    def __init__(self, node: SimNode, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(f"http://{node.name}:0")
        node.server.turns.loop = loop
        self._node = node
        tenure = DataDirLease(node.submit)
        server: Any = node.server
        clock: Any = SimClock(node)
        jobs: Any = _Jobs(node)
        listeners = listeners_of(node.broker.config)
        running = Running(server, server.turns, clock, jobs, listeners, None, node.new_broker)
        self.operations = Control(running, clock, tenure)
        state = _State(running, tenure, node)
        state.clearing, state.always = self.operations.state.clearing, self.operations.state.always
        self.operations.state = state
        self._door = ControlDoor(self.operations, HttpAddress(node.name, 0, None))

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | str | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Any:
        """Call an operation, as `ControlClient.call`."""
        target, headers, data = written_call(path, body, query, None)
        self._node.set_clock()
        async with asyncio.timeout(timeout_s):
            response = await self._door.serve(Request(method, target, headers, data or b""))
            content = response.body
            if not isinstance(content, bytes):
                content = b"".join([piece async for piece in content])
        return read_answer(response.status, response.content_type.partition(";")[0], content)

    def leave(self) -> None:
        """Close the history, and leave its file to the next process."""
        if self.operations.histories.running:
            self.operations.histories.file.close()

    def end(self) -> None:
        """Forget the history."""
        self.operations.histories.stop()
