"""Transactions: of coordinators, which know them by their ids, and of leaders, which know producers.

Rule: what is in a coordinator's list and what a leader holds open are two things; where they differ, a transaction
hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, Refused, check
from pykafka_broker.client.leaders import Answered, Place, ask_leaders, by_topic
from pykafka_broker.protocol.enums import CoordinatorType
from pykafka_broker.protocol.errors import ErrorCode
from pykafka_broker.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from pykafka_broker.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from pykafka_broker.protocol.messages.init_producer_id_request import InitProducerIdRequest
from pykafka_broker.protocol.messages.list_transactions_request import ListTransactionsRequest
from pykafka_broker.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_LIST_HIGHEST = 2
_UNTIL_IT_ENDS_MS = 100


class Listed(NamedTuple):
    """A transaction in the list of a coordinator."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Producer(NamedTuple):
    """A producer that a partition knows; `start_offset` is that of its open transaction, if it has one."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    start_offset: int | None


async def list_transactions(
    client: Client, *, producer_ids: Collection[int] = (), duration_ms: int = -1, pattern: str | None = None
) -> list[Listed]:
    """Of all coordinators. Raises ClientError."""
    lowest = 2 if pattern is not None else 1 if duration_ms >= 0 else 0

    def make(_: int) -> ListTransactionsRequest:
        return ListTransactionsRequest([], list(producer_ids), duration_ms, pattern)

    await client.refresh(call="listTransactions(api=METADATA)")
    answers = await client.ask_each(make, versions=(lowest, _LIST_HIGHEST), call="listTransactions")
    found = []
    for node, answer in answers.items():
        check(answer.error_code)
        for each in answer.transaction_states:
            found.append(Listed(each.transactional_id, node, each.producer_id, each.transaction_state))
    return found


async def describe_transaction(client: Client, transactional_id: str) -> tuple[int, Any]:
    """Its coordinator, and what that says of it. Raises ClientError."""
    call = "describeTransactions(api=FIND_COORDINATOR)"
    await client.refresh(call=call)
    answer = await client.ask_coordinator(
        CoordinatorType.TRANSACTION,
        transactional_id,
        DescribeTransactionsRequest([transactional_id]),
        lambda answer: int(answer.transaction_states[0].error_code),
    )
    (state,) = answer.transaction_states
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise Refused(
            state.error_code,
            f"DescribeTransactions request for transactionalId `{transactional_id}` failed because the ID could not be "
            "found",
        )
    check(state.error_code)
    return await client.coordinator(CoordinatorType.TRANSACTION, transactional_id), state


async def describe_producers(
    client: Client, places: Collection[Place], node_id: int | None = None
) -> dict[Place, list[Producer] | ClientError]:
    """Of each partition, asked of its leader or of that node. Raises ClientError."""

    def make(asked: Sequence[Place]) -> DescribeProducersRequest:
        return DescribeProducersRequest([TopicRequest(topic, indexes) for topic, indexes in by_topic(asked)])

    if node_id is None:
        return await ask_leaders(client, places, make, _producers, call="describeProducers")
    await client.refresh()
    if node_id not in client.nodes:
        raise ClientError(f"there is no broker {node_id}")
    answered = _producers(await client.ask(make(sorted(places)), node_id))
    return {place: Refused(code) if code else found for place, (code, found) in answered.items()}


def _producers(answer: Any) -> Answered:
    return {
        (topic.name, each.partition_index): (each.error_code, [_producer(one) for one in each.active_producers])
        for topic in answer.topics
        for each in topic.partitions
    }


def _producer(told: Any) -> Producer:
    start = None if told.current_txn_start_offset < 0 else told.current_txn_start_offset
    who = told.producer_id, told.producer_epoch, told.coordinator_epoch
    return Producer(*who, told.last_sequence, told.last_timestamp, start)


async def abort_transaction(
    client: Client, place: Place, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Write the marker that its coordinator has not written. Raises ClientError."""
    topics = [WritableTxnMarkerTopic(place[0], [place[1]])]
    marker = WritableTxnMarker(producer_id, producer_epoch, False, topics, max(0, coordinator_epoch))
    call = "abortTransaction"
    found = await ask_leaders(client, [place], lambda _: WriteTxnMarkersRequest([marker]), _markers, call=call)
    if isinstance(found[place], ClientError):
        raise found[place]


def _markers(answer: Any) -> Answered:
    return {
        (topic.name, each.partition_index): (each.error_code, None)
        for marker in answer.markers
        for topic in marker.topics
        for each in topic.partitions
    }


async def fence_producer(client: Client, transactional_id: str) -> None:
    """End what is open under this id, as a new producer of it would. Raises ClientError."""
    until, call = client.deadline(), "fenceProducer(api=FIND_COORDINATOR)"
    await client.refresh(call=call)
    request = InitProducerIdRequest(transactional_id, client.request_timeout_ms)
    while True:
        answer = await client.ask_coordinator(
            CoordinatorType.TRANSACTION, transactional_id, request, lambda each: int(each.error_code)
        )
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS or client.deadline(0) >= until:
            break
        await asyncio.sleep(_UNTIL_IT_ENDS_MS / 1000)
    check(answer.error_code)
