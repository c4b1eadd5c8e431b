"""`kafka-transactions`.

Rule: a hanging transaction is one that a partition holds open, with nothing new for as long as any may take, while the
coordinator of its producer knows nothing of it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.leaders import Place
from pykafka_broker.client.properties import integer, long
from pykafka_broker.client.transactions import (
    Producer,
    abort_transaction,
    describe_producers,
    describe_transaction,
    fence_producer,
    list_transactions,
)
from pykafka_broker.tools.columns import print_columns
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.hanging import find_hanging, places_to_search

SUMMARY = "list and describe transactions, and end those that hang"
_LIST = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_DESCRIBE = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
_PRODUCERS = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
_HANGING = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)
_MINUTE_MS = 60_000


class _Failed(Exception):
    """What Kafka's tool says of an error, before the error itself."""


def options(parser: ToolParser) -> None:
    parser.add_connection()
    commands = parser.add_commands()
    it = commands.add("list", "list transactions")
    it.add_argument(
        "--duration-filter", type=long, default=-1, metavar="MS", help="only those that are open for longer"
    )
    it.add_argument("--transactional-id-pattern", metavar="REGEX", help="only those with such an id")
    it = commands.add("describe", "describe the transaction of an id")
    it.add_argument("--transactional-id", required=True, metavar="ID")
    it = commands.add("describe-producers", "describe the producers of a partition")
    it.add_argument("--broker-id", type=integer, metavar="ID", help="as this replica knows them; by default the leader")
    it.add_argument("--topic", required=True, metavar="NAME")
    it.add_argument("--partition", type=integer, required=True, metavar="ID")
    it = commands.add("abort", "abort a hanging transaction")
    it.add_argument("--topic", required=True, metavar="NAME")
    it.add_argument("--partition", type=integer, required=True, metavar="ID")
    it.add_argument("--start-offset", type=long, metavar="OFFSET", help="where it begins")
    it.add_argument("--producer-id", type=long, metavar="ID", help="for brokers before 3.0")
    it.add_argument("--producer-epoch", type=integer, metavar="EPOCH", help="for brokers before 3.0")
    it.add_argument("--coordinator-epoch", type=integer, metavar="EPOCH", help="for brokers before 3.0")
    it = commands.add("find-hanging", "find hanging transactions")
    it.add_argument("--broker-id", type=integer, metavar="ID", help="search the partitions of this broker")
    it.add_argument("--max-transaction-timeout", type=integer, default=15, metavar="MINUTES", help="15 by default")
    it.add_argument("--topic", metavar="NAME", help="search this topic")
    it.add_argument("--partition", type=integer, metavar="ID", help="search only this partition of --topic")
    it = commands.add("forceTerminateTransaction", "end whatever is open under a transactional id")
    it.add_argument("--transactionalId", dest="transactional_id", required=True, metavar="ID")


async def run(tool: Tool) -> int:
    action = _ACTIONS[tool.options.command]
    async with tool.connect() as client:
        try:
            return int(await action(tool, client))
        except _Failed as error:
            cause = error.__cause__
            tool.warn(f"{error}: {cause}. Enable debug logging for additional detail.")
            return 1


async def _list(tool: Tool, client: Client) -> int:
    chosen = tool.options
    try:
        found = await list_transactions(
            client, duration_ms=chosen.duration_filter, pattern=chosen.transactional_id_pattern
        )
    except ClientError as error:
        raise _Failed("Failed to list transactions") from error
    print_columns(tool, _LIST, found)
    tool.result = [each._asdict() for each in found]
    return 0


async def _describe(tool: Tool, client: Client) -> int:
    name = tool.options.transactional_id
    try:
        coordinator, state = await describe_transaction(client, name)
    except ClientError as error:
        raise _Failed(f"Failed to describe transaction state of transactional-id `{name}`") from error
    places = [f"{each.topic}-{partition}" for each in state.topics for partition in sorted(each.partitions)]
    began_ms = state.transaction_start_time_ms
    lasted_ms = None if began_ms < 0 else _now(client) - began_ms
    values = (
        coordinator,
        name,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
    )
    times = (None, None) if began_ms < 0 else (began_ms, lasted_ms)
    print_columns(tool, _DESCRIBE, [(*values, *map(_shown, times), ",".join(places))])
    tool.result = dict(zip(map(_snake, _DESCRIBE), (*values, *times, places), strict=True))
    return 0


async def _describe_producers(tool: Tool, client: Client) -> int:
    chosen = tool.options
    place = chosen.topic, chosen.partition
    where = "leader" if chosen.broker_id is None else f"broker {chosen.broker_id}"
    failed = f"Failed to describe producers for partition {place[0]}-{place[1]} on {where}"
    found = await _producers_of(client, place, failed, chosen.broker_id)
    print_columns(tool, _PRODUCERS, [tuple(map(_shown, each)) for each in found])
    tool.result = [dict(zip(map(_snake, _PRODUCERS), each, strict=True)) for each in found]
    return 0


async def _abort(tool: Tool, client: Client) -> int:
    chosen = tool.options
    place: Place = (chosen.topic, chosen.partition)
    if chosen.start_offset is not None:
        failed = f"Failed to validate producer state for partition {place[0]}-{place[1]}"
        producers = await _producers_of(client, place, failed)
        opened = [each for each in producers if each.start_offset == chosen.start_offset]
        if not opened:
            where = f"offset {chosen.start_offset} on partition {place[0]}-{place[1]}"
            tool.warn(f"Could not find any open transactions starting at {where}")
            return 1
        who = opened[0].producer_id, opened[0].producer_epoch, opened[0].coordinator_epoch
    else:
        who = _named_producer(tool)
    try:
        await abort_transaction(client, place, *who)
    except ClientError as error:
        raise _Failed("Failed to abort transaction " + ", ".join(map(str, who))) from error
    tool.result = {"topic": place[0], "partition": place[1], "producer_id": who[0], "aborted": True}
    return 0


def _named_producer(tool: Tool) -> tuple[int, int, int]:
    """Raises UsageError."""
    chosen = tool.options
    if chosen.producer_id is None:
        raise UsageError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for flag in ("producer_epoch", "coordinator_epoch"):
        if getattr(chosen, flag) is None:
            raise UsageError(f"Missing required argument --{flag.replace('_', '-')}")
    return chosen.producer_id, chosen.producer_epoch, chosen.coordinator_epoch


async def _producers_of(client: Client, place: Place, failed: str, node_id: int | None = None) -> Sequence[Producer]:
    """Raises _Failed."""
    try:
        found = (await describe_producers(client, [place], node_id))[place]
    except ClientError as error:
        found = error
    if isinstance(found, ClientError):
        raise _Failed(failed) from found
    return found


async def _find_hanging(tool: Tool, client: Client) -> int:
    chosen = tool.options
    if chosen.topic is None and chosen.broker_id is None:
        raise UsageError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if chosen.partition is not None and chosen.topic is None:
        raise UsageError("The --partition argument requires --topic to be provided")
    try:
        places = await places_to_search(client, chosen.topic, chosen.partition, chosen.broker_id)
        now = _now(client)
        oldest = now - chosen.max_transaction_timeout * _MINUTE_MS
        found = await find_hanging(client, places, oldest, chosen.broker_id)
    except ClientError as error:
        raise _Failed("Failed to find hanging transactions") from error
    rows: list[tuple[Any, ...]] = [
        (
            *place,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.start_offset,
            each.last_timestamp,
            (now - each.last_timestamp) // _MINUTE_MS,
        )
        for place, each in found
    ]
    print_columns(tool, _HANGING, rows)
    names = [*map(_snake, _HANGING[:-1]), "duration_min"]
    tool.result = [dict(zip(names, each, strict=True)) for each in rows]
    return 0


async def _force_terminate(tool: Tool, client: Client) -> int:
    name = tool.options.transactional_id
    try:
        await fence_producer(client, name)
    except ClientError as error:
        raise _Failed(f"Failed to force terminate transactionalId `{name}`") from error
    tool.result = {"transactional_id": name, "terminated": True}
    return 0


def _now(client: Client) -> int:
    client.clock.tick()
    return client.clock.wall


def _shown(value: int | None) -> str:
    return "None" if value is None else str(value)


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
