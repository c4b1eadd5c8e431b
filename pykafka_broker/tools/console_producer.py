"""`kafka-console-producer`.

Rule: what is not delivered is told on standard error, and the exit code stays 0, as with Kafka's script; with `--sync`
it ends the tool with 1, and so does a line that can't be read.
"""

from __future__ import annotations

from typing import Any

from pykafka_broker.client.batches import Delivery
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.properties import integer, long
from pykafka_broker.tools.frame import FAILED, Tool, ToolParser, UsageError
from pykafka_broker.tools.input_lines import lines_of, size_of
from pykafka_broker.tools.line_reader import Line, LineReader
from pykafka_broker.tools.progress import NOTHING, Bar
from pykafka_broker.tools.properties_of import Old, add_properties, deprecated, merged, properties_of
from pykafka_broker.tools.usage import required

SUMMARY = "send lines of standard input as records"

_WARNING = "Warning: --{} is deprecated and will be removed in a future version. Use --{} instead."
_UNTIL_5 = "Warning: --{} is deprecated and will be removed in Apache Kafka 5.0. Use --{} instead."
_OLD = Old("producer.config", "producer-property", _WARNING)
_READER = "org.apache.kafka.tools.LineMessageReader"
_NUMBERS = {  # flag: (property, default of the tool)
    "batch_size": ("batch.size", 16_384),
    "max_memory_bytes": ("buffer.memory", 33_554_432),
    "max_block_ms": ("max.block.ms", 60_000),
    "message_send_max_retries": ("retries", 3),
    "metadata_expiry_ms": ("metadata.max.age.ms", 300_000),
    "request_timeout_ms": ("request.timeout.ms", 1_500),
    "retry_backoff_ms": ("retry.backoff.ms", 100),
    "socket_buffer_size": ("send.buffer.bytes", 102_400),
    "timeout": ("linger.ms", 1_000),
}
_INTEGERS = ("batch_size", "message_send_max_retries", "request_timeout_ms", "socket_buffer_size")


def options(parser: ToolParser) -> None:
    parser.add_connection()
    add_properties(parser, _OLD, "producer")
    parser.add_argument("--topic", metavar="TOPIC", help="where the records go")
    parser.add_argument("--sync", action="store_true", help="wait for each record before the next is read")
    parser.add_argument(
        "--compression-codec", nargs="?", const="gzip", metavar="CODEC", help="none, gzip (without a value), snappy, "
        "lz4 or zstd",
    )  # fmt: skip
    parser.add_argument("--request-required-acks", metavar="ACKS", help="0, 1 or all (default)")
    for name, (key, default) in _NUMBERS.items():
        text = f"property {key} of the producer (default: {default})"
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=integer if name in _INTEGERS else long, metavar="NUMBER", help=text
        )
    parser.add_argument("--max-partition-memory-bytes", type=integer, metavar="NUMBER", help="batch.size (deprecated)")
    parser.add_argument("--line-reader", default=_READER, metavar="CLASS", help=f"only {_READER}")
    parser.add_argument("--reader-config", metavar="FILE", help="properties of the reader")
    parser.add_argument(
        "--reader-property", action="append", metavar="NAME=VALUE",
        help="parse.key=false, parse.headers=false, ignore.error=false, key.separator=\\t, headers.delimiter=\\t, "
        "headers.separator=, headers.key.separator=: null.marker= (what stands for null)",
    )  # fmt: skip
    parser.add_argument("--property", action="append", metavar="NAME=VALUE", help="the same (deprecated)")


async def run(tool: Tool) -> int:
    required(tool, "bootstrap_server", "topic")
    properties = _properties(tool)
    if tool.options.line_reader != _READER:
        raise UsageError(f"{tool.options.line_reader} is not known, only {_READER}")
    reader = LineReader(merged(tool, "reader_config", "reader_property", "property"))
    deprecated(tool, "property", "reader-property", _WARNING)
    async with Client(tool.options.bootstrap_server, properties) as client, Producer(client) as producer:
        sender = _Sender(tool, producer)
        if (size := size_of(tool.stdin)) is None:
            status = await sender.send_all(reader, NOTHING)
        else:
            with tool.progress("sending", size, "B") as shown:
                status = await sender.send_all(reader, shown)
        await producer.flush()
    tool.result = sender.delivered
    return status


def _properties(tool: Tool) -> dict[str, str]:
    """Flags that were given win over the file, and defaults of the tool over nothing."""
    found, options = properties_of(tool, _OLD), vars(tool.options)
    for flag, (key, default) in _NUMBERS.items():
        if options[flag] is not None:
            found[key] = str(options[flag])
        else:
            found.setdefault(key, str(default))
    deprecated(tool, "max-partition-memory-bytes", "batch-size", _UNTIL_5)
    if options["max_partition_memory_bytes"] is not None:
        found["batch.size"] = str(options["max_partition_memory_bytes"])
    for flag, key, fallback in (
        ("compression_codec", "compression.type", "none"),
        ("request_required_acks", "acks", "-1"),
    ):
        if options[flag] is not None:
            found[key] = options[flag]
        else:
            found.setdefault(key, fallback)
    if not found["compression.type"]:  # an empty codec is the flag without a value, an empty property is none
        found["compression.type"] = "none" if options["compression_codec"] is None else "gzip"
    found.setdefault("client.id", "console-producer")
    return found


class _Sender:
    """Lines on their way."""

    def __init__(self, tool: Tool, producer: Producer) -> None:
        self.delivered: list[dict[str, Any]] = []
        self._tool = tool
        self._producer = producer
        self._prompt = tool.stdin.isatty() and not tool.options.json

    async def send_all(self, reader: LineReader, shown: Bar) -> int:
        self._ask()
        async for texts in lines_of(self._tool.stdin):
            for text in texts:
                try:
                    line = reader.read(text.decode("utf-8", "surrogateescape"))
                except ClientError as error:
                    self._tool.warn(str(error))
                    return FAILED
                await self._send(line)
                shown.update(len(text) + 1)
            self._ask()
        return 0

    def _ask(self) -> None:
        if self._prompt:
            print(">", end="", flush=True)

    async def _send(self, line: Line) -> None:
        """Raises ClientError with `--sync`."""
        topic, send = self._tool.options.topic, self._producer.send
        if self._tool.options.sync:
            self._tell(await self._producer.deliver(topic, line.value, line.key, headers=line.headers))
            return
        try:
            await send(topic, line.value, line.key, headers=line.headers, on_delivery=self._tell)
        except ClientError as error:
            self._failed(topic, error)

    def _tell(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._failed(delivery.topic, delivery.error)
        elif self._tool.options.json:
            self.delivered.append({"topic": delivery.topic, "partition": delivery.partition, "offset": delivery.offset})

    def _failed(self, topic: str, error: ClientError) -> None:
        self._tool.warn(f"a record for topic {topic} was not sent: {error}")
