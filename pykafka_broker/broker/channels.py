"""The channels of a node to the other brokers, and requests that are gathered for them.

Rule: each channel serves one purpose, and its requests are answered in their order. A broker is found where the
metadata says that the broker listens for brokers (`inter.broker.listener.name`), in its newest registration. A sender
asks for the channel whenever there is something to send, since a broker that has moved or come back is another `Peer`.
Of a `RequestBatcher` one request is open to a broker at a time, and the next one carries all items that have come
meanwhile. Each item hears its outcome exactly once; whether to try again is decided by its sender. What was given up
before it has left never leaves: a broker that is reached again much later would take it for news.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from pykafka_broker.peers import Address, LinkError, Peer, Versions, deliver
from pykafka_broker.protocol.runtime import Message

if TYPE_CHECKING:
    from pykafka_broker.broker.node import ServerNode
    from pykafka_broker.config import BrokerConfig

_Found = tuple[Address, int]  # with the epoch of the registration


class BrokerChannels:
    """The channels of a node, each for one purpose: requests are answered in their order."""

    def __init__(self, node: ServerNode) -> None:
        self._node = node
        self._open: dict[tuple[int, str], tuple[_Found, Peer]] = {}  # by broker and client id

    def peer(self, broker_id: int, client_id: str) -> Peer | None:
        """Return the channel to a broker for the purpose in `client_id`; None without an address."""
        key, found = (broker_id, client_id), self._find(broker_id)
        known = self._open.get(key)
        if known is not None:
            if known[0] == found:
                return known[1]
            self._open.pop(key)[1].close()
        if found is None or self._node.peers is None:
            return None
        peer = self._node.peers.open(found[0], client_id)
        self._open[key] = found, peer
        return peer

    def _find(self, broker_id: int) -> _Found | None:
        broker, wanted = self._node.image.brokers.get(broker_id), inter_broker_listener(self._node.config)
        if broker is not None:
            for name, host, port, _ in broker.endpoints:
                if name == wanted:
                    return Address(host, port, name), broker.epoch
        return None


def inter_broker_listener(config: BrokerConfig) -> str:
    """Return the name of the listener where brokers talk to each other."""
    return (config.inter_broker_listener_name or config.security_inter_broker_protocol).upper()


W = TypeVar("W")  # an item of a request


class _Queue(Generic[W]):
    """The items for a broker: in the open request, and after the open request."""

    __slots__ = ("open", "sent", "waiting")

    def __init__(self) -> None:
        self.waiting: list[W] = []
        self.sent: list[W] = []
        self.open: tuple[Peer, Message] | None = None  # the open request, and the peer that has it


class RequestBatcher(ABC, Generic[W]):
    """Requests of a kind to all brokers, one open to each (Kafka: InterBrokerSendThread).

    client_id: of the requests, with the id of this node for %d.
    versions: of the API that can carry the requests; None for all.
    """

    client_id: str
    versions: Versions | None = None

    def __init__(self, node: ServerNode) -> None:
        self._node = node
        self._queues: dict[int, _Queue[W]] = {}
        self._retries: list[tuple[int, Callable[[], None]]] = []

    @abstractmethod
    def _choose(self, waiting: list[W]) -> tuple[list[W], list[W]]:
        """Return the items of the next request, and the items for later requests."""

    @abstractmethod
    def _request(self, wanted: list[W]) -> Message:
        """Return the request for the items."""

    @abstractmethod
    def _complete(self, wanted: list[W], answer: Message | LinkError) -> None:
        """Give each item of a request an outcome; an item that has its outcome keeps it."""

    def send(self, broker_id: int, wanted: W) -> None:
        """Send an item with the next request to the broker, which may be now."""
        queue = self._queues.setdefault(broker_id, _Queue())
        queue.waiting.append(wanted)
        self._send_next(broker_id, queue)

    def _unanswered(self) -> Iterator[tuple[int, W]]:
        """Yield the items without an answer, each with the broker of the request."""
        for broker_id, queue in list(self._queues.items()):
            for wanted in (*queue.sent, *queue.waiting):
                yield broker_id, wanted

    def forget_moved(self) -> None:
        """End the requests to brokers that are not the leader or coordinator any more."""
        former = [broker_id for broker_id, wanted in self._unanswered() if self._end_moved(broker_id, wanted)]
        self._choose_anew(dict.fromkeys(former))

    def _end_moved(self, broker_id: int, wanted: W) -> bool:
        """End an item that another broker has to answer by now; return whether there was something to end."""
        return False

    def _leads(self, broker_id: int, partition: tuple[str, int]) -> bool:
        state = self._node.image.partition(*partition)
        return state is not None and state.leader == broker_id

    def _choose_anew(self, broker_ids: Iterable[int]) -> None:
        """Take back the requests to these brokers that have not left, and choose once more what they hold."""
        for broker_id in broker_ids:
            queue = self._queues.get(broker_id)
            if queue is not None and queue.open is not None and queue.open[0].withdraw(queue.open[1]):
                queue.waiting[:0], queue.sent, queue.open = queue.sent, [], None
                self._send_next(broker_id, queue)

    def _send_next(self, broker_id: int, queue: _Queue[W]) -> None:
        if queue.sent:
            return
        queue.sent, queue.waiting = self._choose(queue.waiting)
        if not queue.sent:
            self._queues.pop(broker_id, None)
            return
        node = self._node
        peer = node.broker_channels.peer(broker_id, self.client_id % node.id)
        request, on_answer = self._request(queue.sent), partial(self._on_answer, broker_id, queue)
        try:
            if peer is None:
                raise LinkError(f"broker {broker_id} is not known")
            peer.send(request, on_answer, node.config.request_timeout_ms, versions=self.versions)
            queue.open = peer, request
        except LinkError as error:
            on_answer(error)

    def retry(self, at: int, send_again: Callable[[], None]) -> None:
        """Call `send_again` at a time, in milliseconds of `Clock.now`."""
        self._retries.append((at, send_again))

    def next_deadline(self) -> int | None:
        return min(at for at, _ in self._retries) if self._retries else None

    def on_deadline(self, now: int) -> None:
        due = [send_again for at, send_again in self._retries if at <= now]
        self._retries = [each for each in self._retries if each[0] > now]
        for send_again in due:
            send_again()

    def _on_answer(self, broker_id: int, queue: _Queue[W], answer: Message | LinkError) -> None:
        wanted, queue.sent, queue.open = queue.sent, [], None
        deliver(partial(self._complete, wanted), answer)
        self._send_next(broker_id, queue)
