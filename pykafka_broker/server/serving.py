"""One broker as one process.

Rule: listeners are bound before the logs are read, so that a taken port is told at once and early clients wait in the
backlog; the last thing on the way out is the clean-shutdown marker, so that it is only there when everything else is on
disk. A broker whose log directories have all failed ends, with exit code 1, so that whoever watches it hears of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykafka_broker import __version__
from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.setup import Setup
from pykafka_broker.config import BrokerConfig
from pykafka_broker.config.roles import roles_of
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.jobs import Submit
from pykafka_broker.server import Announce
from pykafka_broker.server.collector import Collector
from pykafka_broker.server.job_runner import JobRunner
from pykafka_broker.server.listeners import Listener, listeners_of
from pykafka_broker.server.readiness import new_event_loop
from pykafka_broker.server.server import Server
from pykafka_broker.server.signals import StopSignals
from pykafka_broker.server.system_clock import SystemClock
from pykafka_broker.server.turns import Turns

if TYPE_CHECKING:
    from pykafka_broker.server.link_peers import LinkPeers

log = logging.getLogger(__name__)


class Share(NamedTuple):
    """What one broker has of the process: the door to its files, and to the threads for its jobs."""

    files: FileSystem
    submit: Submit


class Running(NamedTuple):
    """The parts of a process that serves."""

    server: Server
    turns: Turns
    clock: SystemClock
    jobs: JobRunner
    listeners: list[Listener]
    peers: LinkPeers | None  # a node alone has none
    new_broker: Callable[[Setup, Share | None], Broker]  # with the settings of the first; not started


class Beside(Protocol):
    """What else the process serves, on the same loop."""

    def new_clock(self) -> SystemClock:
        """The clock that it wants the broker to have."""

    def share(self, submit: Submit) -> Share:
        """What it wants the first broker to have, where jobs go to `submit`."""

    async def open(self, running: Running) -> None:
        """Before clients are told that they may connect. Raises OSError."""

    async def close(self) -> None:
        """Before the broker stops."""


def run_process(
    config: BrokerConfig, on_ready: Announce, signals: StopSignals, setup: Setup, beside: Beside | None
) -> int:
    """What `pykafka_broker.server.run` does."""
    loop = new_event_loop()
    useless = False
    try:
        if not signals.asked:
            useless = loop.run_until_complete(_serve(config, loop, on_ready, signals, setup, beside))
    finally:
        signals.ignore()
        loop.close()
    return int(useless)


async def _serve(
    config: BrokerConfig,
    loop: asyncio.AbstractEventLoop,
    on_ready: Announce,
    signals: StopSignals,
    setup: Setup,
    beside: Beside | None,
) -> bool:
    """Until the end; whether that came since there is no log directory left."""
    listeners = listeners_of(config)
    clock = SystemClock() if beside is None else beside.new_clock()
    turns = Turns(loop, clock)
    jobs = JobRunner(loop, config.background_threads, turns.run)
    stopped, useless, is_starting = asyncio.Event(), False, True
    waiting = None
    collector = Collector()
    peers = peers_of(turns, config)

    def give_up() -> None:
        nonlocal useless
        if is_starting:
            return  # the start fails, and says why
        log.critical("all log directories have failed: the broker ends")
        useless = True
        stopped.set()

    def new_broker(setup: Setup, share: Share | None) -> Broker:
        broker = Broker(
            config,
            clock=turns.clock,
            new_uuid=new_uuid,
            new_session_id=lambda: random.randint(1, 0x7FFFFFFF),
            submit=jobs.submit if share is None else share.submit,
            thread_pool=ThreadPoolExecutor,
            fs=None if share is None else share.files,
            setup=setup,
            later=turns.soon,
            peers=peers,
        )
        broker.on_useless = give_up
        return broker

    broker = new_broker(setup, None if beside is None else beside.share(jobs.submit))
    server = Server(broker, turns)
    server.listen(listeners)
    signals.hand_to(lambda: loop.call_soon_threadsafe(stopped.set))
    try:
        turns.clock.tick()
        start_broker(broker, listeners)
        is_starting = False
        collector.start()
        log.info(
            "version %s, node %d, cluster %s, data in %s",
            __version__,
            broker.node.id,
            broker.node.cluster_id,
            ", ".join(config.data_dirs),
        )
        if broker.startup is None:
            server.start()
        else:
            from pykafka_broker.server.unfenced import Unfenced  # no other start waits for it

            waiting = Unfenced(broker.startup, server, stopped)
            await waiting.wait()
        if beside is not None:
            await beside.open(Running(server, turns, clock, jobs, listeners, peers, new_broker))
        if not stopped.is_set():
            on_ready([(listener.host, listener.port) for listener in told_of(listeners)])
        await stopped.wait()
        log.info("stopping")
        if waiting is not None:
            await waiting.leave()
    finally:
        if beside is not None:
            await beside.close()
        collector.stop()
        await server.stop()
        server.broker.stop_jobs()
        await jobs.drain()
        turns.clock.tick()
        server.broker.stop()
        turns.close()
    return useless or (waiting is not None and waiting.is_refused)


def peers_of(turns: Turns, config: BrokerConfig) -> LinkPeers | None:
    """The way to other nodes; None for a node alone. Raises ConfigError if this one could not log in there."""
    if roles_of(config).alone:
        return None
    from pykafka_broker.server.link_peers import LinkPeers  # no other start waits for it

    peers = LinkPeers(turns, config)
    peers.check()
    return peers


def start_broker(broker: Broker, listeners: list[Listener]) -> None:
    """On what these have bound."""
    broker.start(
        {each.name: each for each in listeners if not each.for_controllers},
        [each for each in listeners if each.for_controllers],
    )


def told_of(listeners: list[Listener]) -> list[Listener]:
    """Those that clients dial, or else tools."""
    return [each for each in listeners if not each.for_controllers] or listeners


def new_uuid() -> bytes:
    """A random id as Kafka draws them: none that is reserved, and none whose text form begins with a dash."""
    while True:
        drawn = uuid.uuid4().bytes
        if drawn[0] >> 2 != 0b111110:  # the base64 letter "-"
            return drawn
