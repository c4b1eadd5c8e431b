"""A world that is a broker in this process, without sockets: its time stands still unless a scenario moves it.

Rule: requests go through the router as bytes, so that every codec version and the order of answers are the real ones.
"""

from __future__ import annotations

import itertools
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

from pykafka_broker.broker.requests.context import ConnectionContext
from pykafka_broker.broker.requests.router import PendingReply
from pykafka_broker.broker.setup import NO_SETUP, Setup
from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.listeners import Listener
from tests.broker.api.real_broker import RealBroker

LISTENER = Listener("PLAINTEXT", "127.0.0.1", 9092)  # the address that the broker advertises; no client connects to it


class LocalWorld(RealBroker):
    """One broker on one directory; `restart` makes a new one on the same files."""

    listeners = {"PLAINTEXT": LISTENER}

    def __init__(self, directory: Path, name: str, config: dict[str, str], setup: Setup = NO_SETUP) -> None:
        self.name = name
        self.setup = setup
        self._connections = itertools.count(1)
        super().__init__(directory, **config)

    def new_uuid(self) -> bytes:
        number = int.from_bytes(super().new_uuid(), "big")
        return (0x9E3779B97F4A7C15F39CC0605CEDC834 * number % (1 << 128)).to_bytes(16, "big")

    def connect(self, client_id: str) -> LocalWire:
        connection = ConnectionContext(next(self._connections), "PLAINTEXT", ("127.0.0.1", 9092), ("127.0.0.1", 50_000))
        return LocalWire(self, connection, client_id)

    def settle(self) -> None:
        """Do nothing: the group coordinator hears of a topic at once."""


class LocalWire:
    """A connection that serves one request after the other, as the server does: a waiting request holds up the next."""

    def __init__(self, world: LocalWorld, connection: ConnectionContext, client_id: str) -> None:
        self._world = world
        self._connection = connection
        self._client_id = client_id
        self._asked: deque[tuple[int, int]] = deque()
        self._unserved: deque[bytes] = deque()
        self._answers: deque[bytes] = deque()
        self._busy = False

    def send(self, request: Message, version: int) -> None:
        spec = SPECS[request.API_KEY]
        header = RequestHeader(spec.api_key, version, 7, self._client_id)
        self._asked.append((spec.api_key, version))
        self._unserved.append(header.encode(spec.request_header_version(version)) + request.encode(version))
        self._serve()

    def _serve(self) -> None:
        while self._unserved and not self._busy:
            now = self._world.now
            reply = self._world.broker.dispatch(self._connection, memoryview(bytearray(self._unserved.popleft())), now)
            if isinstance(reply, PendingReply):
                self._busy = True
                reply.future.add_done_callback(partial(self._answered, reply))
            elif reply is not None:
                self._take(reply)
            self._world.broker.settle(now)

    def _answered(self, pending: PendingReply, _: object) -> None:
        self._busy = False
        self._take(pending.pieces())
        self._serve()

    def _take(self, pieces: list[Any]) -> None:
        self._answers.append(b"".join(bytes(piece) for piece in pieces)[4:])

    def receive(self) -> Any:
        if not self._answers:
            raise AssertionError("the answer is still out")
        api_key, version = self._asked.popleft()
        spec = SPECS[api_key]
        frame = self._answers.popleft()
        _, at = ResponseHeader.read(frame, 0, spec.response_header_version(version))
        return spec.response_class().decode(memoryview(frame)[at:], version)

    def close(self) -> None:
        """The connection breaks."""
        self._world.broker.connection_closed(self._connection)
        self._world.broker.settle(self._world.now)

    def is_quiet(self) -> bool:
        return not self._answers
