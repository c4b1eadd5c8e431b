"""A world that is a running broker: real sockets, real time."""

from __future__ import annotations

import socket
import time
from multiprocessing.connection import wait
from typing import Any

from pykafka_broker.protocol.api_keys import SPECS, ApiKey
from pykafka_broker.protocol.messages.request_header import RequestHeader
from pykafka_broker.protocol.messages.response_header import ResponseHeader
from pykafka_broker.protocol.runtime import Message

QUIET_S = 0.3
# Requests on two connections may overtake each other: let one that may wait arrive before the next one is sent.
MAY_WAIT = {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
ARRIVAL_S = 0.05


class SocketWire:
    """One connection to a running broker."""

    def __init__(self, address: tuple[str, int], client_id: str) -> None:
        self._socket = socket.create_connection(address, 30)
        self._client_id = client_id
        self._waiting: list[tuple[int, int]] = []

    def send(self, request: Message, version: int) -> None:
        spec = SPECS[request.API_KEY]
        header = RequestHeader(spec.api_key, version, 7, self._client_id)
        frame = header.encode(spec.request_header_version(version)) + request.encode(version)
        self._waiting.append((spec.api_key, version))
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        if spec.api_key in MAY_WAIT:
            time.sleep(ARRIVAL_S)

    def receive(self) -> Any:
        api_key, version = self._waiting.pop(0)
        spec = SPECS[api_key]
        frame = self._exactly(int.from_bytes(self._exactly(4), "big"))
        _, at = ResponseHeader.read(frame, 0, spec.response_header_version(version))
        return spec.response_class().decode(memoryview(frame)[at:], version)

    def close(self) -> None:
        self._socket.close()

    def is_quiet(self) -> bool:
        return not wait([self._socket], QUIET_S)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(size)
            if not part:
                raise EOFError("the broker closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class SocketWorld:
    """A broker at an address."""

    def __init__(self, address: tuple[str, int], name: str) -> None:
        self.name = name
        self._address = address

    def connect(self, client_id: str) -> SocketWire:
        return SocketWire(self._address, client_id)

    def settle(self) -> None:
        time.sleep(0.5)

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)
