"""What this node asks of other brokers in batches.

Rule: one request is open to a broker at a time, and the next one carries all that has gathered meanwhile. Everything
that is wanted is told what has become of it exactly once; whether to try again is decided by whoever wants it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Generic, TypeVar

from pykafka_broker.broker.node import Node
from pykafka_broker.peers import LinkError, Versions
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.runtime import Message

W = TypeVar("W")  # one thing that is wanted


class _Line(Generic[W]):
    """What is for one broker."""

    __slots__ = ("sent", "waiting")

    def __init__(self) -> None:
        self.waiting: list[W] = []
        self.sent: list[W] = []


class Gathering(ABC, Generic[W]):
    """Requests of one kind. `versions` are those that can carry them."""

    client_id: str  # with the id of this node for %d
    versions: Versions | None = None

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lines: dict[int, _Line[W]] = {}

    @abstractmethod
    def _choose(self, waiting: list[W]) -> tuple[list[W], list[W]]:
        """What goes with the next request, and what stays for those after it."""

    @abstractmethod
    def _request(self, wanted: list[W]) -> Message:
        """What asks for it."""

    @abstractmethod
    def _tell(self, wanted: list[W], answer: Message | LinkError) -> None:
        """Tell everything of a request what has become of it."""

    def send(self, broker_id: int, wanted: W) -> None:
        """With the next request to that broker, which may be now."""
        line = self._lines.setdefault(broker_id, _Line())
        line.waiting.append(wanted)
        self._go_on(broker_id, line)

    def _wanted(self) -> Iterator[tuple[int, W]]:
        """All that has not been answered, and of whom it is wanted."""
        for broker_id, line in list(self._lines.items()):
            for wanted in (*line.sent, *line.waiting):
                yield broker_id, wanted

    def _go_on(self, broker_id: int, line: _Line[W]) -> None:
        if line.sent:
            return
        line.sent, line.waiting = self._choose(line.waiting)
        if not line.sent:
            self._lines.pop(broker_id, None)
            return
        node = self._node
        peer = node.neighbours.peer(broker_id, self.client_id % node.id)
        request, heard = self._request(line.sent), partial(self._heard, broker_id, line)
        try:
            if peer is None:
                raise LinkError(f"broker {broker_id} is not known")
            peer.send(request, heard, node.config.request_timeout_ms, versions=self.versions)
        except LinkError as error:
            heard(error)

    def _heard(self, broker_id: int, line: _Line[W], answer: Message | LinkError) -> None:
        wanted, line.sent = line.sent, []
        self._tell(wanted, answer)
        self._go_on(broker_id, line)


def told(code: int) -> ErrorCode:
    """What a broker says, which may be newer than this one."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
