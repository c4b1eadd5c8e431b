"""`kafka-end-to-end-latency`: sends one record after the other and waits for each.

Rule: flags have names since Kafka 4.2; the five or six words of older scripts are accepted, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from pykafka_broker.client.cluster import Client, Leaders
from pykafka_broker.client.consumer import Consumer
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.leaders import offsets_at
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.properties import integer
from pykafka_broker.protocol.enums import LATEST, TopicPartition
from pykafka_broker.records.record import BatchRecord, Headers
from pykafka_broker.server.event_loop import nanoseconds
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.statistics import percentiles

_WORDS = ("bootstrap_server", "topic", "num_records", "producer_acks", "record_size", "command_config")
_OLD = (
    "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named "
    "arguments instead: " + ", ".join("--" + each.replace("_", "-") for each in _WORDS)
)
_WAIT_MS = 60_000
_EVERY = 1_000


def options(parser: ToolParser) -> None:
    parser.add_argument("words", nargs="*", help="the same values without flags, as before Kafka 4.2")
    parser.add_connection()
    parser.option("--topic TOPIC", "send records to this topic")
    parser.option("--num-records NUMBER", "how many records to send")
    parser.option("--producer-acks ACKS", "1 or all")
    parser.option("--record-size BYTES", "size of each value")
    parser.option("--record-key-size BYTES", "size of each key; 0: no key", default="0")
    parser.option("--num-headers NUMBER", "headers of each record", default="0")
    parser.option("--record-header-key-size BYTES", "size of the name of each header", default="0")
    parser.option("--record-header-size BYTES", "size of the value of each header", default="0")


async def run(tool: Tool) -> None:
    _take_words(tool, tool.options.words)
    tool.required("bootstrap_server", "topic", "num_records", "producer_acks", "record_size")
    count, make = _number(tool, "num_records", 1), _Parts(tool)
    if tool.options.producer_acks not in ("1", "all"):
        wrong = "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement."
        raise ToolUsageError(f"{wrong} Please use '1' or 'all'.")
    properties = tool.properties("command_config") | {
        "acks": tool.options.producer_acks,
        "linger.ms": "0",
        "max.block.ms": str(2**31),
        "auto.offset.reset": "latest",
        "fetch.max.wait.ms": "0",
    }
    if tool.options.producer_acks != "all":
        properties["enable.idempotence"] = "false"
    client = Client(tool.options.bootstrap_server, properties)
    async with client, Producer(client) as producer, Consumer(client) as consumer:
        await _begin(tool, client, consumer)
        latencies = []
        with tool.progress("measuring", count, "record") as shown:
            for number in range(count):
                latencies.append(await _one(tool, producer, consumer, make, number))
                shown.update()
    _report(tool, latencies)


def _take_words(tool: Tool, words: Sequence[str]) -> None:
    if not words:
        return
    if len(words) not in (5, 6):
        usage = "Usage: bootstrap-server topic num-records producer-acks record-size [optional] command-config"
        found = f"Expected 5 or 6 positional arguments, but got {len(words)}."
        raise ToolUsageError(f"Invalid number of arguments. {found} {usage}")
    tool.print(_OLD)
    for name, word in zip(_WORDS, words, strict=False):
        setattr(tool.options, name, word)


def _number(tool: Tool, name: str, least: int) -> int:
    """Return an option as a Java int. Raises ToolUsageError."""
    text = getattr(tool.options, name)
    spelt = name.replace("_", "-")
    try:
        number = integer(text)
    except ValueError:
        raise ToolUsageError(f"Cannot parse argument '{text}' of option {spelt}") from None
    if number < least:
        raise ToolUsageError(f"Value for --{spelt} must be at least {least}.")
    return number


async def _begin(tool: Tool, client: Client, consumer: Consumer) -> None:
    """Start to read all partitions at the end; a missing topic is created."""
    topic = tool.options.topic
    found = await client.metadata([topic])
    if not found.topics or found.topics[0].error_code:
        made = "Will create topic with 1 partition(s) and replication factor = 1"
        tool.print(f'Topic "{topic}" does not exist. {made}')
    count = len(await Leaders(client, create=True).of(topic, client.api_timeout_ms))
    partitions = [TopicPartition(topic, each) for each in range(count)]
    consumer.assign(partitions)
    for partition, end in (await offsets_at(client, partitions, LATEST)).items():
        consumer.seek(partition, end)


class _Parts:
    """The keys, values and headers to send. Raises ToolUsageError."""

    def __init__(self, tool: Tool) -> None:
        self._value = _number(tool, "record_size", 0)
        self._key = _number(tool, "record_key_size", 0)
        self._headers = _number(tool, "num_headers", 0)
        self._header_key = _number(tool, "record_header_key_size", 0)
        self._header = _number(tool, "record_header_size", 0)

    def value(self) -> bytes:
        return os.urandom(self._value)

    def key(self) -> bytes | None:
        return os.urandom(self._key) if self._key else None

    def headers(self) -> Headers:
        return [("h" * self._header_key, os.urandom(self._header)) for _ in range(self._headers)]


async def _one(tool: Tool, producer: Producer, consumer: Consumer, make: _Parts, number: int) -> float:
    """Send and receive a record; returns the latency in milliseconds."""
    key, headers, value = make.key(), make.headers(), make.value()
    began = nanoseconds()
    await producer.deliver(tool.options.topic, value, key, headers=headers)
    chunks = await consumer.poll(_WAIT_MS)
    elapsed = (nanoseconds() - began) / 1e6
    records: list[BatchRecord] = [each for chunk in chunks for each in chunk.records]
    if len(records) != 1:
        raise ClientError(f"{len(records)} records came within {_WAIT_MS} ms where one was sent")
    if records[0].value != value:
        raise ClientError("The record that came is another one than the one that was sent")
    if number % _EVERY == 0:
        tool.print(f"{number}\t{elapsed}")
    return elapsed


def _report(tool: Tool, latencies: list[float]) -> None:
    mean = sum(latencies) / len(latencies)
    at = percentiles([int(each) for each in latencies], (0.5, 0.99, 0.999))
    tool.print(f"Avg latency: {mean:.4f} ms")
    tool.print(f"Percentiles: 50th = {at[0]}, 99th = {at[1]}, 99.9th = {at[2]}")
    tool.result = {
        "records": len(latencies),
        "avg_latency_ms": mean,
        **dict(zip(("p50_ms", "p99_ms", "p999_ms"), at, strict=True)),
    }
