"""`kafka-transactions`.

Rule: coordinators know transactions by their ids, leaders know producers. A transaction hangs if a partition holds it
open, with nothing new for longer than any transaction may take, while the coordinator of its producer does not have the
partition in a transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError, KafkaError, check
from pykafka_broker.client.leaders import Answered, ask_leaders, partitions_in
from pykafka_broker.client.properties import integer, long
from pykafka_broker.protocol.enums import CoordinatorType, TopicPartition, by_topic
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
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError

# -- transactions


_LIST_HIGHEST = 2


class Listed(NamedTuple):
    """A transaction in the list of a coordinator."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class ActiveProducer(NamedTuple):
    """A producer known to a partition. start_offset: of the open transaction, None without."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    start_offset: int | None


async def list_transactions(
    client: Client, *, producer_ids: Collection[int] = (), duration_ms: int = -1, pattern: str | None = None
) -> list[Listed]:
    """Return the transactions of all coordinators. Raises ClientError."""
    lowest = 2 if pattern is not None else 1 if duration_ms >= 0 else 0
    request = ListTransactionsRequest([], list(producer_ids), duration_ms, pattern)
    answers = await client.ask_each(request, versions=(lowest, _LIST_HIGHEST), call="listTransactions")
    found = []
    for node, answer in answers.items():
        check(answer.error_code)
        for each in answer.transaction_states:
            found.append(Listed(each.transactional_id, node, each.producer_id, each.transaction_state))
    return found


async def describe_transaction(client: Client, transactional_id: str) -> tuple[int, Any]:
    """Return a transaction's coordinator and description. Raises ClientError."""
    kind, call = CoordinatorType.TRANSACTION, "describeTransactions(api=FIND_COORDINATOR)"
    await client.refresh(call=call)
    request = DescribeTransactionsRequest([transactional_id])
    try:
        state = await client.ask_coordinator(kind, transactional_id, request, lambda told: told.transaction_states[0])
    except KafkaError as error:
        if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        what = f"DescribeTransactions request for transactionalId `{transactional_id}`"
        raise KafkaError(error.code, f"{what} failed because the ID could not be found") from None
    return await client.coordinator(kind, transactional_id), state


async def describe_producers(
    client: Client, partitions: Collection[TopicPartition], node_id: int | None = None
) -> dict[TopicPartition, list[ActiveProducer] | ClientError]:
    """Return the producers of each partition, from the leader or from the given node. Raises ClientError."""

    def make(asked: Sequence[TopicPartition]) -> DescribeProducersRequest:
        return DescribeProducersRequest(
            [TopicRequest(topic, indexes) for topic, indexes in by_topic(sorted(asked)).items()]
        )

    if node_id is None:
        return await ask_leaders(client, partitions, make, _producers, call="describeProducers")
    await client.refresh()
    if node_id not in client.nodes:
        raise ClientError(f"there is no broker {node_id}")
    answered = _producers(await client.ask(make(sorted(partitions)), node_id))
    return {partition: KafkaError(code) if code else found for partition, (code, found) in answered.items()}


def _producers(answer: Any) -> Answered:
    return {
        partition: (each.error_code, [_producer(one) for one in each.active_producers])
        for partition, each in partitions_in(answer.topics)
    }


def _producer(told: Any) -> ActiveProducer:
    start = None if told.current_txn_start_offset < 0 else told.current_txn_start_offset
    who = told.producer_id, told.producer_epoch, told.coordinator_epoch
    return ActiveProducer(*who, told.last_sequence, told.last_timestamp, start)


async def abort_transaction(
    client: Client, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Write the abort marker missed by the coordinator. Raises ClientError."""
    topics = [WritableTxnMarkerTopic(partition[0], [partition[1]])]
    marker = WritableTxnMarker(producer_id, producer_epoch, False, topics, max(0, coordinator_epoch))
    call = "abortTransaction"
    found = await ask_leaders(client, [partition], lambda _: WriteTxnMarkersRequest([marker]), _markers, call=call)
    if isinstance(found[partition], ClientError):
        raise found[partition]


def _markers(answer: Any) -> Answered:
    markers = (each for marker in answer.markers for each in partitions_in(marker.topics))
    return {partition: (each.error_code, None) for partition, each in markers}


async def fence_producer(client: Client, transactional_id: str) -> None:
    """End the open transaction of an id, as a new producer would. Raises ClientError."""
    await client.refresh(call="fenceProducer(api=FIND_COORDINATOR)")
    request = InitProducerIdRequest(transactional_id, client.request_timeout_ms)
    ending = (ErrorCode.CONCURRENT_TRANSACTIONS,)  # the open transaction comes to its end
    await client.ask_coordinator(CoordinatorType.TRANSACTION, transactional_id, request, passing=ending)


# -- hanging transactions


Open = tuple[TopicPartition, ActiveProducer]


async def partitions_to_search(
    client: Client, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    """Return the partitions to search for hanging transactions. Raises ClientError.

    Args:
        topic: None for all topics.
        partition: None for all partitions of the topic.
        broker_id: only partitions with a replica on the broker; None for all.
    """
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    metadata = await client.metadata(None if topic is None else [topic], call="listTopics")
    found = []
    for each in metadata.topics:
        check(each.error_code)
        for one in each.partitions:
            if each.name is not None and (broker_id is None or broker_id in one.replica_nodes):
                found.append(TopicPartition(each.name, one.partition_index))
    return sorted(found)


async def find_hanging(
    client: Client, partitions: Collection[TopicPartition], oldest_ms: int, broker_id: int | None
) -> list[Open]:
    """Return open transactions with nothing new since `oldest_ms`. Raises ClientError."""
    opened = await _long_open(client, partitions, oldest_ms, broker_id) if partitions else []
    if not opened:
        return []
    ids = {each.producer_id for _, each in opened}
    names = {each.producer_id: each.transactional_id for each in await list_transactions(client, producer_ids=ids)}
    hanging = []
    for partition, producer in opened:
        name = names.get(producer.producer_id)
        if name is None or not await _has(client, name, producer, partition):
            hanging.append((partition, producer))
    return hanging


async def _long_open(
    client: Client, partitions: Collection[TopicPartition], oldest_ms: int, broker_id: int | None
) -> list[Open]:
    found = await describe_producers(client, partitions, broker_id)
    opened = []
    for partition, producers in sorted(found.items(), key=lambda each: each[0]):
        if isinstance(producers, ClientError):
            raise producers
        opened += [
            (partition, each) for each in producers if each.start_offset is not None and each.last_timestamp < oldest_ms
        ]
    return opened


async def _has(client: Client, name: str, producer: ActiveProducer, topic_partition: TopicPartition) -> bool:
    """Return whether the transactional id has the producer's transaction in the partition."""
    try:
        _, state = await describe_transaction(client, name)
    except KafkaError as error:
        if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return False
        raise
    there = {(each.topic, partition) for each in state.topics for partition in each.partitions}
    return bool(state.producer_id == producer.producer_id and topic_partition in there)


# -- the tool


_LIST = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_PRODUCERS = ["ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"]
_PRODUCERS += ["CurrentTransactionStartOffset"]
_HANGING = ["Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp"]
_HANGING += ["Duration(min)"]
_MINUTE_MS = 60_000


@contextmanager
def _failing(words: str) -> Iterator[None]:
    """Put the words of Kafka's tool before an error. Raises ClientError."""
    try:
        yield
    except ClientError as error:
        raise ClientError(f"{words}: {error}. Enable debug logging for additional detail.") from None


def options(parser: ToolParser) -> None:
    parser.add_connection()
    command = parser.add_command("list", "list transactions")
    command.option("--duration-filter MS", "only transactions open for longer than this", type=long, default=-1)
    command.option("--transactional-id-pattern REGEX", "only transactional ids that match")
    command = parser.add_command("describe", "describe the transaction of an id")
    command.option("--transactional-id ID", required=True)
    command = parser.add_command("describe-producers", "describe the producers of a partition")
    command.option("--broker-id ID", "ask this replica; by default the leader", type=integer)
    command.option("--topic NAME", required=True)
    command.option("--partition ID", type=integer, required=True)
    command = parser.add_command("abort", "abort a hanging transaction")
    command.option("--topic NAME", required=True)
    command.option("--partition ID", type=integer, required=True)
    command.option("--start-offset OFFSET", "first offset of the transaction", type=long)
    command.option("--producer-id ID", "for brokers before 3.0", type=long)
    command.option("--producer-epoch EPOCH", "for brokers before 3.0", type=integer)
    command.option("--coordinator-epoch EPOCH", "for brokers before 3.0", type=integer)
    command = parser.add_command("find-hanging", "find hanging transactions")
    command.option("--broker-id ID", "search the partitions of this broker", type=integer)
    command.option("--max-transaction-timeout MINUTES", "15 by default", type=integer, default=15)
    command.option("--topic NAME", "search this topic")
    command.option("--partition ID", "search only this partition of --topic", type=integer)
    command = parser.add_command("forceTerminateTransaction", "end whatever is open under a transactional id")
    command.option("--transactionalId ID", dest="transactional_id", required=True)


async def run(tool: Tool) -> int | None:
    async with tool.connect() as client:
        return await _ACTIONS[tool.options.command](tool, client)


async def _list(tool: Tool, client: Client) -> None:
    chosen = tool.options
    with _failing("Failed to list transactions"):
        found = await list_transactions(
            client, duration_ms=chosen.duration_filter, pattern=chosen.transactional_id_pattern
        )
    tool.print_columns(_LIST, found)
    tool.result = [each._asdict() for each in found]


async def _describe(tool: Tool, client: Client) -> None:
    name = tool.options.transactional_id
    with _failing(f"Failed to describe transaction state of transactional-id `{name}`"):
        coordinator, state = await describe_transaction(client, name)
    partitions = [f"{each.topic}-{partition}" for each in state.topics for partition in sorted(each.partitions)]
    began_ms = state.transaction_start_time_ms
    found = {
        "CoordinatorId": coordinator,
        "TransactionalId": name,
        "ProducerId": state.producer_id,
        "ProducerEpoch": state.producer_epoch,
        "TransactionState": state.transaction_state,
        "TransactionTimeoutMs": state.transaction_timeout_ms,
        "CurrentTransactionStartTimeMs": None if began_ms < 0 else began_ms,
        "TransactionDurationMs": None if began_ms < 0 else _now(client) - began_ms,
        "TopicPartitions": partitions,
    }
    tool.print_columns(found, [(found | {"TopicPartitions": ",".join(partitions)}).values()])
    tool.result = {_snake(heading): value for heading, value in found.items()}


async def _describe_producers(tool: Tool, client: Client) -> None:
    chosen = tool.options
    partition = TopicPartition(chosen.topic, chosen.partition)
    where = "leader" if chosen.broker_id is None else f"broker {chosen.broker_id}"
    with _failing(f"Failed to describe producers for partition {partition} on {where}"):
        found = await _producers_of(client, partition, chosen.broker_id)
    tool.print_columns(_PRODUCERS, found)
    tool.result = [dict(zip(map(_snake, _PRODUCERS), each, strict=True)) for each in found]


async def _abort(tool: Tool, client: Client) -> int:
    chosen = tool.options
    partition = TopicPartition(chosen.topic, chosen.partition)
    if chosen.start_offset is not None:
        with _failing(f"Failed to validate producer state for partition {partition}"):
            producers = await _producers_of(client, partition)
        opened = [each for each in producers if each.start_offset == chosen.start_offset]
        if not opened:
            where = f"offset {chosen.start_offset} on partition {partition}"
            tool.warn(f"Could not find any open transactions starting at {where}")
            return 1
        who = opened[0].producer_id, opened[0].producer_epoch, opened[0].coordinator_epoch
    else:
        who = _named_producer(tool)
    with _failing("Failed to abort transaction " + ", ".join(map(str, who))):
        await abort_transaction(client, partition, *who)
    tool.result = partition._asdict() | {"producer_id": who[0], "aborted": True}
    return 0


def _named_producer(tool: Tool) -> tuple[int, int, int]:
    """Return the producer named by flags. Raises ToolUsageError."""
    chosen = tool.options
    if chosen.producer_id is None:
        raise ToolUsageError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for flag in ("producer_epoch", "coordinator_epoch"):
        if getattr(chosen, flag) is None:
            raise ToolUsageError(f"Missing required argument --{flag.replace('_', '-')}")
    return chosen.producer_id, chosen.producer_epoch, chosen.coordinator_epoch


async def _producers_of(
    client: Client, partition: TopicPartition, node_id: int | None = None
) -> Sequence[ActiveProducer]:
    """Return the producers of a partition. Raises ClientError."""
    found = (await describe_producers(client, [partition], node_id))[partition]
    if isinstance(found, ClientError):
        raise found
    return found


async def _find_hanging(tool: Tool, client: Client) -> None:
    chosen = tool.options
    if chosen.topic is None and chosen.broker_id is None:
        raise ToolUsageError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if chosen.partition is not None and chosen.topic is None:
        raise ToolUsageError("The --partition argument requires --topic to be provided")
    with _failing("Failed to find hanging transactions"):
        partitions = await partitions_to_search(client, chosen.topic, chosen.partition, chosen.broker_id)
        now = _now(client)
        oldest = now - chosen.max_transaction_timeout * _MINUTE_MS
        found = await find_hanging(client, partitions, oldest, chosen.broker_id)
    rows = [
        (*partition, *each[:3], each.start_offset, each.last_timestamp, (now - each.last_timestamp) // _MINUTE_MS)
        for partition, each in found
    ]
    tool.print_columns(_HANGING, rows)
    names = [*map(_snake, _HANGING[:-1]), "duration_min"]
    tool.result = [dict(zip(names, each, strict=True)) for each in rows]


async def _force_terminate(tool: Tool, client: Client) -> None:
    name = tool.options.transactional_id
    with _failing(f"Failed to force terminate transactionalId `{name}`"):
        await fence_producer(client, name)
    tool.result = {"transactional_id": name, "terminated": True}


def _now(client: Client) -> int:
    client.clock.tick()
    return client.clock.wall


def _snake(heading: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in heading).lstrip("_")


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force_terminate,
}
