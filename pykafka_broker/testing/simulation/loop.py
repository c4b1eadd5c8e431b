"""An event loop of asyncio in virtual time, with connections over the virtual network.

Rule: time passes only while no callback is ready, and then jumps to the next event of the timeline or timer of the
loop. While the loop runs, its thread sees the virtual time in `time.time` and `time.monotonic`, and the chance of the
simulation in `os.urandom`. Futures and tasks have hashes in the order of their making, so sets of them are walked in
the same order in every run. Work for threads is done at once. What would reach beyond the process is refused.

An imported client is changed while the loop runs, and is itself again afterwards. The changes concern only what the
loop can't reach: time read in C, hashes of addresses, counters of the process.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import random
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sized
from contextlib import ExitStack, contextmanager
from math import ceil
from typing import Any, TypeVar, cast
from unittest import mock

from pykafka_broker.testing.simulation.network import End, Network
from pykafka_broker.testing.simulation.shrinking import ShrunkRun, run_and_shrink
from pykafka_broker.testing.simulation.timeline import START_MS, Host, Timeline

T = TypeVar("T")
_TURNS_A_MS = 50  # time passes even for a client that asks again and again without a wait
_TICK_S = 1e-6  # timers due within it are due: sums of floats differ by less
DEFAULT_LIMIT_S = 3_600.0
APPLICATION = "app"  # the machine of all clients


class SimulationStalled(RuntimeError):
    """A simulation that can't go on: nothing is left to happen, or too much virtual time has passed."""


class _Numbered:
    """A hash that tells the order of making, as an address does not."""

    _number: int

    def __hash__(self) -> int:
        return self._number


class SimulatedFuture(_Numbered, asyncio.Future[Any]):
    def __init__(self, loop: SimulatedLoop) -> None:
        self._number = loop.next_number()
        super().__init__(loop=loop)


class SimulatedTask(_Numbered, asyncio.Task[Any]):
    def __init__(self, coroutine: Any, loop: SimulatedLoop, **options: Any) -> None:
        self._number = loop.next_number()
        super().__init__(coroutine, loop=loop, **options)


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop in virtual time, for `asyncio.Runner(loop_factory=SimulatedLoop)`.

    Args:
        limit_s: the virtual seconds after which a run that does not end is given up.
    """

    _ready: Sized  # asyncio's callbacks that are due, and its timers
    _scheduled: Sized

    def __init__(self, limit_s: float = DEFAULT_LIMIT_S) -> None:
        super().__init__()
        self.timeline = Timeline()
        self.random = random.Random(0)
        self.network = Network(self.timeline, self.random)
        self.application = Host(self.timeline, APPLICATION)
        self.network.hosts[APPLICATION] = self.application
        self.faults = ShrunkRun()
        self._limit_ms = START_MS + round(limit_s * 1000)
        self._numbers = itertools.count()
        self._turns = 0  # without a wait
        self._clients = ClientPatches()
        self._selector = _VirtualSelector(self)
        self._clock_resolution = _TICK_S
        self.set_task_factory(lambda loop, coroutine, **options: SimulatedTask(coroutine, self, **options))

    def next_number(self) -> int:
        """Return the number of the next future or task."""
        return next(self._numbers)

    # -- time

    def time(self) -> float:
        return (self.timeline.now - START_MS) / 1000

    def pass_time(self, timeout_s: float | None) -> None:
        """Let happen what is due next, until a callback is ready, and not later than after the time-out.

        What is due at one time happens together. Raises SimulationStalled.
        """
        timeline, timers = self.timeline, len(self._scheduled)
        until: int | None = None
        if timeout_s is not None:
            until = timeline.now + max(0, ceil((timeout_s - _TICK_S) * 1000))
            if until == timeline.now:
                self._turns += 1
                until += not self._turns % _TURNS_A_MS
        while True:
            due = timeline.next_due
            if until is not None and (due is None or due > until):
                due = until
            if due is None:
                raise SimulationStalled("the simulation stands still: every task waits, and nothing is left to happen")
            if due > self._limit_ms:
                raise SimulationStalled(
                    f"{(self._limit_ms - START_MS) / 1000:g} virtual seconds have passed without an end: "
                    "use SimulatedLoop(limit_s=...) for a longer run"
                )
            timeline.run(max(due, timeline.now))
            if len(self._ready) or due == until or len(self._scheduled) != timers:
                return

    def run_forever(self) -> None:
        with _virtual(self):
            self._clients.apply()
            try:
                super().run_forever()
            finally:
                self._clients.undo()

    # -- parts of a loop

    def create_future(self) -> asyncio.Future[Any]:
        return SimulatedFuture(self)

    def _process_events(self, events: object) -> None:
        """Do nothing: connections call the loop themselves."""

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """Do the work at once, in the loop's own thread."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there are no threads."""

    # -- connections

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        """Return the address of a simulated host, which is its name."""
        if host not in self.network.hosts:
            raise socket.gaierror(socket.EAI_NONAME, f"the simulated network has no host {host}")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, int(port)))]

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **options: Any
    ) -> tuple[SimulatedTransport, Any]:
        """Connect to a simulated broker."""
        if options.get("ssl") or options.get("sock") is not None:
            raise NotImplementedError("a simulated connection is plain: no TLS, and no socket of the test's")
        await self.getaddrinfo(host, port)
        self._clients.apply()  # imported since
        connected = self.create_future()

        def reached(end: End) -> None:
            if connected.done():
                end.close()
            else:
                connected.set_result(end)

        def failed(why: str) -> None:
            if not connected.done():
                connected.set_exception(ConnectionRefusedError(f"{host}:{port}: {why}"))

        dialling = self.network.dial(self.application, (host, int(port)), reached, failed)
        try:
            end = await connected
        except asyncio.CancelledError:
            dialling.cancel()
            raise
        protocol = protocol_factory()
        transport = SimulatedTransport(self, end, protocol, (host, int(port)))
        protocol.connection_made(transport)
        end.deliver_again()  # of an end that came first
        return transport, protocol


class _VirtualSelector:
    """The selector of a loop without descriptors: to wait is to let virtual time pass."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def select(self, timeout_s: float | None = None) -> list[object]:
        self._loop.pass_time(timeout_s)
        return []


class SimulatedTransport(asyncio.Transport):
    """A connection of a client to a simulated broker.

    The network carries whole frames, so bytes wait here until they are one.
    """

    def __init__(self, loop: SimulatedLoop, end: End, protocol: Any, peer: tuple[str, int]) -> None:
        super().__init__({"peername": peer, "sockname": (APPLICATION, 0)})
        self._loop = loop
        self._end = end
        self._protocol = protocol
        self._unsent = bytearray()
        self._unread = deque[bytes]()
        self._paused = False
        self._closing = False
        end.receiver = self

    # -- as the network calls it

    def on_frame(self, frame: bytes) -> None:
        self._unread.append(frame)
        self._loop.call_soon(self._receive)

    def _receive(self) -> None:
        """Hand on one frame; called once for each, and again after a pause."""
        if self._unread and not self._paused and not self._closing:
            self._protocol.data_received(self._unread.popleft())

    def on_end(self, why: str) -> None:
        self._loop.call_soon(self._lose, ConnectionResetError(why))

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._protocol.connection_lost(error)

    # -- as the client calls it

    def write(self, data: Any) -> None:
        if self._closing:
            return
        unsent = self._unsent
        unsent += data
        while len(unsent) >= 4 and len(unsent) >= (size := 4 + int.from_bytes(unsent[:4], "big")):
            self._end.send(bytes(unsent[:size]))
            del unsent[:size]

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._end.close()
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def is_reading(self) -> bool:
        return not self._paused

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        for _ in self._unread:
            self._loop.call_soon(self._receive)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the network takes everything at once."""

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False


# -- the process while a simulated loop runs


@contextmanager
def _virtual(loop: SimulatedLoop) -> Iterator[None]:
    """Give the thread of the loop the virtual time and the chance of the simulation; collect no garbage meanwhile."""
    timeline, here = loop.timeline, threading.get_ident()

    def instead(real: Callable[..., T], virtual: Callable[..., T]) -> Callable[..., T]:
        return lambda *args: virtual(*args) if threading.get_ident() == here else real(*args)

    virtual: list[tuple[Any, str, Callable[..., Any]]] = [
        (time, "time", lambda: timeline.now / 1000),
        (time, "time_ns", lambda: timeline.now * 1_000_000),
        (time, "monotonic", loop.time),
        (time, "monotonic_ns", lambda: (timeline.now - START_MS) * 1_000_000),
        (os, "urandom", lambda size: loop.random.randbytes(size)),
        (random, "_urandom", lambda size: loop.random.randbytes(size)),  # of the module secrets
    ]
    with ExitStack() as undone:
        if gc.isenabled():
            gc.disable()  # finalizers would run at times that no seed decides
            undone.callback(gc.enable)
        for owner, name, new in virtual:
            undone.enter_context(mock.patch.object(owner, name, instead(getattr(owner, name), new)))
        yield


def simulate(
    main: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]],
    *,
    limit_s: float = DEFAULT_LIMIT_S,
    shrink_runs: int = 0,
) -> T:
    """Run a coroutine on a `SimulatedLoop`, as `asyncio.run` runs one on a real loop.

    Args:
        main: a coroutine, or a function that makes it.
        limit_s: the virtual seconds after which a run that does not end is given up.
        shrink_runs: the most further runs for cutting a failure down to the faults of `SimulatedCluster.trouble` that
            are enough for it, which a note tells; `main` must be a function then.
    """

    def run(faults: ShrunkRun, coroutine: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=lambda: SimulatedLoop(limit_s)) as runner:
            cast(SimulatedLoop, runner.get_loop()).faults = faults
            return runner.run(coroutine)

    if not callable(main):
        if shrink_runs:
            main.close()
            raise TypeError("to run again, simulate needs a function: simulate(lambda: main(seed), shrink_runs=60)")
        return run(ShrunkRun(), main)
    if not shrink_runs:
        return run(ShrunkRun(), main())
    return run_and_shrink(lambda faults: run(faults, main()), shrink_runs)


# -- clients


class ClientPatches:
    """The changes to clients on one loop."""

    def __init__(self) -> None:
        self._changed: set[str] = set()  # names of modules
        self._undone = ExitStack()

    def apply(self) -> None:
        """Change the clients that have been imported by now."""
        for name, changes in _CLIENTS.items():
            if name in sys.modules and name not in self._changed:
                self._changed.add(name)
                for patch in changes(sys.modules[name]):
                    self._undone.enter_context(patch)

    def undo(self) -> None:
        """Change them back."""
        self._undone.close()
        self._changed.clear()


def _producer(module: Any) -> list[Any]:
    """Give names to producers from 1 on."""
    return [mock.patch.object(module.AIOKafkaProducer, "_PRODUCER_CLIENT_ID_SEQUENCE", 0)]


def _accumulator(module: Any) -> list[Any]:
    """Stamp records with the virtual time: the encoder reads the system's clock in C."""
    append = module.BatchBuilder.append

    def stamped(builder: Any, *, timestamp: int | None, **record: Any) -> Any:
        return append(builder, timestamp=time.time_ns() // 1_000_000 if timestamp is None else timestamp, **record)

    return [mock.patch.object(module.BatchBuilder, "append", stamped)]


def _cluster(module: Any) -> list[Any]:
    """Walk brokers in the order of the metadata: the hash of None is an address before Python 3.12."""

    def brokers(metadata: Any) -> Any:
        return dict.fromkeys(metadata._brokers.values() or metadata._bootstrap_brokers.values()).keys()

    return [mock.patch.object(module.ClusterMetadata, "brokers", brokers)]


def _client(module: Any) -> list[Any]:
    """Ask for the metadata of topics in the order of their names: text in a set has the order of PYTHONHASHSEED."""
    update = module.AIOKafkaClient._metadata_update

    def in_order(client: Any, cluster: Any, topics: Any) -> Any:
        return update(client, cluster, sorted(topics) if topics else topics)

    return [mock.patch.object(module.AIOKafkaClient, "_metadata_update", in_order)]


class _InOrder(frozenset[Any]):
    """A set that is walked in the order of its elements."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))


def _subscriptions(module: Any) -> list[Any]:
    """Walk topics and partitions of a consumer in the order of their names."""

    def sorted_in(owner: Any, name: str) -> Any:
        made = owner.__init__

        def with_order(self: Any, topics: Any, *rest: Any, **named: Any) -> None:
            made(self, topics, *rest, **named)
            setattr(self, name, _InOrder(getattr(self, name)))

        return mock.patch.object(owner, "__init__", with_order)

    return [sorted_in(module.Subscription, "_topics"), sorted_in(module.Assignment, "_topic_partitions")]


def _transactions(module: Any) -> list[Any]:
    """Add partitions to a transaction in the order of their names."""
    pending = module.TransactionManager.partitions_to_add
    return [mock.patch.object(module.TransactionManager, "partitions_to_add", lambda self: _InOrder(pending(self)))]


_CLIENTS: dict[str, Callable[[Any], list[Any]]] = {
    "aiokafka.producer.producer": _producer,
    "aiokafka.producer.message_accumulator": _accumulator,
    "aiokafka.cluster": _cluster,
    "aiokafka.client": _client,
    "aiokafka.producer.transaction_manager": _transactions,
    "aiokafka.consumer.subscription_state": _subscriptions,
}
