"""Requests of this node to other brokers that carry many items.

Rule: one request is open to a broker at a time, and the next one carries all items that have come meanwhile. Each item
is told its outcome exactly once; whether to try again is decided by its sender.
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

W = TypeVar("W")  # an item of a request


class _Queue(Generic[W]):
    """The items for one broker: in the open request, and after it."""

    __slots__ = ("sent", "waiting")

    def __init__(self) -> None:
        self.waiting: list[W] = []
        self.sent: list[W] = []


class RequestBatcher(ABC, Generic[W]):
    """Requests of one kind, to all brokers (Kafka: InterBrokerSendThread).

    client_id: of the requests, with the id of this node for %d.
    versions: of the API that can carry the requests; None for all.
    """

    client_id: str
    versions: Versions | None = None

    def __init__(self, node: Node) -> None:
        self._node = node
        self._queues: dict[int, _Queue[W]] = {}

    @abstractmethod
    def _choose(self, waiting: list[W]) -> tuple[list[W], list[W]]:
        """Return the items of the next request, and the items that wait for another one."""

    @abstractmethod
    def _request(self, wanted: list[W]) -> Message:
        """Return the request that carries these items."""

    @abstractmethod
    def _tell(self, wanted: list[W], answer: Message | LinkError) -> None:
        """Tell each item of a request its outcome."""

    def send(self, broker_id: int, wanted: W) -> None:
        """Send an item with the next request to the broker, which may be now."""
        queue = self._queues.setdefault(broker_id, _Queue())
        queue.waiting.append(wanted)
        self._go_on(broker_id, queue)

    def _wanted(self) -> Iterator[tuple[int, W]]:
        """Yield the items without an answer, each with the broker that is asked."""
        for broker_id, queue in list(self._queues.items()):
            for wanted in (*queue.sent, *queue.waiting):
                yield broker_id, wanted

    def _go_on(self, broker_id: int, queue: _Queue[W]) -> None:
        if queue.sent:
            return
        queue.sent, queue.waiting = self._choose(queue.waiting)
        if not queue.sent:
            self._queues.pop(broker_id, None)
            return
        node = self._node
        peer = node.neighbours.peer(broker_id, self.client_id % node.id)
        request, heard = self._request(queue.sent), partial(self._heard, broker_id, queue)
        try:
            if peer is None:
                raise LinkError(f"broker {broker_id} is not known")
            peer.send(request, heard, node.config.request_timeout_ms, versions=self.versions)
        except LinkError as error:
            heard(error)

    def _heard(self, broker_id: int, queue: _Queue[W], answer: Message | LinkError) -> None:
        wanted, queue.sent = queue.sent, []
        self._tell(wanted, answer)
        self._go_on(broker_id, queue)


def told(code: int) -> ErrorCode:
    """Return the error code of a broker, which may be of a newer release than this one."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
