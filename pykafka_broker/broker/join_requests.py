"""What coordinators at other nodes are asked of the partitions of this one (AddPartitionsToTxn, KIP-890).

Rule: a question is a place like any other that an answer may rest on, and has its verdict afterwards. What the line
has to say of it is in the words of a coordinator that can't be asked. No verdict outlives a marker: whoever has waited
for one asks again if the producer's transaction has been ended here meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka_broker.broker.coordinator_log import partition_for
from pykafka_broker.broker.gathering import Gathering, told
from pykafka_broker.broker.partition import Partition
from pykafka_broker.broker.reply import NOTHING, After, Waiter
from pykafka_broker.cluster.topic_names import TRANSACTION_STATE
from pykafka_broker.coordinators.transactions import TopicPartition
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykafka_broker.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from pykafka_broker.protocol.runtime import Message

Asker = tuple[str, int, int, bool]  # transactional id, producer id and epoch, whether to verify only
# This node may not ask, or not in these versions: so nobody knows of a transaction.
_WHOLE = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE}
# One of another request was refused, and this one for its sake.
_ONE = {ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorCode.NETWORK_EXCEPTION}


class Question:
    """Whether a partition takes part in a transaction. `error` is the verdict, once it is there."""

    __slots__ = ("_since", "_waiters", "asker", "error", "partition")

    def __init__(self, asker: Asker, partition: Partition) -> None:
        self.asker = asker
        self.partition: TopicPartition = (partition.topic, partition.number)
        self.error: ErrorCode | None = None
        self._since = _last_end(partition, asker[1])
        self._waiters: list[Waiter] = []

    @property
    def after(self) -> After:
        """Itself, until it is answered."""
        return ((self, 0),) if self.error is None else NOTHING

    def holds(self, partition: Partition) -> bool:
        """Whether the verdict is still about the same transaction."""
        return self._since == _last_end(partition, self.asker[1])

    def is_committed(self, offset: int) -> bool:
        return self.error is not None

    def when_committed(self, offset: int, waiter: Waiter) -> None:
        if self.error is not None:
            waiter(None)
        else:
            self._waiters.append(waiter)

    def answer(self, error: ErrorCode) -> None:
        """The verdict; a second one is dropped."""
        if self.error is None:
            self.error = error
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter(None)


def _last_end(partition: Partition, producer_id: int) -> tuple[int, int]:
    entry = partition.log.producers.entries.get(producer_id)
    return partition.leader_epoch, 0 if entry is None else entry.markers


class JoinRequests(Gathering[Question]):
    """All questions of this node."""

    client_id = "AddPartitionsManager-client-%d"
    versions = (4, 5)

    def ask(self, coordinator_id: int, asker: Asker, partition: Partition) -> Question:
        question = Question(asker, partition)
        self.send(coordinator_id, question)
        return question

    def forget_moved(self) -> None:
        """Nobody waits for a node that is not the coordinator any more."""
        topic = self._node.image.topics.get(TRANSACTION_STATE)
        for broker_id, question in self._wanted():
            number = -1 if topic is None else partition_for(question.asker[0], len(topic.partitions))
            if topic is None or topic.partitions[number].leader != broker_id:
                question.answer(ErrorCode.NOT_COORDINATOR)

    def _choose(self, waiting: list[Question]) -> tuple[list[Question], list[Question]]:
        """One transaction of each id: their answers are told apart by it."""
        askers: dict[str, Asker] = {}
        now: list[Question] = []
        later: list[Question] = []
        for question in waiting:
            if question.error is None:
                same = askers.setdefault(question.asker[0], question.asker) == question.asker
                (now if same else later).append(question)
        return now, later

    def _request(self, wanted: list[Question]) -> Message:
        partitions: dict[Asker, dict[str, set[int]]] = {}
        for question in wanted:
            topic, number = question.partition
            partitions.setdefault(question.asker, {}).setdefault(topic, set()).add(number)
        transactions = [
            AddPartitionsToTxnTransaction(
                *asker, [AddPartitionsToTxnTopic(name, sorted(numbers)) for name, numbers in topics.items()]
            )
            for asker, topics in partitions.items()
        ]
        return AddPartitionsToTxnRequest(transactions)

    def _tell(self, wanted: list[Question], answer: Message | LinkError) -> None:
        verdicts: dict[tuple[str, TopicPartition], ErrorCode] = {}
        whole = ErrorCode.NETWORK_EXCEPTION
        if isinstance(answer, AddPartitionsToTxnResponse):
            verdicts = dict(_verdicts(answer))
            if answer.error_code:
                whole = _WHOLE.get(told(answer.error_code), told(answer.error_code))
        for question in wanted:
            question.answer(verdicts.get((question.asker[0], question.partition), whole))


def _verdicts(answer: AddPartitionsToTxnResponse) -> Iterable[tuple[tuple[str, TopicPartition], ErrorCode]]:
    for result in answer.results_by_transaction:
        for topic in result.topic_results:
            for one in topic.results_by_partition:
                code = told(one.partition_error_code)
                yield (result.transactional_id, (topic.name, one.partition_index)), _ONE.get(code, code)
