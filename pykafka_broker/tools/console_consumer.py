"""`kafka-console-consumer`.

Rule: without `--partition` the consumer is a member of a group. If no group is named, the consumer takes a new group
and commits nothing. The exit code is 0 when no record comes for `--timeout-ms`, and also when a broker refuses a
request.
"""

from __future__ import annotations

import random

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.consumer import Consumer
from pykafka_broker.client.group_consumer import GroupConsumer
from pykafka_broker.client.properties import integer, long
from pykafka_broker.protocol.enums import EARLIEST, LATEST
from pykafka_broker.tools.console_output import Consumed, Output, add_formatter, group_of
from pykafka_broker.tools.frame import Old, Tool, ToolParser, ToolUsageError, subscribed

_OLD = Old("consumer.config", "consumer-property")
_LEVELS = ("read_committed", "read_uncommitted")


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.add_properties(_OLD, "consumer")
    parser.option("--topic TOPIC", "print the records of this topic")
    parser.option("--include REGEX", "read all topics whose names match")
    parser.option("--partition ID", "only this partition", type=integer)
    parser.option("--offset OFFSET", "the first offset: a number, earliest or latest (default)")
    parser.option("--from-beginning", "begin at the start of the topic, unless the group has offsets")
    parser.option("--group GROUP", "read as a member of this group")
    parser.option("--isolation-level LEVEL", "read_committed or read_uncommitted (default)")
    parser.option("--skip-message-on-error", "skip records that can't be printed")
    add_formatter(parser)


async def run(tool: Tool) -> None:
    tool.required("bootstrap_server")
    tool.one_of("topic", "include")
    if "" in (tool.options.topic, tool.options.include):
        raise ToolUsageError("Topics to read have to have a name")
    offset = _offset(tool)
    properties = _properties(tool)
    wanted = [tool.options.topic] if tool.options.topic is not None else subscribed(tool.options.include)
    output = Output(tool, skip_errors=tool.options.skip_message_on_error)
    async with Client(tool.options.bootstrap_server, properties) as client:
        with output.running():
            if tool.options.partition is None:
                async with GroupConsumer(client, {}, wanted) as member:
                    await _print(member, output)
            else:
                async with Consumer(client) as consumer:
                    _assign(tool, consumer, offset)
                    await _print(consumer, output)


def _offset(tool: Tool) -> int:
    """Return the offset to start at, or a constant of ListOffsets. Raises ToolUsageError."""
    given_offset = tool.options.offset
    if tool.options.partition is not None and tool.options.topic is None:
        raise ToolUsageError("The topic is required when partition is specified.")
    if tool.given("offset") and tool.options.partition is None:
        raise ToolUsageError("The partition is required when offset is specified.")
    tool.never_with("offset", "from_beginning")
    tool.never_with("group", "partition")
    if given_offset is None:
        return EARLIEST if tool.options.from_beginning else LATEST
    if given_offset.lower() in ("earliest", "latest"):
        return EARLIEST if given_offset.lower() == "earliest" else LATEST
    try:
        offset = long(given_offset)
    except ValueError:
        offset = -1
    if offset < 0:
        wrong = f"The provided offset value '{given_offset}' is incorrect."
        raise ToolUsageError(f"{wrong} Valid values are 'earliest', 'latest', or a non-negative long.")
    return offset


def _properties(tool: Tool) -> dict[str, str]:
    found = tool.properties_of(_OLD)
    reset = found.get("auto.offset.reset")
    if tool.options.from_beginning and reset not in (None, "earliest"):
        one = "please remove one option"
        raise ToolUsageError(f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', {one}")
    found.setdefault("auto.offset.reset", "earliest" if tool.options.from_beginning else "latest")
    group = group_of(tool, found)
    if group is None:
        found.setdefault("enable.auto.commit", "false")
    found["group.id"] = f"console-consumer-{random.randrange(100_000)}" if group is None else group
    if tool.options.isolation_level is not None:
        found["isolation.level"] = tool.options.isolation_level
    if found.setdefault("isolation.level", "read_uncommitted") not in _LEVELS:
        raise ToolUsageError(f"isolation.level must be one of {', '.join(_LEVELS)}")
    found.setdefault("client.id", "console-consumer")
    return found


def _assign(tool: Tool, consumer: Consumer, offset: int) -> None:
    partition = (tool.options.topic, tool.options.partition)
    consumer.assign([partition])
    if offset >= 0:
        consumer.seek(partition, offset)
    else:
        consumer.seek_to_time(partition, offset)


async def _print(consumer: Consumer | GroupConsumer, output: Output) -> None:
    async for chunk in output.polled(consumer.poll, "consumer"):
        for record in chunk.records:
            output.print(Consumed(chunk.partition, record, chunk.timestamp_type, chunk.leader_epoch))
