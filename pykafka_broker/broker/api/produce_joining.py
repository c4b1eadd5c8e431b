"""What a Produce request has to do with transactions.

Rule: a batch of a transaction is written only where the coordinator says that its partition takes part (KIP-890), and
only by who may use the transactional id.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykafka_broker.broker.api.produce_checks import MESSAGE_SETS_UP_TO, ZSTD_FROM, Explained
from pykafka_broker.broker.coordinators.add_partitions_to_txn import (
    ABORTABLE_FROM_PRODUCE,
    IMPLICIT_ADD_FROM_PRODUCE,
    Joined,
    refused_join,
)
from pykafka_broker.broker.partitions.partition import Partition
from pykafka_broker.broker.requests.context import RequestContext
from pykafka_broker.broker.services import Services
from pykafka_broker.broker.waiting.future import DONE, Future
from pykafka_broker.errors import ApiError
from pykafka_broker.protocol.enums import AclOperation, AclResourceType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from pykafka_broker.records.compression import ZSTD
from pykafka_broker.records.errors import CorruptBatch
from pykafka_broker.records.header import CODEC_MASK, TRANSACTIONAL_BIT, BatchHeader, peek

if TYPE_CHECKING:
    from pykafka_broker.broker.coordinators.add_partitions_to_txn import Question

TopicAndPartitions = tuple[TopicProduceData, Sequence[PartitionProduceData]]
_ATTRIBUTES_LOW_BYTE = 22
_WRITE_TRANSACTION = (AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID)


class RefusedByCoordinator(ApiError):
    """The log was not asked then."""


class NotInTransaction(RefusedByCoordinator, Explained):
    """Why is told in this case alone."""


class Joining:
    """What the coordinator says of the batches of one request."""

    __slots__ = ("_context", "_elsewhere", "_services", "_transactional_id", "_verdicts")

    def __init__(self, services: Services, context: RequestContext, transactional_id: str | None) -> None:
        self._services = services
        self._context = context
        self._transactional_id = transactional_id
        self._verdicts: dict[tuple[str, int], ApiError | None] = {}  # None is a yes
        self._elsewhere: dict[tuple[str, int], Question] | None = None  # what other nodes were asked

    def ask(self, partition: Partition, header: BatchHeader) -> Future[Any]:
        """Have the partition take part in the producer's transaction. Ask again when the future is done: `check` knows
        the verdict once it is `DONE`.
        """
        key, version = (partition.topic, partition.number), self._context.api_version
        producer_id, epoch, sequence = header.producer_id, header.producer_epoch, header.base_sequence
        host, producers = self._services.transactions, partition.log.producers
        self._verdicts[key] = None
        if not host.asks_produce(producer_id, epoch, partition, version):
            return DONE
        implicit = version >= IMPLICIT_ADD_FROM_PRODUCE
        producers.on_try(producer_id, epoch, sequence, implicit)
        asked = None if self._elsewhere is None else self._elsewhere.get(key)
        if asked is None or not asked.holds(partition):
            joined = host.join(self._transactional_id or "", producer_id, epoch, partition, implicit)
            if isinstance(joined, Joined):
                return self._take(partition, joined.verdict, implicit, joined.committed)
            asked = joined
            self._elsewhere = self._elsewhere or {}
            self._elsewhere[key] = asked
        return self._take(partition, asked.result(), implicit, DONE) if asked.done else asked

    def _take(self, partition: Partition, verdict: ErrorCode, implicit: bool, committed: Future[None]) -> Future[None]:
        if verdict is ErrorCode.NONE:
            return committed
        refused = refused_join(verdict, implicit, self._context.api_version >= ABORTABLE_FROM_PRODUCE)
        self._verdicts[partition.topic, partition.number] = _verdict(refused, partition)
        return DONE

    def refuse_all(self, error: ApiError) -> None:
        self._verdicts = dict.fromkeys(self._verdicts, error)

    def check(self, topic: str, number: int) -> None:
        """Raises what the coordinator has against it."""
        verdict = self._verdicts[topic, number]
        if verdict is not None:
            raise verdict


def _verdict(error: ApiError, partition: Partition) -> ApiError:
    """What the coordinator has against it, in the words of a partition."""
    if error.code is ErrorCode.INVALID_TXN_STATE:
        text = error.message or f"{partition.topic}-{partition.number} is not part of the producer's transaction"
        return NotInTransaction(error.code, text)
    return RefusedByCoordinator(error.code, error.message)


def refusal(
    services: Services, context: RequestContext, transactional_id: str | None, topics: Sequence[TopicAndPartitions]
) -> ApiError | None:
    """What makes the whole request wrong, if these are in it."""
    if context.api_version <= MESSAGE_SETS_UP_TO:
        return None
    try:
        found = _are_transactional(topics)
    except CorruptBatch as error:
        # As a real broker looks for a transaction it stumbles over the first batch that it can't read.
        return Explained(ErrorCode.CORRUPT_MESSAGE, str(error))
    if found and (transactional_id is None or not services.allows(context, *_WRITE_TRANSACTION, transactional_id)):
        return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if context.api_version < ZSTD_FROM and any(_has_strange_codec(services, *one) for one in topics):
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "a codec that there is not")
    return None


def _are_transactional(topics: Sequence[TopicAndPartitions]) -> bool:
    """Whether a batch of them is. Raises CorruptBatch where none can be made out before that."""
    for _, some in topics:
        for one in some:
            records = one.records
            if records is not None and peek(records) == 2 and records[_ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT:
                return True
    return False


def _has_strange_codec(services: Services, topic: TopicProduceData, partitions: Sequence[PartitionProduceData]) -> bool:
    """Whether something is for a partition that there is, in a codec that there is not: as a real broker looks for zstd
    it stumbles over that.
    """
    image = services.image.topics.get(topic.name)
    there = () if image is None else [one.records for one in partitions if one.index in image.partitions]
    for records in there:
        with contextlib.suppress(CorruptBatch):
            if records and peek(records) == 2 and records[_ATTRIBUTES_LOW_BYTE] & CODEC_MASK > ZSTD:
                return True
    return False
