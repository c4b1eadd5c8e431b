"""`kafka-verifiable-share-consumer`: reports records and acknowledgements of a member of a share group as events.

Rule: whatever the brokers refuse, the events end as ever and the exit code is 0. Records count as they are polled, so
records that come again after a release or a renewal count again. `--ack-pattern` says what becomes of a record by its
offset; a renewed record goes one further in the pattern.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.configs import ConfigChange, Resource, alter_configs
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.properties import integer
from pykafka_broker.client.share_consumer import ACCEPT, REJECT, RELEASE, RENEW, Delivered, ShareConsumer
from pykafka_broker.protocol.enums import AlterConfigOp, ConfigResourceType, TopicPartition
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.statistics import Events, text

_POLL_MS, _MOST_RECORDS = 5_000, 500
_MODES = ("auto", "sync", "async")
_KINDS = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT, "renew": RENEW}
_RESET = "share.auto.offset.reset"
_NEEDS_MODE = "--ack-pattern requires --acknowledgement-mode to be 'sync' or 'async', not 'auto'"
_NEVER_ENDS = (
    "--ack-pattern must contain at least one non-RENEW type; a pattern of only 'renew' would re-deliver every record "
    "indefinitely without ever resolving it"
)


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.option("--topic TOPIC", "read the records of this topic")
    parser.option("--group-id GROUP", "read as a member of this group")
    parser.option("--max-messages NUMBER", "end after this many records; -1: never", type=integer, default=-1)
    parser.option("--verbose", "print a line for each record")
    parser.add_argument("--acknowledgement-mode", default="auto", choices=_MODES, help="auto: with the next poll; sync "
                        "or async: each on its own, at once")  # fmt: skip
    parser.option("--ack-pattern KIND,KIND", "accept, release, reject or renew, for record after record")
    parser.option("--offset-reset-strategy STRATEGY", "earliest or latest: where the group begins", default="")


async def run(tool: Tool) -> None:
    options = tool.options
    tool.required("bootstrap_server", "topic", "group_id")
    if not options.group_id:
        raise ToolUsageError("--group-id has to have a value")
    pattern = _pattern(options.ack_pattern, options.acknowledgement_mode)
    properties = tool.properties("command_config") | {"group.id": options.group_id}
    async with Client(options.bootstrap_server, properties) as client:
        reader = _Reader(tool, client, pattern)
        try:
            await reader.begin(client)
            async with ShareConsumer(client, [options.topic], reader.acknowledged) as consumer:
                await reader.read(consumer)
        except ClientError as error:
            tool.warn(str(error))
        finally:
            reader.end()


def _pattern(given: str | None, mode: str) -> list[int]:
    """Return the kinds of acknowledgements, record after record."""
    if not given:
        return [ACCEPT]
    if mode == "auto":
        raise ToolUsageError(_NEEDS_MODE)
    names = [each.strip().lower() for each in given.split(",")]
    if unknown := [name for name in names if name not in _KINDS]:
        raise ToolUsageError(f"--ack-pattern has no type {unknown[0]}: it must be one of {', '.join(_KINDS)}")
    found = [_KINDS[name] for name in names]
    if set(found) == {RENEW}:
        raise ToolUsageError(_NEVER_ENDS)
    return found


class _Reader:
    """The events of a run."""

    def __init__(self, tool: Tool, client: Client, pattern: list[int]) -> None:
        self._options = tool.options
        self._events = Events(tool, client)
        self._pattern = pattern
        self._renewals: dict[tuple[TopicPartition, int], int] = {}
        self._count = 0

    async def begin(self, client: Client) -> None:
        self._events.report("startup_complete")
        strategy = self._options.offset_reset_strategy
        if strategy:
            group = Resource(ConfigResourceType.GROUP, self._options.group_id)
            await alter_configs(client, group, [ConfigChange(_RESET, AlterConfigOp.SET, strategy)])
            self._events.report("offset_reset_strategy_set", offsetResetStrategy=strategy)

    async def read(self, consumer: ShareConsumer) -> None:
        explicit, most = self._options.acknowledgement_mode != "auto", self._options.max_messages
        while most < 0 or self._count < most:
            delivered = await consumer.poll(_POLL_MS, _MOST_RECORDS)
            if not delivered:
                continue
            self._consumed(delivered)
            for each in delivered:
                consumer.acknowledge(each, self._kind(each))
            if explicit:
                await consumer.commit()

    def _kind(self, delivered: Delivered) -> int:
        """Return the acknowledgement that the pattern has for the record."""
        where = delivered.partition, delivered.record.offset
        renewals = self._renewals.get(where, 0)
        kind = self._pattern[(delivered.record.offset + renewals) % len(self._pattern)]
        if kind == RENEW:
            self._renewals[where] = renewals + 1
        else:
            self._renewals.pop(where, None)
        return kind

    def _consumed(self, delivered: list[Delivered]) -> None:
        found: dict[TopicPartition, list[int]] = {}
        for each in delivered:
            found.setdefault(each.partition, []).append(each.record.offset)
            if self._options.verbose:
                record = each.record
                self._events.report(
                    "record_data",
                    key=text(record.key),
                    value=text(record.value),
                    **each.partition._asdict(),
                    offset=record.offset,
                )
        self._count += len(delivered)
        told = [_of_partition(partition, offsets) for partition, offsets in found.items()]
        self._events.report("records_consumed", count=len(delivered), partitions=told)

    def acknowledged(self, partition: TopicPartition, kinds: dict[int, int], error: ClientError | None) -> None:
        outcome: dict[str, Any] = {"success": True} if error is None else {"success": False, "error": str(error)}
        if self._options.ack_pattern:
            counts = {name.upper(): list(kinds.values()).count(kind) for name, kind in _KINDS.items()}
            outcome["ackTypeCounts"] = {name: count for name, count in counts.items() if count}
        told = [_of_partition(partition, [*kinds])]
        self._events.report("offsets_acknowledged", count=len(kinds), partitions=told, **outcome)

    def end(self) -> None:
        self._events.report("shutdown_complete")
        self._events.report("shutdown_requested")


def _of_partition(partition: TopicPartition, offsets: list[int]) -> dict[str, Any]:
    return {**partition._asdict(), "count": len(offsets), "offsets": sorted(offsets)}
