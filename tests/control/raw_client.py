"""A client of single requests over a socket: it says only what a test tells it to, and nothing by itself."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from pykafka_broker.protocol.runtime import Message
from pykafka_broker.server.link_codec import decode_response, encode_request
from pykafka_broker.testing import KafkaBroker

_TIMEOUT_S = 30
_LOADING = {14, 15}  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE


class RawClient:
    """A client with one connection. `send` and `receive` are the two halves of `ask`."""

    def __init__(self, broker: KafkaBroker, client_id: str = "raw") -> None:
        self.socket = socket.create_connection((broker.host, broker.port), _TIMEOUT_S)
        self.client_id = client_id
        self._answers = self.socket.makefile("rb")
        self._ids = itertools.count()

    def send(self, request: Message, version: int) -> None:
        self._sent = SPECS[request.API_KEY], version
        self.socket.sendall(b"".join(encode_request(request, version, next(self._ids), self.client_id)))

    def receive(self) -> Any:
        size = int.from_bytes(self._answers.read(4), "big")
        return decode_response(memoryview(self._answers.read(size)), *self._sent)

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    def find_coordinator(self, key: str, key_type: int) -> None:
        """Ask until the coordinator is loaded. key_type: 0 for a group, 1 a transactional id, 2 a share partition."""
        find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        end = time.monotonic() + _TIMEOUT_S
        while (error := self.ask(find, 6).coordinators[0].error_code) in _LOADING:
            assert time.monotonic() < end, "its log is never read"
        assert error == 0

    @property
    def has_answer(self) -> bool:
        """Return whether bytes have arrived that the client has not received yet."""
        return bool(self._next_byte())

    @property
    def is_cut_off(self) -> bool:
        """Return whether the broker has closed the connection."""
        return self._next_byte() == b""

    def _next_byte(self) -> bytes | None:
        self.socket.setblocking(False)
        try:
            return self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None
        finally:
            self.socket.settimeout(_TIMEOUT_S)

    def close(self) -> None:
        self._answers.close()
        self.socket.close()


@contextmanager
def raw_client(broker: KafkaBroker, client_id: str = "raw") -> Iterator[RawClient]:
    client = RawClient(broker, client_id)
    try:
        yield client
    finally:
        client.close()
