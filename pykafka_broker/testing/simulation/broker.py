"""A broker of a simulated cluster, as a test has it in hand.

Rule: it is an `AsyncKafkaBroker`, so a test of a cluster with processes reads the same. What happens at once by a plain
call (`kill`, `start`, `pause`, a disk that fails) may be awaited as well; the rest is awaited as ever. Apart from
`cluster`, as `asynchronous` and `asynchronous_cluster` are apart: together they would be 1,000 lines.

The operations of the control API are those of every broker, without a socket: a call has the same answer or refusal.
What belongs to a process (its disk, the other nodes) is the simulation's.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from pykafka_broker.control.control import Control
from pykafka_broker.control.door import ControlDoor
from pykafka_broker.control.http import HttpAddress, Request
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.state import BrokerState, DataDirLease
from pykafka_broker.server.listeners import listeners_of
from pykafka_broker.server.serving import Running
from pykafka_broker.testing.aio.controlled import AsyncControlled
from pykafka_broker.testing.async_client import AsyncControlClient
from pykafka_broker.testing.asynchronous import AsyncKafkaBroker
from pykafka_broker.testing.control_client import DEFAULT_TIMEOUT_S, read_answer, written_call
from pykafka_broker.testing.data import BrokerError
from pykafka_broker.testing.simulation.node import DATA, SimNode

_DISK = "/data"


# -- the control API


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

    def __init__(self, running: Running, lease: DataDirLease, node: SimNode) -> None:
        super().__init__(running, lease)
        self._node = node

    def fail_writes(self, number: int) -> None:
        if number:
            self._node.break_disk(_DISK, number)
        else:
            self._node.mend_disks()

    def reset(self, keep: Collection[str]) -> None:
        self._refuse()

    def names(self) -> list[str]:
        self._refuse()

    def snapshot(self, name: str) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise Problem(409, "the state of a simulated broker is its cluster's: cluster.reset(), cluster.snapshot(...)")


class SimControlClient(AsyncControlClient):
    """The control API of one process of a node."""

    def __init__(self, node: SimNode, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(f"http://{node.name}:0")
        node.server.turns.loop = loop
        self._node = node
        lease = DataDirLease(node.submit)
        server: Any = node.server
        clock: Any = SimClock(node)
        jobs: Any = _Jobs(node)
        listeners = listeners_of(node.broker.config)
        running = Running(server, server.turns, clock, jobs, listeners, None, node.new_broker)
        self.operations = Control(running, clock, lease)
        state = _State(running, lease, node)
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


# -- the broker


_LOOK_S = 0.02
_LONG_S = 60.0
CLIENTS, CONTROLLERS, INNER = 9092, 9093, 9094  # ports


class Begun:
    """Something that has begun by a plain call; awaited, until `is_over` says so."""

    def __init__(self, told: str, is_over: Callable[[], object]) -> None:
        self._complaint = told
        self._is_over = is_over

    def __await__(self) -> Generator[Any, Any, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        for _ in range(round(_LONG_S / _LOOK_S)):
            if self._is_over():
                return
            await asyncio.sleep(_LOOK_S)
        raise BrokerError(f"after {_LONG_S:g} virtual seconds {self._complaint}")


def _at_once() -> Begun:
    return Begun("", lambda: True)


class SimulatedBroker(AsyncKafkaBroker):
    """A broker, or the controller, of a `SimulatedCluster`: an `AsyncKafkaBroker` without a process.

    What acts at once may be awaited as well, for the end of it. serves: tells whether clients may connect.
    """

    def __init__(
        self,
        node: SimNode,
        loop: asyncio.AbstractEventLoop,
        serves: Callable[[SimulatedBroker], object],
        history_path: Path | None,
    ) -> None:
        self.node = node
        self.id = node.id
        self._loop = loop
        self._serves = serves
        self._history_path = history_path
        self._control: SimControlClient | None = None
        self._of_life = 0
        if history_path is not None:
            node.on_open = lambda node: self._open_history(history_path)

    def __repr__(self) -> str:
        return f"<SimulatedBroker {self.id}, {'running' if self.running else 'not running'}>"

    def _open_history(self, path: Path) -> None:
        operations = self._opened().operations
        operations.histories.start(str(path), whole=not operations.services.image.topics)

    # -- looking

    @property
    def control(self) -> AsyncControlClient:
        """The control API. Raises BrokerError while the broker is not running."""
        self._check_running()
        return self._opened()

    def _check_running(self) -> None:
        if not self.running:
            raise BrokerError(f"broker {self.id} is not running")

    def _opened(self) -> SimControlClient:
        if self._control is None or self._of_life != self.node.life:
            if self._control is not None:
                self._control.leave()
            self._control, self._of_life = SimControlClient(self.node, self._loop), self.node.life
        return self._control

    @property
    def running(self) -> bool:
        """Whether the process is running; a paused one is."""
        return self.node.running

    @property
    def paused(self) -> bool:
        """Whether the process hangs."""
        return self.node.paused

    @property
    def host(self) -> str:
        return self.node.name

    @property
    def port(self) -> int:
        return CLIENTS if self.node.is_broker else CONTROLLERS

    @property
    def bootstrap_servers(self) -> str:
        """The address for a client's `bootstrap.servers`."""
        return f"{self.host}:{self.port}"

    @property
    def config(self) -> dict[str, str]:
        return dict(self.node.settings)

    @property
    def history_path(self) -> Path | None:
        return self._history_path

    @property
    def data_dir(self) -> Path:
        """The directory on the machine's disk, which is in memory."""
        return Path(self.node.directories[0])

    @property
    def schema_registry_url(self) -> str:
        raise BrokerError("there is no schema registry in a simulation")

    @property
    def pid(self) -> int:
        raise BrokerError("a simulated broker has no process")

    @property
    def log_size(self) -> int:
        return 0

    def log_since(self, size: int) -> str:
        """Return nothing: what simulated brokers log goes to Python's logging, as of any library."""
        return ""

    @property
    def log(self) -> str:
        return self.log_since(0)

    start_recording = AsyncControlled.start_recording
    save_recording = AsyncControlled.save_recording

    # -- life

    def start(self) -> Begun:  # type: ignore[override]
        """Start a new process on the same disk; awaited, until clients may connect."""
        if self.running:
            raise BrokerError(f"broker {self.id} is already running")
        self.node.start()
        return Begun(f"broker {self.id} does not serve", lambda: self._serves(self))

    def stop(self, timeout: float = _LONG_S) -> Begun:  # type: ignore[override]
        """End as with SIGTERM, once others lead; awaited, until the process has ended."""
        if self.running and not self.node.leaving:
            self.node.stop()
        return Begun(f"broker {self.id} has not ended", lambda: not self.running)

    def kill(self) -> Begun:  # type: ignore[override]
        """End as with SIGKILL: the system keeps everything that was written."""
        if self.running:
            self.node.kill()
        return _at_once()

    def cut_power(self) -> Begun:
        """Cut the power: what was not synced is lost, torn or there, by the seed, and nobody is told."""
        self.node.cut_power()
        return _at_once()

    async def restart(self) -> None:
        """Stop and start the broker on the same disk."""
        await self.stop()
        await self.start()

    def pause(self) -> Begun:  # type: ignore[override]
        """Let the process hang, until `unpause`. Raises BrokerError without a process, as the next one would hang."""
        self._check_running()
        self.node.pause()
        return _at_once()

    def unpause(self) -> Begun:  # type: ignore[override]
        """End a pause: everything that has come meanwhile is there at once."""
        if self.paused:
            self.node.go_on()
        return _at_once()

    go_on = unpause

    def drift(self, rate: float) -> None:
        """Let the clock go by another rate: its milliseconds in one of the cluster."""
        self.node.drift(rate)

    # -- the disk

    def break_disk(self, directory: str = DATA, error: int = errno.EIO) -> Begun:  # type: ignore[override]
        """Let the disk fail, until `mend_disks`; with `errno.ENOSPC` it is full. The next process has it back.

        Raises:
            ValueError: the broker has no such directory.
        """
        directories = self.node.directories
        if not any(each.startswith(directory) or directory.startswith(each) for each in directories):
            raise ValueError(f"there is no directory {directory}: there are {', '.join(directories)}")
        self.node.break_disk(directory, error)
        return _at_once()

    def fill_disk(self) -> Begun:  # type: ignore[override]
        """Refuse all writes, until `free_disk`."""
        return self.break_disk(DATA, errno.ENOSPC)

    def mend_disks(self) -> Begun:
        """Let the disk work again, for the next process: the present one has given it up."""
        self.node.mend_disks()
        return _at_once()

    free_disk = mend_disks  # type: ignore[assignment]

    # -- the network

    async def cut_off(self, nodes: Iterable[int]) -> None:
        """Break the connections to other nodes, until `rejoin`."""
        network = self.node.network
        for id in nodes:
            network.separate((self.node.name, f"n{id}"), (f"n{id}", self.node.name))

    async def rejoin(self) -> None:
        """Let the node reach all others again."""
        network, name = self.node.network, self.node.name
        network.reconnect(lambda source, target: name in (source, target))

    # -- what only a process has

    async def fork(self) -> NoReturn:  # type: ignore[override]
        """Refuse: a loop has one cluster. `cluster.snapshot` keeps the state, `cluster.restore` goes back to it."""
        raise BrokerError("a simulated broker can't be forked: use cluster.snapshot(...) and cluster.restore(...)")

    async def close(self) -> None:
        """End the broker."""
        self.kill()

    def end(self) -> None:
        """End with the cluster: nothing is left."""
        self.kill()
        if self._control is not None:
            self._control.end()
