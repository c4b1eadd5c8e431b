"""`kafka-get-offsets`.

Rule: a partition without such an offset has no line; an error is reported on standard error and the partition skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.leaders import list_offsets
from pykafka_broker.client.properties import integer, java_split, long
from pykafka_broker.client.topics import list_topics
from pykafka_broker.protocol.enums import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    TopicPartition,
)
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError, explained, matcher

_TIMES = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD,
}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
Filter = Callable[[str, int], bool]


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.option("--topic REGEX", "only topics whose names match")
    parser.option("--partitions ID,...", "only these partitions of each topic")
    parser.option(
        "--topic-partitions RULE,...",
        "topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3: the end of a range is not in it; :1 is of all topics",
    )
    parser.option("--time TIME", f"{', '.join(_TIMES)}, or milliseconds", default="latest")
    parser.option("--exclude-internal-topics", "leave out internal topics")


async def run(tool: Tool) -> None:
    tool.required("bootstrap_server")
    try:
        await _run(tool)
    except ToolUsageError as error:
        raise ToolUsageError(f"Error occurred: {error}") from None
    except ClientError as error:
        raise ClientError(f"Error occurred: {explained(error)}") from None


async def _run(tool: Tool) -> None:
    if tool.given("topic_partitions") and (tool.given("topic") or tool.given("partitions")):
        raise ToolUsageError("--topic-partitions cannot be used with --topic or --partitions")
    time = _time(tool.options.time)
    wanted = _by_rules(tool.options.topic_partitions) if tool.given("topic_partitions") else _by_lists(tool)
    async with tool.connect() as client:
        partitions = await _partitions(client, wanted, tool.options.exclude_internal_topics)
        if not partitions:
            raise ClientError("Could not match any topic-partitions with the specified filters")
        found = await list_offsets(client, dict.fromkeys(partitions, time))
    tool.result = []
    for topic, partition in partitions:
        answer = found[TopicPartition(topic, partition)]
        if isinstance(answer, ClientError):
            tool.warn(f"Skip getting offsets for topic-partition {topic}-{partition} due to error: {answer.java}")
        elif answer.offset >= 0:
            tool.print(f"{topic}:{partition}:{answer.offset}")
            tool.result.append({"topic": topic, "partition": partition, "offset": answer.offset})


def _time(text: str) -> int:
    try:
        return _TIMES[text] if text in _TIMES else long(text)
    except ValueError:
        known = " / ".join(f"{number} or {name}" for name, number in _TIMES.items())
        raise ToolUsageError(
            f"Malformed time argument {text}. Please use {known}, or a specified long format timestamp"
        ) from None


def _by_lists(tool: Tool) -> Filter:
    """Return the filter of `--topic` and `--partitions`."""
    allows = matcher(".*" if tool.options.topic is None else tool.options.topic)
    listed = tool.options.partitions
    try:
        partitions = {integer(each) for each in java_split(",", listed)} if listed else set()
    except ValueError:
        raise ToolUsageError(
            "--partitions expects a comma separated list of numeric partition ids, "
            f"but received: {tool.options.partitions}"
        ) from None
    return lambda topic, partition: allows(topic) and (not partitions or partition in partitions)


def _by_rules(text: str) -> Filter:
    """Return the filter of `--topic-partitions`: a partition passes if any of the rules fits."""
    rules = [_rule(each) for each in java_split(",", text)]
    return lambda topic, partition: any(rule(topic, partition) for rule in rules)


def _rule(text: str) -> Filter:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ToolUsageError(f"Invalid rule specification: {text}")
    name, one, first, end = match.groups()
    allows = matcher(name or ".*")
    try:
        low, high = integer(one or first or "0"), integer(end) if end else 1 << 31
    except ValueError as error:
        raise ToolUsageError(str(error)) from None
    if one:
        return lambda topic, partition: allows(topic) and partition == low
    return lambda topic, partition: allows(topic) and low <= partition < high


async def _partitions(client: Client, wanted: Filter, no_internal: bool) -> list[TopicPartition]:
    """Return the wanted partitions in the order of Kafka's script, which is that of their texts: 1, 10, 2."""
    topics = [topic for topic in await list_topics(client) if not (no_internal and topic.is_internal)]
    found = [
        TopicPartition(topic.name or "", each.partition_index)
        for topic in topics
        for each in topic.partitions
        if wanted(topic.name or "", each.partition_index)
    ]
    return sorted(found, key=str)
