"""Whole brokers that replicate, over the network of the neighbourhood. Their controller is a few lines here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pykafka_broker.broker.broker import add_replication
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.peers import OnReply
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.alter_partition_request import AlterPartitionRequest
from pykafka_broker.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from pykafka_broker.protocol.runtime import Message
from tests.broker.neighbourhood import Neighbourhood
from tests.broker.support import batch

Ask = Callable[[Message, OnReply, int], None]
WAIT_MS = 500  # `replica.fetch.wait.max.ms`


class Cluster(Neighbourhood):
    """Brokers and their controller.

    refuse: the controller's error for every change of an ISR. answers: False while it answers nothing, until `answer`.
    """

    def __init__(self, directory: Path, brokers: int = 3, **config: str) -> None:
        super().__init__(directory, brokers, **config)
        self.asked_isrs: list[AlterPartitionRequest] = []
        self.refuse = ErrorCode.NONE
        self.answers = True
        self._unanswered: list[Callable[[], None]] = []
        for node in self.nodes.values():
            node.metadata.ask = partial(self._ask, node.metadata.ask)  # type: ignore[method-assign]
            add_replication(node.whole)

    def topic(self, *replicas: int, isr: tuple[int, ...] | None = None, **overrides: str) -> bytes:
        """Make the topic `t`, led by the first of its replicas; return its id."""
        topic_id = self.add("t", replicas[0], replicas=replicas, **overrides)
        if isr is None or isr != replicas[:1]:
            self.change("t", isr=list(isr or replicas))
        return topic_id

    def produce(self, node: int = 1, count: int = 1, **options: Any) -> int:
        """Let the leader append records; return the end offset."""
        partition = self[node].partition("t", 0)
        return partition.append(batch(*[b"v"] * count, **options), self.now).last_offset + 1

    def replica(self, node: int) -> Partition:
        return self[node].services.replicas.replica("t", 0)

    def partition_log(self, node: int) -> PartitionLog:
        return self.replica(node).log

    def ends(self, *nodes: int) -> list[tuple[int, int]]:
        """Return log end and high watermark of these nodes, or of all."""
        return [(log.log_end_offset, log.high_watermark) for log in map(self.partition_log, nodes or self.nodes)]

    def content(self, node: int) -> bytes:
        log = self.partition_log(node)
        pieces, offset = [], log.log_start_offset
        while (read := log.read(offset, 1 << 30, log.log_end_offset)) is not None:
            pieces.append(read.records.read())
            offset = read.end_offset
        return b"".join(pieces)

    # -- the controller

    def _ask(self, ask: Ask, request: Message, on_reply: OnReply, timeout_ms: int) -> None:
        """Decide about ISRs here; the rest is asked of the controller that each node is."""
        if not isinstance(request, AlterPartitionRequest):
            ask(request, on_reply, timeout_ms)
            return
        self.asked_isrs.append(request)
        self._unanswered.append(lambda: on_reply(self._decide(request)))

    def _decide(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        response = AlterPartitionResponse()
        for topic in request.topics:
            answers = [self._decide_one(topic.topic_id, one) for one in topic.partitions]
            response.topics.append(TopicData(topic_id=topic.topic_id, partitions=answers))
        return response

    def _decide_one(self, topic_id: bytes, one: Any) -> PartitionData:
        image = self[1].image.topics_by_id[topic_id]
        state = image.partitions[one.partition_index]
        code = self.refuse
        if not code and (one.partition_epoch, one.leader_epoch) != (state.partition_epoch, state.leader_epoch):
            code = ErrorCode.INVALID_UPDATE_VERSION
        if code:
            return PartitionData(one.partition_index, code)
        self.change(image.name, one.partition_index, isr=[each.broker_id for each in one.new_isr_with_epochs])
        state = image.partitions[one.partition_index]
        return PartitionData(
            one.partition_index, 0, state.leader, state.leader_epoch, list(state.isr), 0, state.partition_epoch
        )

    def answer(self) -> None:
        """Answer all requests that wait for the controller."""
        waiting, self._unanswered = self._unanswered, []
        for each in waiting:
            each()

    def settle(self) -> None:
        super().settle()
        while self.answers and self._unanswered:
            self.answer()
            super().settle()
