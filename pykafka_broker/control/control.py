"""Everything that operations may reach.

Rule: an operation asks Kafka's questions through `inside`; for things that no client can ask (time, state, faults) it
uses the parts named here. Every change is made in a turn (`in_turn`), so that waiting requests are answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.services import Services
from pykafka_broker.control.inside import CurrentClient, InProcessClient
from pykafka_broker.control.moving_time import MovableClock, MovingTime
from pykafka_broker.control.observed_router import BrokerKnows, TrafficObserver
from pykafka_broker.control.problems import Problem
from pykafka_broker.control.state import BrokerState, DataDirLease
from pykafka_broker.errors import ApiError
from pykafka_broker.server.serving import Running

R = TypeVar("R")
# The id and the kind of the schema that a value was written with, and the value as JSON; None where there is none.
Decode = Callable[[bytes, bytes | None], Awaitable[tuple[int, str, str] | None]]


class Control:
    """The broker of the process, for operations."""

    def __init__(self, running: Running, clock: MovableClock, tenure: DataDirLease) -> None:
        self.server = running.server
        self.turns = running.turns
        self.listeners = running.listeners
        self.peers = running.peers
        self.time = MovingTime(running, clock)
        self.state = BrokerState(running, tenure)
        self.state.clearing["clock"] = self.time.reset
        self._inside = CurrentClient(running)
        self.turn_of_topic: dict[str, int] = {}  # the partition that the last record without a key went to
        self.state.always.append(self.turn_of_topic.clear)
        self.decode: Decode | None = None  # where there is a schema registry
        self.observing = TrafficObserver(running.server, BrokerKnows(running.server))
        self.state.clearing["faults"] = self.observing.faults.forget
        self.state.clearing["requests"] = self.observing.log.clear

    @property
    def broker(self) -> Broker:
        return self.server.broker

    @property
    def services(self) -> Services:
        return self.server.broker.services

    @property
    def inside(self) -> InProcessClient:
        """Return a client of the broker without a socket."""
        return self._inside.get()

    def in_turn(self, step: Callable[[], R]) -> R:
        """Run a step as a turn of the loop: at a new time, with waiting requests answered afterwards."""
        outcome: list[R] = []
        self.turns.run(lambda: outcome.append(step()))
        return outcome[0]

    async def until(self, holds: Callable[[], R | None], timeout_s: float) -> R | None:
        """Return the first result of `holds` other than None, asked after every turn; None when the time is over.

        Raises what `holds` raises, also after a later turn: the leader may have moved meanwhile.
        """
        found = holds()
        if found is not None:
            return found
        waiting: asyncio.Future[R] = self.turns.loop.create_future()

        def look() -> None:
            if waiting.done():
                return
            try:
                if (now := holds()) is not None:
                    waiting.set_result(now)
            except (Problem, ApiError) as problem:
                waiting.set_exception(problem)

        self.turns.observers.append(look)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting
        except TimeoutError:
            return None
        finally:
            self.turns.observers.remove(look)
