"""Markers of transactions on their way to other brokers (WriteTxnMarkers).

Rule: one request is open to a broker at a time, and carries all that has gathered for it since the one before. Every
partition is answered once, with what its leader says or why that can't be heard; whether and where to try again is
decided by whoever has asked. Nobody waits for a broker that does not lead the partition any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from pykafka_broker.broker.node import Node
from pykafka_broker.coordinators.transactions import Markers, TopicPartition
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pykafka_broker.protocol.messages.write_txn_markers_response import WritableTxnMarkerResult, WriteTxnMarkersResponse
from pykafka_broker.protocol.runtime import Message

Answered = Callable[[TopicPartition, ErrorCode], None]


class Order:
    """The partitions of one transaction whose marker one broker is to write."""

    __slots__ = ("answered", "markers", "partitions")

    def __init__(self, markers: Markers, partitions: Iterable[TopicPartition], answered: Answered) -> None:
        self.markers = markers
        self.partitions = set(partitions)  # not answered yet
        self.answered = answered

    def drop(self) -> None:
        """Nobody wants to know any more; what has not left does not leave."""
        self.partitions.clear()

    def answer(self, partition: TopicPartition, code: ErrorCode) -> None:
        if partition in self.partitions:
            self.partitions.discard(partition)
            self.answered(partition, code)

    def fail(self, code: ErrorCode) -> None:
        for each in sorted(self.partitions):
            self.answer(each, code)


class _Line:
    """What is for one broker."""

    __slots__ = ("sent", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Order] = []
        self.sent: list[Order] = []


class MarkerSender:
    """All that this node's coordinators have for other brokers."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lines: dict[int, _Line] = {}

    @staticmethod
    def order(markers: Markers, partitions: Iterable[TopicPartition], answered: Answered) -> Order:
        """Something to send; `answered` hears of each partition."""
        return Order(markers, partitions, answered)

    def send(self, broker_id: int, order: Order) -> None:
        """With the next request to that broker, which may be now."""
        line = self._lines.setdefault(broker_id, _Line())
        line.waiting.append(order)
        self._go_on(broker_id, line)

    def forget_moved(self) -> None:
        """Answer for partitions that their broker does not lead any more: it need not be heard."""
        image = self._node.image
        for broker_id, line in list(self._lines.items()):
            for order in (*line.sent, *line.waiting):
                for each in sorted(order.partitions):
                    state = image.partition(*each)
                    if state is None or state.leader != broker_id:
                        order.answer(each, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _go_on(self, broker_id: int, line: _Line) -> None:
        if line.sent:
            return
        orders = self._next(line)
        if not orders:
            self._lines.pop(broker_id, None)
            return
        node = self._node
        peer = node.neighbours.peer(broker_id, f"broker-{node.id}-txn-marker-sender")
        line.sent = orders
        request = WriteTxnMarkersRequest([_marker(order) for order in orders])
        try:
            if peer is None:
                raise LinkError(f"broker {broker_id} is not known")
            peer.send(request, partial(self._heard, broker_id, line), node.config.request_timeout_ms)
        except LinkError as error:
            self._heard(broker_id, line, error)

    def _next(self, line: _Line) -> list[Order]:
        """One of each producer: their answers are told apart by it."""
        orders: dict[int, Order] = {}
        later = []
        for order in line.waiting:
            if order.partitions and orders.setdefault(order.markers.producer_id, order) is not order:
                later.append(order)
        line.waiting = later
        return list(orders.values())

    def _heard(self, broker_id: int, line: _Line, answer: Message | LinkError) -> None:
        orders, line.sent = line.sent, []
        if isinstance(answer, WriteTxnMarkersResponse):
            results = {result.producer_id: result for result in answer.markers}
            for order in orders:
                result = results.get(order.markers.producer_id)
                if result is not None:
                    _tell(order, result)
        for order in orders:  # what was not answered
            order.fail(ErrorCode.NETWORK_EXCEPTION)
        self._go_on(broker_id, line)


def _tell(order: Order, result: WritableTxnMarkerResult) -> None:
    for topic in result.topics:
        for one in topic.partitions:
            order.answer((topic.name, one.partition_index), ErrorCode(one.error_code))


def _marker(order: Order) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(order.partitions):
        topics.setdefault(topic, []).append(partition)
    markers = order.markers
    return WritableTxnMarker(
        markers.producer_id,
        markers.producer_epoch,
        markers.commit,
        [WritableTxnMarkerTopic(name, partitions) for name, partitions in topics.items()],
        markers.coordinator_epoch,
        markers.transaction_version,
    )
