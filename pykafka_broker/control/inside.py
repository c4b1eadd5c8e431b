"""Requests of Kafka's protocol from inside the process.

Rule: an operation asks for topics, records and groups as a client would, through the router, so that there is one way
in and the same checks. These requests have all rights, are not counted among the requests of clients, and meet no
faults.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pykafka_broker.broker.requests.context import NO_CONNECTION, ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply, Router, served_versions
from pykafka_broker.broker.services import Services
from pykafka_broker.cluster.authorizer import INSIDE
from pykafka_broker.control.problems import Problem, problem_of
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.enums import CoordinatorType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.runtime import Message, Pieces
from pykafka_broker.server.connection import Dispatching
from pykafka_broker.server.event_loop import EventLoop
from pykafka_broker.server.link_codec import decode_response, encode_request
from pykafka_broker.server.serving import Running

CLIENT_ID = "control"
_ATTEMPTS = 50
_PAUSE_S = 0.02


class InProcessClient:
    """A client of the broker without a socket."""

    def __init__(self, router: Dispatching, turns: EventLoop, listener: str, address: tuple[str, int]) -> None:
        self._router = router
        self._turns = turns
        self._context = ConnectionContext(NO_CONNECTION, listener, address, ("control", 0), INSIDE)

    async def ask_coordinator(self, request: Message, version: int | None, group: str) -> Any:
        """Return the response to a request on a group.

        The coordinator is looked up first, as clients do: the look-up creates a missing `__consumer_offsets`.
        """
        await self.find_coordinator(group)
        return await self.ask(request, version)

    async def find_coordinator(self, key: str, *, is_group: bool = True) -> int:
        """Return the broker coordinating a group or a transactional id.

        Raises `Problem` where none can be named within a second.
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
        """Return the response to a request, by default in the highest version served."""
        spec = SPECS[request.API_KEY]
        if version is None:
            version = served_versions(ApiKey(spec.api_key))[1]
        frame = memoryview(bytearray().join(encode_request(request, version, 0, CLIENT_ID)))[4:]  # a log writes into it
        answered: asyncio.Future[Pieces] = self._turns.loop.create_future()

        def serve() -> None:
            found = self._router.dispatch(self._context, frame)
            if not isinstance(found, PendingReply):
                answered.set_result(found or [])
                return
            pending = found

            def on_reply(_: object) -> None:
                if not answered.done():
                    answered.set_result(pending.pieces())

            pending.future.add_done_callback(on_reply)

        self._turns.run(serve)
        pieces = await answered
        if not pieces:
            raise Problem(503, f"{spec.name} has no answer")
        return decode_response(memoryview(b"".join(map(_bytes_of, pieces)))[4:], spec, version)


class CurrentClient:
    """A client of the process's present broker; an emulated release is ignored."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._of: tuple[Services, InProcessClient] | None = None  # the broker that these belong to

    def get(self) -> InProcessClient:
        services = self._running.server.broker.services
        if self._of is None or self._of[0] is not services:
            first = self._running.listeners[0]
            client = InProcessClient(Router(services), self._running.turns, first.name, (first.host, first.port))
            self._of = services, client
        return self._of[1]


def _bytes_of(piece: Any) -> bytes:
    """Return a piece of an answer as bytes; slices of files are read."""
    return piece.read() if hasattr(piece, "fileno") else bytes(piece)
