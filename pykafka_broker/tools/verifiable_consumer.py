"""`kafka-verifiable-consumer`: reports assignments, records and commits of a group member as events.

Rule: with `--max-messages`, records beyond that number are neither reported nor committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.consumer import Chunk
from pykafka_broker.client.errors import AuthenticationFailed, ClientError
from pykafka_broker.client.group_consumer import GroupConsumer
from pykafka_broker.client.properties import integer
from pykafka_broker.protocol.enums import TopicPartition
from pykafka_broker.records.record import BatchRecord
from pykafka_broker.tools.frame import Tool, ToolParser
from pykafka_broker.tools.statistics import Events, text

_POLL_MS = 1_000


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.option("--topic TOPIC", "read the records of this topic")
    parser.option("--group-id GROUP", "read as a member of this group")
    parser.option("--group-protocol PROTOCOL", "classic or consumer", default="classic")
    parser.option("--group-remote-assignor NAME", "assignor of the group coordinator")
    parser.option("--group-instance-id ID", "be this static member")
    parser.option("--max-messages NUMBER", "end after this many records; -1: never", type=integer, default=-1)
    parser.option("--session-timeout MS", "session timeout, with the classic protocol", type=integer)
    parser.option("--verbose", "print a line for each record")
    parser.option("--enable-autocommit", "commit periodically, not after each poll")
    parser.add_argument("--reset-policy", default="earliest", choices=("earliest", "latest", "none"), help="where a "
                        "partition without an offset begins")  # fmt: skip
    parser.option("--close-timeout MS", "most time for closing the consumer", type=integer, default=30_000)
    parser.option("--assignment-strategy CLASS", "RangeAssignor or RoundRobinAssignor")
    parser.option("--consumer.config FILE", "the same as --command-config", dest="consumer_config")


async def run(tool: Tool) -> None:
    options = tool.options
    tool.required("bootstrap_server", "topic", "group_id")
    async with Client(options.bootstrap_server, _properties(tool)) as client:
        reader = _Reader(tool, client)
        told = {"on_assigned": reader.assigned, "on_revoked": reader.revoked}
        consumer = GroupConsumer(client, {}, [options.topic], **told)
        reader.begin()
        try:
            async with AsyncExitStack() as stack:
                await consumer.__aenter__()
                stack.push_async_exit(partial(_close, consumer, options.close_timeout))
                await reader.read(consumer)
        except AuthenticationFailed as error:
            tool.warn(str(error))
        finally:
            reader.end()


async def _close(consumer: GroupConsumer, timeout_ms: int, *failure: Any) -> None:
    """Leave the group, or give that up after a time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_ms / 1000):
            await consumer.__aexit__(*failure)


def _properties(tool: Tool) -> dict[str, str]:
    options = tool.options
    found = tool.properties("command_config", "consumer_config")
    found |= {
        "group.id": options.group_id,
        "group.protocol": options.group_protocol,
        "enable.auto.commit": str(options.enable_autocommit).lower(),
        "auto.offset.reset": options.reset_policy,
    }
    for flag, name in (
        ("group_remote_assignor", "group.remote.assignor"),
        ("group_instance_id", "group.instance.id"),
        ("session_timeout", "session.timeout.ms"),
        ("assignment_strategy", "partition.assignment.strategy"),
    ):
        if getattr(options, flag) is not None:
            found[name] = str(getattr(options, flag))
    return found


class _Reader:
    def __init__(self, tool: Tool, client: Client) -> None:
        self._options = tool.options
        self._events = Events(tool, client)
        self._left: int | None = tool.options.max_messages if tool.options.max_messages >= 0 else None

    def begin(self) -> None:
        self._events.report("startup_complete")

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._events.report("partitions_assigned", partitions=[each._asdict() for each in partitions])

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._events.report("partitions_revoked", partitions=[each._asdict() for each in partitions])

    async def read(self, consumer: GroupConsumer) -> None:
        while self._left is None or self._left > 0:
            chunks = await consumer.poll(_POLL_MS)
            if chunks:
                offsets = self._consumed(chunks)
                if not self._options.enable_autocommit:
                    await self._commit(consumer, offsets)

    def _consumed(self, chunks: list[Chunk]) -> dict[TopicPartition, int]:
        """Report the records; returns the offsets after the last records."""
        records: dict[TopicPartition, list[BatchRecord]] = {}
        for chunk in chunks:
            records.setdefault(chunk.partition, []).extend(chunk.records)
        told, count = [], sum(map(len, records.values()))
        offsets: dict[TopicPartition, int] = {}
        for partition, found in records.items():
            kept = found if self._left is None else found[: self._left]
            if not kept:
                continue
            if self._left is not None:
                self._left -= len(kept)
            offsets[partition] = kept[-1].offset + 1
            where = partition._asdict()
            told.append({**where, "count": len(kept), "minOffset": kept[0].offset, "maxOffset": kept[-1].offset})
            for each in kept if self._options.verbose else ():
                self._events.report(
                    "record_data", key=text(each.key), value=text(each.value), **where, offset=each.offset
                )
        self._events.report("records_consumed", count=count, partitions=told)
        return offsets

    async def _commit(self, consumer: GroupConsumer, offsets: dict[TopicPartition, int]) -> None:
        outcome: dict[str, Any] = {"success": True}
        try:
            await consumer.commit(offsets)
        except ClientError as error:
            outcome = {"success": False, "error": str(error)}
        told = [each._asdict() | {"offset": end} for each, end in offsets.items()]
        self._events.report("offsets_committed", offsets=told, **outcome)

    def end(self) -> None:
        self._events.report("shutdown_complete")
        self._events.report("shutdown_requested")
