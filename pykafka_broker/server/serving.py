"""A broker as a process: its start, its threads for what may block, its garbage collector, its end.

Rule: listeners are bound before the logs are read, so that a taken port is told at once and early clients wait in the
backlog. The last thing on the way out is the clean-shutdown marker, so that the marker is only there when everything
else is on disk. A broker whose log directories have all failed ends with exit code 1, so that its supervisor hears of
the failure.

A broker of a cluster lets clients in, and tells so, when the controller has unfenced it. The reason for which the
controller refuses this broker is the last line of the log, and the process ends. Before a shutdown the controller is
asked first.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka_broker import __version__
from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.setup import Setup
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.roles import roles_of
from pykafka_broker.log.filesystem import DisposableFiles, FileSystem, OsFileSystem
from pykafka_broker.log.jobs import Job, Submit
from pykafka_broker.protocol.runtime import new_uuid
from pykafka_broker.server import Announce
from pykafka_broker.server.event_loop import EventLoop, SystemClock, new_event_loop, seconds
from pykafka_broker.server.listeners import Listener, listeners_of
from pykafka_broker.server.server import Server
from pykafka_broker.server.signals import StopSignals

if TYPE_CHECKING:
    from pykafka_broker.broker.membership.lifecycle import BrokerStartup
    from pykafka_broker.server.link import LinkPeers


_LONG_S = 0.01


class Collector:
    """The garbage collector of a process holding many partitions, watched between `start` and `stop`.

    Rule: no collection holds up everybody for long. A full one looks at all living objects, which with thousands of
    loaded logs takes a tenth of a second or more, and comes again whenever new objects are a quarter of them. So
    objects that survive a long collection are not looked at again. They still go with their last reference, as all
    long-lived objects here do; only cycles alive at that moment would stay, a few requests each time so much has been
    loaded.
    """

    def __init__(self, now: Callable[[], float], freeze: Callable[[], None]) -> None:
        self._now = now
        self._freeze = freeze
        self._begun = 0.0

    def start(self) -> None:
        self._freeze()  # objects of the start live as long as the process
        gc.callbacks.append(self.on_collection)

    def stop(self) -> None:
        with contextlib.suppress(ValueError):  # never started
            gc.callbacks.remove(self.on_collection)

    def on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._begun = self._now()
        elif self._now() - self._begun >= _LONG_S:
            self._freeze()


log = logging.getLogger(__name__)


class JobRunner:
    """Threads for blocking jobs: syncs, removals, recovery, cleaning.

    Rule: a job runs in a thread and its outcome is applied on the loop, in a call of `in_turn`, so that everything else
    stays single-threaded. The threads are made with the first jobs, and `drain` waits for the last one. A hand-over
    between threads costs more than most jobs, and each takes the interpreter away from the loop: so the jobs of one
    turn are handed over at its end, a thread takes jobs until there are none, and jobs that end while the loop is busy
    are applied in one go.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, threads: int, in_turn: Callable[[Callable[[], None]], None]
    ) -> None:
        self._loop = loop
        self._in_turn = in_turn
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="disk")
        self._resting = threads  # threads that look for no jobs
        self._rested: deque[None] = deque()  # one entry for each thread that has just found no job
        self._left = 0  # jobs not applied yet
        self._none_left = asyncio.Event()
        self._waiting: deque[Job] = deque()
        self._done: deque[tuple[Job, Exception | None]] = deque()
        self._handing_over = False  # the loop will wake threads
        self._called = False  # the loop will apply finished jobs

    def submit(self, job: Job) -> None:
        self._left += 1
        self._waiting.append(job)
        if not self._handing_over:
            self._handing_over = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._handing_over = False
        while self._rested:
            self._rested.pop()
            self._resting += 1
        for _ in range(min(self._resting, len(self._waiting))):
            self._resting -= 1
            self._executor.submit(self._work)

    def _work(self) -> None:
        """Run jobs, in a thread, until the queue is empty."""
        while True:
            try:
                job = self._waiting.popleft()
            except IndexError:
                break
            error: Exception | None = None
            try:
                job.run()
            except Exception as raised:
                error = raised
            self._done.append((job, error))
            if not self._called:
                self._called = True
                self._loop.call_soon_threadsafe(self._finish)
        self._rested.append(None)
        if self._waiting:  # submitted while this thread still seemed to look for jobs
            self._loop.call_soon_threadsafe(self._hand_over)

    def _finish(self) -> None:
        self._called = False  # before the first look: a job that ends from now on calls again, or is seen here
        self._in_turn(self._apply)

    def _apply(self) -> None:
        while self._done:
            job, error = self._done.popleft()
            self._left -= 1
            try:
                _conclude(job, error)
            except Exception:
                log.exception("a defect in %s", type(job).__name__)
        if not self._left:
            self._none_left.set()

    @property
    def is_idle(self) -> bool:
        return not self._left

    async def all_done(self) -> None:
        """Wait until every job was applied, later jobs included."""
        while self._left:
            self._none_left.clear()
            await self._none_left.wait()

    async def drain(self) -> None:
        """Wait until every job was applied, and end the threads."""
        await self.all_done()
        self._executor.shutdown()


def _conclude(job: Job, error: Exception | None) -> None:
    if error is None:
        job.apply()
    elif isinstance(error, OSError):
        job.failed(error)
    else:
        log.error("a defect in %s", type(job).__name__, exc_info=error)
        job.failed(OSError(f"{type(error).__name__}: {error}"))


class Unfenced:
    """The start and end of one broker of several.

    `stopped` is set when the process is to end; `attend` is called before clients are let in.
    """

    def __init__(
        self, startup: BrokerStartup, server: Server, stopped: asyncio.Event, attend: Callable[[], object]
    ) -> None:
        self.is_refused = False
        self._server = server
        self._stopped = stopped
        self._attend = attend
        self._settled = asyncio.Event()  # the broker is unfenced, or never will be
        startup.on_unfenced = self._let_in
        startup.on_refused = self._refuse

    def _let_in(self) -> None:
        self._attend()
        self._server.accept()
        self._settled.set()

    def _refuse(self, why: str) -> None:
        if not self.is_refused:
            log.critical("%s: the broker ends", why)
        self.is_refused = True
        self._stopped.set()

    async def wait(self) -> None:
        """Wait until the controller sends clients here, or the process is to end."""
        self._server.begin()
        waits = [asyncio.ensure_future(event.wait()) for event in (self._settled, self._stopped)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    async def leave(self) -> None:
        """Wait until the controller allows the shutdown."""
        if not self.is_refused:
            left = asyncio.Event()
            self._server.turns.run(lambda: self._server.broker.leave(left.set))
            await left.wait()


class BrokerShare(NamedTuple):
    """A broker's part of the process: access to the files, and to the threads for the jobs."""

    files: FileSystem
    submit: Submit


class Running(NamedTuple):
    """The parts of a process serving."""

    server: Server
    turns: EventLoop
    clock: SystemClock
    jobs: JobRunner
    listeners: list[Listener]
    peers: LinkPeers | None  # a node alone has none
    new_broker: Callable[[Setup, BrokerShare | None], Broker]  # with the settings of the first broker; not started


class ProcessExtension:
    """A further service of the process, on the same loop, after another one if there is one; by itself, no service."""

    def __init__(self, other: ProcessExtension | None = None) -> None:
        self._other = other

    def new_clock(self) -> SystemClock:
        """Return the clock for the broker."""
        return SystemClock() if self._other is None else self._other.new_clock()

    def share(self, submit: Submit) -> BrokerShare:
        """Return the first broker's part of the process; the jobs go to `submit`."""
        return BrokerShare(OsFileSystem(), submit) if self._other is None else self._other.share(submit)

    def attend(self, running: Running) -> None:
        """Begin to see requests, in the turn that lets the first client in."""
        if self._other is not None:
            self._other.attend(running)

    async def open(self, running: Running) -> None:
        """Open, before clients are told to connect. Raises OSError."""
        if self._other is not None:
            await self._other.open(running)

    async def close(self) -> None:
        """Close, before the broker stops."""
        if self._other is not None:
            await self._other.close()


class TemporaryData(ProcessExtension):
    """The extension of a process whose data end with the process: nothing is synced."""

    def share(self, submit: Submit) -> BrokerShare:
        files = DisposableFiles()
        files.hasty = True
        return BrokerShare(files, submit)


def run_process(
    config: BrokerConfig, on_ready: Announce, signals: StopSignals, setup: Setup, beside: ProcessExtension | None
) -> int:
    """Do the work of `pykafka_broker.server.run`."""
    loop = new_event_loop()
    collector = Collector(seconds, gc.freeze) if hasattr(gc, "freeze") else None  # PyPy's needs no help
    useless = False
    try:
        if not signals.asked:
            useless = loop.run_until_complete(
                serve(config, loop, on_ready, signals, setup, beside or ProcessExtension(), collector)
            )
    finally:
        signals.ignore()
        loop.close()
    return int(useless)


class Ending(Protocol):
    """An outer authority that ends the broker: signals, or a caller in the process."""

    def hand_to(self, stop: Callable[[], object]) -> None:
        """Call `stop`, from any thread, when the broker is to end; at once if that was asked before."""


async def serve(
    config: BrokerConfig,
    loop: asyncio.AbstractEventLoop,
    on_ready: Announce,
    ending: Ending,
    setup: Setup,
    beside: ProcessExtension,
    collector: Collector | None,
) -> bool:
    """Serve until the end; return whether the last log directory has failed.

    collector: None leaves the garbage collector to the process.
    """
    listeners = listeners_of(config)
    clock = beside.new_clock()
    turns = EventLoop(loop, clock)
    jobs = JobRunner(loop, config.background_threads, turns.run)
    stopped, useless, is_starting = asyncio.Event(), False, True
    waiting = None
    peers = peers_of(turns, config)

    def give_up() -> None:
        nonlocal useless
        if is_starting:
            return  # the start fails, and says why
        log.critical("all log directories have failed: the broker ends")
        useless = True
        stopped.set()

    def new_broker(setup: Setup, share: BrokerShare | None) -> Broker:
        broker = Broker(
            config,
            clock=turns.clock,
            new_uuid=new_uuid,
            new_session_id=lambda: random.randint(1, 0x7FFFFFFF),
            submit=jobs.submit if share is None else share.submit,
            thread_pool=ThreadPoolExecutor,
            fs=None if share is None else share.files,
            setup=setup,
            later=turns.call_soon,
            peers=peers,
        )
        broker.on_useless = give_up
        return broker

    broker = new_broker(setup, beside.share(jobs.submit))
    server = Server(broker, turns)
    running = Running(server, turns, clock, jobs, listeners, peers, new_broker)
    server.listen(listeners)
    ending.hand_to(lambda: loop.call_soon_threadsafe(stopped.set))
    try:
        turns.clock.tick()
        start_broker(broker, listeners)
        is_starting = False
        if collector is not None:
            collector.start()
        log.info(
            "version %s, node %d, cluster %s, data in %s",
            __version__,
            broker.node.id,
            broker.node.cluster_id,
            ", ".join(config.data_dirs),
        )
        if broker.startup is None:
            beside.attend(running)
            server.start()
        else:
            waiting = Unfenced(broker.startup, server, stopped, partial(beside.attend, running))
            await waiting.wait()
        await beside.open(running)
        if not stopped.is_set():
            on_ready([(listener.host, listener.port) for listener in announced(listeners)])
        await stopped.wait()
        log.info("stopping")
        clock.release()  # the controller is asked again after a while, which would not pass
        server.release_timer()
        if waiting is not None and not server.killed:
            await waiting.leave()
    finally:
        await beside.close()
        if collector is not None:
            collector.stop()
        await server.stop()
        server.broker.stop_jobs()
        await jobs.drain()
        turns.clock.tick()
        if not server.killed:
            server.broker.stop()
        turns.close()
    return useless or (waiting is not None and waiting.is_refused)


def peers_of(turns: EventLoop, config: BrokerConfig) -> LinkPeers | None:
    """Return the way to other nodes; None for a node alone. Raises ConfigError if this node could not log in there."""
    if roles_of(config).alone:
        return None
    from pykafka_broker.server.link import LinkPeers  # no other start waits for it

    peers = LinkPeers(turns, config)
    peers.check()
    return peers


def start_broker(broker: Broker, listeners: list[Listener]) -> None:
    broker.start(
        {each.name: each for each in listeners if not each.for_controllers},
        [each for each in listeners if each.for_controllers],
    )


def announced(listeners: list[Listener]) -> list[Listener]:
    """Return the listeners for clients, or else for tools."""
    return [each for each in listeners if not each.for_controllers] or listeners
