"""One client that speaks raw requests and writes down every answer.

Rule: a scenario talks to a real Kafka over a socket or to our broker inside this process, and must not be able to tell.
What differs from run to run (producer ids, times, the prefix that keeps scenarios apart) is replaced by what it means
before an answer is written down.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable
from time import sleep, time
from typing import Any, Protocol

from pykafka_broker.protocol.api_keys import SPECS
from pykafka_broker.protocol.errors import ErrorCode

Partition = tuple[str, int]
Producer = tuple[int, int]  # producer id and epoch


class Wire(Protocol):
    """The connection to a broker under test."""

    def exchange(self, frame: bytes) -> bytes:
        """Send a request and return its response, both without length prefix."""

    @property
    def now(self) -> int:
        """Return the broker's time in epoch milliseconds, for the timestamps of records."""

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""

    def age(self, name: str, epoch: int, takeover: Callable[[], object]) -> None:
        """Bring the producer epoch of the transactional id to `epoch`."""


class SocketWire:
    """A connection to a broker on a local port, in real time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._answers = self._socket.makefile("rb")

    def exchange(self, frame: bytes) -> bytes:
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._answers.read(4))
        return self._answers.read(size)

    @property
    def now(self) -> int:
        return int(time() * 1000)

    def wait(self, milliseconds: int) -> None:
        sleep(milliseconds / 1000)

    def age(self, name: str, epoch: int, takeover: Callable[[], object]) -> None:
        for _ in range(epoch + 1):
            takeover()


def error_name(code: int) -> str:
    return ErrorCode(code).name


class Talk:
    """A client with a method for each request. It prefixes topics, groups and transactional ids with the scenario."""

    def __init__(self, wire: Wire, scenario: str) -> None:
        self._wire = wire
        self._prefix = f"{scenario}-"
        self._correlation = 0
        self._producer_ids: dict[int, str] = {}
        self._quiet = False
        self.lines: list[str] = []

    # -- plumbing ---------------------------------------------------------------------------------------------------

    def request(self, message: Any, version: int) -> Any:
        """Exchange one request; add no line to the recording."""
        spec = SPECS[message.API_KEY]
        self._correlation += 1
        header = struct.pack(">hhih4s", message.API_KEY, version, self._correlation, 4, b"talk")
        if spec.request_header_version(version) == 2:
            header += b"\x00"
        frame = self._wire.exchange(header + message.encode(version))
        at = 5 if spec.response_header_version(version) == 1 else 4
        return spec.response_class().decode(frame[at:], version)

    def name(self, name: str) -> str:
        return self._prefix + name if name else name

    def pid(self, producer_id: int) -> str:
        """Return the name of a producer id: P0, P1, ... in the order of first use."""
        if producer_id < 0:
            return str(producer_id)
        return self._producer_ids.setdefault(producer_id, f"P{len(self._producer_ids)}")

    def say(self, line: str) -> None:
        """Add a line to the recording; it must be the same in every run."""
        if not self._quiet:
            self.lines.append(line.replace(self._prefix, ""))

    def quietly(self, action: Any) -> Any:
        self._quiet = True
        try:
            return action()
        finally:
            self._quiet = False

    def wait(self, milliseconds: int) -> None:
        self._wire.wait(milliseconds)

    def _who(self, producer: tuple[int, int]) -> str:
        return f"{self.pid(producer[0])}/{producer[1]}"

    def _grouped(self, partitions: Iterable[Partition]) -> list[tuple[str, list[int]]]:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(self.name(topic), []).append(partition)
        return list(topics.items())
