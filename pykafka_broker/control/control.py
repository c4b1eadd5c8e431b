"""Everything within reach of operations; requests of Kafka's protocol from inside the process.

Rule: an operation asks Kafka's questions through `inside`. For time, state and faults, which no client can ask for, an
operation uses the parts of `Control`. Every change is made in a turn (`in_turn`), and waiting requests are answered.

A request from inside goes through the router: there is one way in, with the same checks. Such a request has all rights,
is not counted among the requests of clients, and meets no faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from pykafka_broker.broker.broker import Broker
from pykafka_broker.broker.requests.context import NO_CONNECTION, ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply, Router, served_versions
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.authorizer import INSIDE
from pykafka_broker.control.moving_time import MovableClock, MovingTime
from pykafka_broker.control.observed_router import BrokerKnows, TrafficObserver
from pykafka_broker.control.problems import Problem, problem_of
from pykafka_broker.control.state import BrokerState, DataDirLease
from pykafka_broker.control.traffic.exchange import Exchange, bytes_of
from pykafka_broker.control.traffic.request_log import RequestCounts
from pykafka_broker.errors import ApiError, FrameError
from pykafka_broker.peers import NotServed, Unsendable
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.enums import CoordinatorType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.runtime import Message, Pieces
from pykafka_broker.server.link_codec import decode_response, encode_request
from pykafka_broker.server.serving import Running

if TYPE_CHECKING:
    from pykafka_broker.control.history.noting import Histories

R = TypeVar("R")
# The id and the kind of the schema that a value was written with, and the value as JSON; None where there is none.
Decode = Callable[[bytes, bytes | None], Awaitable[tuple[int, str, str] | None]]
CLIENT_ID = "control"
_ATTEMPTS = 50
_PAUSE_S = 0.02
_EXCHANGES_AT_ONCE = 100
_OF_SESSIONS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})


class InProcessClient:
    """A client without a socket of the present broker of the process.

    Requests may have all of today's versions, even where a release is emulated.
    """

    def __init__(self, running: Running) -> None:
        first = running.listeners[0]
        self._running = running
        self._context = ConnectionContext(NO_CONNECTION, first.name, (first.host, first.port), ("control", 0), INSIDE)
        self._router = Router(running.server.broker.services)
        # Set by a history, which has these requests too.
        self.on_answer: Callable[[ConnectionContext, memoryview, Pieces], None] | None = None

    async def ask_coordinator(self, request: Message, version: int | None, group: str) -> Any:
        """Return the response to a request on a group.

        The coordinator is looked up first, as clients do: the look-up creates a missing `__consumer_offsets`.
        """
        await self.find_coordinator(group)
        return await self.ask(request, version)

    async def find_coordinator(self, key: str, *, is_group: bool = True) -> int:
        """Return the broker coordinating a group or a transactional id.

        Raises `Problem` if no coordinator is found within a second.
        """
        request = FindCoordinatorRequest(
            key_type=CoordinatorType.GROUP if is_group else CoordinatorType.TRANSACTION, coordinator_keys=[key]
        )
        found = (await self.ask(request)).coordinators[0]
        for _ in range(_ATTEMPTS):
            if found.error_code == ErrorCode.NONE:
                return int(found.node_id)
            await asyncio.sleep(_PAUSE_S)
            found = (await self.ask(request)).coordinators[0]
        what = "group" if is_group else "transactional id"
        raise problem_of(ApiError(ErrorCode(found.error_code), f"the coordinator of {what} {key}"))

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """Return the response to a request, by default in the highest version served.

        Raises `Problem` 503 where a client's connection would end without an answer, or where the broker was reset
        before it had one, and 400 for a name or a number that no request has room for.
        """
        spec = SPECS[request.API_KEY]
        if version is None:
            version = served_versions(ApiKey(spec.api_key))[1]
        try:
            asked = encode_request(request, version, 0, CLIENT_ID)
        except (NotServed, Unsendable) as error:
            raise Problem(400, str(error)) from None
        frame = memoryview(bytearray().join(asked))[4:]  # a log writes into it
        turns = self._running.turns
        answered: asyncio.Future[Pieces] = turns.loop.create_future()

        def serve() -> None:
            broker = self._running.server.broker
            self._router.serve(broker.services)  # a reset puts another broker there
            found = self._router.dispatch(self._context, frame)
            if not isinstance(found, PendingReply):
                answered.set_result(found or [])
                return
            pending = found

            def on_reply(_: object) -> None:
                if answered.done():
                    return
                try:
                    if pending.future.error is not None and self._running.server.broker is not broker:
                        raise FrameError("the broker was reset, or its state restored, before it had one")
                    answered.set_result(pending.pieces())
                except Exception as error:  # a defect too is told to the caller, who would wait for ever
                    answered.set_exception(error)

            pending.future.add_done_callback(on_reply)

        try:
            turns.run(serve)
            pieces = await answered
        except FrameError as error:
            raise Problem(503, f"{spec.name} has no answer: {error}") from error
        if not pieces:
            raise Problem(503, f"{spec.name} has no answer")
        if self.on_answer is not None:
            self.on_answer(self._context, frame, pieces)
        return decode_response(memoryview(b"".join(map(bytes_of, pieces)))[4:], spec, version)


async def in_pauses(items: Iterable[R], at_once: int) -> AsyncIterator[R]:
    """Yield items, with other requests served after each `at_once` of them."""
    for number, each in enumerate(items, 1):
        yield each
        if number % at_once == 0:
            await asyncio.sleep(0)


async def looked_at(exchanges: Iterable[Exchange], look: Callable[[Exchange], R]) -> AsyncIterator[R]:
    """Yield what `look` returns of each exchange, with other requests served in between.

    A long exchange, which may take a second to decode, is looked at in a thread; one of a session only decoded there,
    since no other thread may look at the sessions.
    """
    async for each in in_pauses(exchanges, _EXCHANGES_AT_ONCE):
        if not each.is_long:
            yield look(each)
        elif each.api_key in _OF_SESSIONS:
            await asyncio.to_thread(each.decode)
            yield look(each)
        else:
            yield await asyncio.to_thread(look, each)


class SchemaSubject(TypedDict):
    """A subject of the schema registry: its versions, its compatibility, and the schema of the latest version."""

    subject: str
    versions: list[int]
    compatibility: str
    schema_id: int
    schema_type: str
    text: str


class Control:
    """The broker of the process, for operations."""

    has_broker = True

    def __init__(self, running: Running, clock: MovableClock, lease: DataDirLease) -> None:
        self.server = running.server
        self.turns = running.turns
        self.listeners = running.listeners
        self.peers = running.peers
        self.time = MovingTime(running, clock)
        self.state = BrokerState(running, lease)
        self.state.clearing["clock"] = self.time.reset
        self.inside = InProcessClient(running)
        self.turn_of_topic: dict[str, int] = {}  # the partition that the last record without a key went to
        self.state.always.append(self.turn_of_topic.clear)
        self.decode: Decode | None = None  # where there is a schema registry
        self.subjects: Callable[[], list[SchemaSubject]] | None = None  # where the registry is in this process
        self.schema_registry_url: str | None = None  # of the same
        self.observing = TrafficObserver(running.server, BrokerKnows(running.server))
        self.state.clearing["faults"] = self.observing.faults.forget
        self.state.clearing["requests"] = self.observing.log.clear

    @cached_property
    def histories(self) -> Histories:
        """The history of clients' requests, and whether there is one."""
        from pykafka_broker.control.history.noting import Histories  # hardly any broker has one

        return Histories(self)

    @property
    def broker(self) -> Broker:
        return self.server.broker

    @property
    def services(self) -> Services:
        return self.server.broker.services

    async def counted(self) -> RequestCounts:
        """Return the sums of all requests. Clients are served while the log is counted for the first time."""
        counts = self.observing.counts
        while True:
            if counts.catch_up(_EXCHANGES_AT_ONCE):
                return counts
            if counts.uncounted[0].is_long:
                await asyncio.to_thread(counts.uncounted[0].decode)
            else:
                await asyncio.sleep(0)

    def in_turn(self, step: Callable[[], R]) -> R:
        """Run a step as a turn of the loop: at a new time, with waiting requests answered afterwards."""
        outcome: list[R] = []
        self.turns.run(lambda: outcome.append(step()))
        return outcome[0]

    async def until(self, holds: Callable[[], R | None], timeout_s: float) -> R | None:
        """Return the first result of `holds` other than None, asked after every turn; None when the time is over.

        An error of `holds` is raised, after a later turn too: the leader may have moved meanwhile. The error ends the
        wait alone, and never the turn.
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
            except Exception as error:
                waiting.set_exception(error)

        self.turns.observers.append(look)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting
        except TimeoutError:
            return None
        finally:
            self.turns.observers.remove(look)
