"""Partitions that are added to transactions, or looked for in them, by producing (AddPartitionsToTxn, KIP-890).

Rule: the coordinator gives a verdict on a partition. If the coordinator is another node, the verdict is a future, and
an error of the connection counts as a coordinator that can't be reached. A producer that begins its next transaction
while markers of the one before are still on their way is not sent back: for a moment the coordinator is asked again
(`add.partitions.to.txn.retry.backoff.ms`). No verdict outlives a marker: a request that has waited for a verdict asks
again if the producer's transaction has been ended in the partition meanwhile. No version of a producer hears an error
that the version does not know, or takes for final where another try may succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from pykafka_broker.broker.channels import RequestBatcher
from pykafka_broker.broker.node import ServerNode
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.waiting.future import Future
from pykafka_broker.errors import ApiError
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykafka_broker.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from pykafka_broker.protocol.runtime import Message

IMPLICIT_ADD_FROM_PRODUCE = 12  # KIP-890: producing adds the partition
ABORTABLE_FROM_PRODUCE = 11
# Told as NOT_ENOUGH_REPLICAS, which every producer retries, and without asking for metadata.
_COORDINATOR_AWAY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


def verification_error(error: ErrorCode, implicit: bool, knows_abortable: bool) -> ApiError:
    """Return the error for records or offsets outside a transaction, in words of the producer's version."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)  # the only name for it on this path
    if error is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ApiError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if error in _COORDINATOR_AWAY or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not implicit):
        reason = f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}"
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    return ApiError(error)


class LocalVerdict(NamedTuple):
    """The verdict of a local coordinator, to be told once `committed`."""

    verdict: ErrorCode
    committed: Future[None]


Asker = tuple[str, int, int, bool]  # transactional id, producer id and epoch, whether to verify only
# Errors of an answer as a whole and of one partition, and what they mean for a producer.
_MEANING = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorCode.INVALID_TXN_STATE,  # this node may not ask
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorCode.NETWORK_EXCEPTION,  # refused for a partition of another request
}


class PartitionVerification(Future[ErrorCode]):
    """The future verdict of the coordinator: whether a partition takes part in a transaction."""

    __slots__ = ("_since", "asker", "partition", "until_ms")

    def __init__(self, asker: Asker, partition: Partition, until_ms: int) -> None:
        super().__init__()
        self.asker = asker
        self.until_ms = until_ms  # the coordinator may be asked again until then
        self.partition: PartitionKey = (partition.topic, partition.index)
        self._since = last_end(partition, asker[1])

    def holds(self, partition: Partition) -> bool:
        """Return whether the verdict is still about the same transaction."""
        return self._since == last_end(partition, self.asker[1])


def last_end(partition: Partition, producer_id: int) -> tuple[int, int]:
    """Return what changes with each end of a transaction of the producer in the partition, and with each leader."""
    entry = partition.log.producers.entries.get(producer_id)
    return partition.leader_epoch, 0 if entry is None else entry.markers


class AddPartitionsToTxnManager(RequestBatcher[PartitionVerification]):
    """The requests of a node for verdicts (Kafka: AddPartitionsToTxnManager).

    find: returns the other node that coordinates an id; None if this node does, or nobody.
    add_or_verify_here: adds or verifies at the coordinator of this node.
    """

    client_id = "AddPartitionsManager-client-%d"
    versions = (4, 5)

    def __init__(
        self,
        node: ServerNode,
        find: Callable[[str], int | None],
        add_or_verify_here: Callable[[Asker, PartitionKey], LocalVerdict],
    ) -> None:
        super().__init__(node)
        self._find = find
        self._add_or_verify_here = add_or_verify_here

    def ask(self, asker: Asker, partition: Partition) -> PartitionVerification:
        """Ask the coordinator, on any node."""
        verification = self._verification(asker, partition)
        self._dispatch(verification)
        return verification

    def ask_again(self, asker: Asker, partition: Partition) -> PartitionVerification:
        """Ask again in a moment, since the local coordinator refused while the transaction before is not over."""
        verification = self._verification(asker, partition)
        self._conclude(verification, ErrorCode.CONCURRENT_TRANSACTIONS)
        return verification

    def settle(self, asker: Asker, partition: Partition, local: LocalVerdict) -> PartitionVerification:
        """Return the future of a local verdict, which is to be committed first."""
        verification = self._verification(asker, partition)
        self._conclude_committed(verification, local)
        return verification

    def _verification(self, asker: Asker, partition: Partition) -> PartitionVerification:
        return PartitionVerification(
            asker, partition, self._node.clock.now + self._node.config.add_partitions_to_txn_retry_backoff_max_ms
        )

    def _dispatch(self, verification: PartitionVerification) -> None:
        coordinator = self._find(verification.asker[0])
        if coordinator is not None:
            self.send(coordinator, verification)
            return
        self._conclude_committed(verification, self._add_or_verify_here(verification.asker, verification.partition))

    def _conclude_committed(self, verification: PartitionVerification, local: LocalVerdict) -> None:
        def committed(future: Future[None]) -> None:
            self._conclude(verification, local.verdict if future.error is None else ErrorCode.NOT_COORDINATOR)

        local.committed.add_done_callback(committed)

    def _conclude(self, verification: PartitionVerification, verdict: ErrorCode) -> None:
        """Complete with the verdict, unless the coordinator may say something else in a moment."""
        again_ms = self._node.clock.now + self._node.config.add_partitions_to_txn_retry_backoff_ms
        verify_only = verification.asker[3]
        if verdict is ErrorCode.CONCURRENT_TRANSACTIONS and not verify_only and again_ms <= verification.until_ms:
            self.retry(again_ms, partial(self._dispatch, verification))
        else:
            verification.complete(verdict)

    def _end_moved(self, broker_id: int, wanted: PartitionVerification) -> bool:
        if self._find(wanted.asker[0]) == broker_id:
            return False
        wanted.complete(ErrorCode.NOT_COORDINATOR)
        return True

    def _choose(
        self, waiting: list[PartitionVerification]
    ) -> tuple[list[PartitionVerification], list[PartitionVerification]]:
        """Choose a transaction of each id: answers are told apart by id."""
        askers: dict[str, Asker] = {}
        now: list[PartitionVerification] = []
        later: list[PartitionVerification] = []
        for verification in waiting:
            if not verification.done:
                same = askers.setdefault(verification.asker[0], verification.asker) == verification.asker
                (now if same else later).append(verification)
        return now, later

    def _request(self, wanted: list[PartitionVerification]) -> Message:
        partitions: dict[Asker, dict[str, set[int]]] = {}
        for verification in wanted:
            topic, partition = verification.partition
            partitions.setdefault(verification.asker, {}).setdefault(topic, set()).add(partition)
        transactions = [
            AddPartitionsToTxnTransaction(
                *asker, [AddPartitionsToTxnTopic(name, sorted(indexes)) for name, indexes in topics.items()]
            )
            for asker, topics in partitions.items()
        ]
        return AddPartitionsToTxnRequest(transactions)

    def _complete(self, wanted: list[PartitionVerification], answer: Message | LinkError) -> None:
        verdicts: dict[tuple[str, PartitionKey], ErrorCode] = {}
        whole = ErrorCode.NETWORK_EXCEPTION
        if isinstance(answer, AddPartitionsToTxnResponse):
            verdicts = dict(_verdicts(answer))
            if answer.error_code:
                whole = _meaning(answer.error_code)
        for verification in [each for each in wanted if not each.done]:
            self._conclude(verification, verdicts.get((verification.asker[0], verification.partition), whole))


def _verdicts(answer: AddPartitionsToTxnResponse) -> Iterable[tuple[tuple[str, PartitionKey], ErrorCode]]:
    for result in answer.results_by_transaction:
        for topic in result.topic_results:
            for each in topic.results_by_partition:
                key = result.transactional_id, (topic.name, each.partition_index)
                yield key, _meaning(each.partition_error_code)


def _meaning(error_code: int) -> ErrorCode:
    return _MEANING.get(ErrorCode(error_code), ErrorCode(error_code))
