"""Who a producer is: its id and epoch, and the transactions that it is in.

Rule: requests are those of clients before Kafka 4.0, which every broker serves: partitions are added to a transaction
before anything is produced to them, and the epoch stays after the end of a transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import Any

from pykafka_broker.client.batches import Identity
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import check
from pykafka_broker.client.properties import number
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from pykafka_broker.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pykafka_broker.protocol.messages.end_txn_request import EndTxnRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

_TRANSACTION_TIMEOUT_MS = 60_000
_AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class ProducerId:
    """Of one producer; `transactional_id` None: it is in no transactions."""

    def __init__(self, client: Client, transactional_id: str | None) -> None:
        self.identity = Identity(transactional_id=transactional_id)
        self.added: set[TopicPartition] = set()  # of the transaction
        self._client = client
        self._id = transactional_id or ""
        self._timeout_ms = number(client.properties, "transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)
        self._offsets_added = False

    async def begin(self) -> None:
        """Get an id, or the next epoch of a transactional id. Raises Refused and TimedOut."""
        request = InitProducerIdRequest(self.identity.transactional_id, self._timeout_ms)
        if self.identity.transactional_id is None:
            asked = partial(self._client.ask, request, versions=(0, 4))  # any node, which may just have started
            answer = await self._client.while_transient(asked, lambda reply: int(reply.error_code))
        else:
            answer = await self._ask(request, (0, 4), lambda reply: int(reply.error_code))
        check(answer.error_code)
        self.identity = Identity(answer.producer_id, answer.producer_epoch, self.identity.transactional_id)

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """They take part in the transaction from now on."""
        wanted = sorted(partitions)
        topics = [
            AddPartitionsToTxnTopic(name, [each.partition for each in group])
            for name, group in groupby(wanted, lambda each: each.topic)
        ]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=topics,
        )

        def code_of(answer: Any) -> int:
            codes = [each.partition_error_code for topic in answer.results_by_topic_v3_and_below
                     for each in topic.results_by_partition]  # fmt: skip
            return next(filter(None, codes), 0)

        check(code_of(await self._ask(request, (0, 3), code_of)))
        self.added.update(wanted)

    async def add_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Offsets of a consumer group are committed with the transaction."""
        producer_id, epoch, _ = self.identity
        joining = AddOffsetsToTxnRequest(self._id, producer_id, epoch, group)
        answer = await self._ask(joining, (0, 3), lambda reply: int(reply.error_code))
        check(answer.error_code)
        self._offsets_added = True
        topics = [
            TxnOffsetCommitRequestTopic(
                name, [TxnOffsetCommitRequestPartition(each.partition, offsets[each]) for each in partitions]
            )
            for name, partitions in groupby(sorted(offsets), lambda each: each.topic)
        ]
        request = TxnOffsetCommitRequest(self._id, group, producer_id, epoch, topics=topics)

        def code_of(answer: Any) -> int:
            return next(filter(None, (each.error_code for topic in answer.topics for each in topic.partitions)), 0)

        check(
            code_of(await self._client.ask_coordinator(CoordinatorType.GROUP, group, request, code_of, versions=(0, 3)))
        )

    async def end(self, commit: bool) -> None:
        """The transaction ends, unless nothing was in it."""
        if self.added or self._offsets_added:
            request = EndTxnRequest(self._id, self.identity.producer_id, self.identity.epoch, commit)
            answer = await self._ask(request, (0, 4), lambda reply: int(reply.error_code))
            check(answer.error_code)
        self.added.clear()
        self._offsets_added = False

    async def _ask(self, request: Any, versions: tuple[int, int], code_of: Callable[[Any], int]) -> Any:
        until = self._client.deadline()

        def once() -> Awaitable[Any]:
            return self._client.ask_coordinator(
                CoordinatorType.TRANSACTION, self._id, request, code_of, versions=versions
            )

        while True:
            answer = await once()
            if code_of(answer) not in _AGAIN or self._client.deadline(0) >= until:
                return answer
            await asyncio.sleep(self._client.backoff_ms / 1000)
