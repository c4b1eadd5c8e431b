"""The end offsets of partitions that other brokers lead (ListOffsets).

Rule: a question is the future of its answer. A question that can't be answered ends with `UNKNOWN` and is not sent
again. A question to a broker that does not lead the partition any more ends at once.
"""

from __future__ import annotations

from pykafka_broker.broker.channels import RequestBatcher
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import LATEST
from pykafka_broker.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pykafka_broker.protocol.messages.list_offsets_response import ListOffsetsResponse
from pykafka_broker.protocol.runtime import Message

UNKNOWN = -1
_CONSUMER = -1  # replica id


class Question(Future[int]):
    """The high watermark of a partition at its leader; `UNKNOWN` if the leader does not say."""

    __slots__ = ("partition",)

    def __init__(self, partition: tuple[str, int]) -> None:
        super().__init__()
        self.partition = partition


class EndOffsetRequests(RequestBatcher[Question]):
    """The questions of a node to other brokers."""

    client_id = "end-offsets-%d"
    versions = (1, 11)

    def ask(self, leader: int, topic: str, number: int) -> Question:
        question = Question((topic, number))
        self.send(leader, question)
        return question

    def forget_moved(self) -> None:
        """End the questions to brokers that do not lead the partition any more."""
        for leader, question in self._wanted():
            state = self._node.image.partition(*question.partition)
            if not question.done and (state is None or state.leader != leader):
                question.complete(UNKNOWN)

    def _choose(self, waiting: list[Question]) -> tuple[list[Question], list[Question]]:
        return [question for question in waiting if not question.done], []

    def _request(self, wanted: list[Question]) -> Message:
        topics: dict[str, set[int]] = {}
        for question in wanted:
            topics.setdefault(question.partition[0], set()).add(question.partition[1])
        return ListOffsetsRequest(
            _CONSUMER,
            topics=[
                ListOffsetsTopic(name, [ListOffsetsPartition(number, timestamp=LATEST) for number in sorted(numbers)])
                for name, numbers in topics.items()
            ],
        )

    def _tell(self, wanted: list[Question], answer: Message | LinkError) -> None:
        found: dict[tuple[str, int], int] = {}
        if isinstance(answer, ListOffsetsResponse):
            for topic in answer.topics:
                for one in topic.partitions:
                    found[topic.name, one.partition_index] = UNKNOWN if one.error_code else one.offset
        for question in wanted:
            if not question.done:
                question.complete(found.get(question.partition, UNKNOWN))
