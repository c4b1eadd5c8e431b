"""Markers of transactions on their way to other brokers (WriteTxnMarkers).

Rule: every partition is answered once, with what its leader says or why that can't be heard; whether and where to try
again is decided by whoever has asked. Nobody waits for a broker that does not lead the partition any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykafka_broker.broker.channels import RequestBatcher, told
from pykafka_broker.coordinators.transactions.coordinator import Markers
from pykafka_broker.coordinators.transactions.transaction import TopicPartition
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


class MarkerSender(RequestBatcher[Order]):
    """All that this node's coordinators have for other brokers."""

    client_id = "broker-%d-txn-marker-sender"

    @staticmethod
    def order(markers: Markers, partitions: Iterable[TopicPartition], answered: Answered) -> Order:
        """Something to send; `answered` hears of each partition."""
        return Order(markers, partitions, answered)

    def forget_moved(self) -> None:
        """Answer for partitions that their broker does not lead any more: it need not be heard."""
        image = self._node.image
        for broker_id, order in self._wanted():
            for each in sorted(order.partitions):
                state = image.partition(*each)
                if state is None or state.leader != broker_id:
                    order.answer(each, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _choose(self, waiting: list[Order]) -> tuple[list[Order], list[Order]]:
        """One of each producer: their answers are told apart by it."""
        orders: dict[int, Order] = {}
        later = []
        for order in waiting:
            if order.partitions and orders.setdefault(order.markers.producer_id, order) is not order:
                later.append(order)
        return list(orders.values()), later

    def _request(self, wanted: list[Order]) -> Message:
        return WriteTxnMarkersRequest([_marker(order) for order in wanted])

    def _tell(self, wanted: list[Order], answer: Message | LinkError) -> None:
        if isinstance(answer, WriteTxnMarkersResponse):
            results = {result.producer_id: result for result in answer.markers}
            for order in wanted:
                result = results.get(order.markers.producer_id)
                if result is not None:
                    _tell(order, result)
        for order in wanted:  # what was not answered
            order.fail(ErrorCode.NETWORK_EXCEPTION)


def _tell(order: Order, result: WritableTxnMarkerResult) -> None:
    for topic in result.topics:
        for one in topic.partitions:
            order.answer((topic.name, one.partition_index), told(one.error_code))


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
