"""`kafka-console-producer`.

Rule: a failed delivery is reported on standard error, and the exit code stays 0, as with Kafka's script. With `--sync`
a failed delivery ends the tool with 1; a line that can't be read always does. Standard input is read in a thread, which
may still wait for input when the tool ends. A line ends with LF, CR LF or CR, as in Java's BufferedReader.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from io import UnsupportedOperation
from typing import Any, NamedTuple, TextIO

from pykafka_broker.client.batches import Delivery
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.properties import integer, java_split, long
from pykafka_broker.config.java_regex import JavaRegexError, compile_java
from pykafka_broker.records.record import Headers
from pykafka_broker.tools.frame import FAILED, Old, Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.progress import INVISIBLE, Bar

# -- lines


_AT_ONCE = 64 << 10  # bytes of a read
_END = re.compile(rb"\r\n|\n|\r")


def size_of(stdin: TextIO) -> int | None:
    """Return the size of standard input in bytes, None if unknown."""
    try:
        found = os.fstat(stdin.fileno())
    except UnsupportedOperation:  # text of a test
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


async def lines_of(stdin: TextIO) -> AsyncIterator[list[bytes]]:
    """Yield lines of standard input without line ends, as soon as possible. Raises ClientError."""
    pieces: list[bytes] = []  # of a line without its end
    after_cr = False  # an LF that comes now belongs to the line end before it
    async for chunk in _chunks(stdin):
        first, *others = _END.split(chunk[1:] if after_cr and chunk.startswith(b"\n") else chunk)
        after_cr = chunk.endswith(b"\r")
        pieces.append(first)
        if others:
            yield [b"".join(pieces), *others[:-1]]
            pieces = others[-1:]
    if any(pieces):
        yield [b"".join(pieces)]


async def _chunks(stdin: TextIO) -> AsyncIterator[bytes]:
    try:
        descriptor = stdin.fileno()
    except UnsupportedOperation:  # text of a test
        yield stdin.buffer.read()
        return
    loop, chunks = asyncio.get_running_loop(), asyncio.Queue[bytes | OSError](2)

    def hand_over(found: bytes | OSError) -> None:
        putting = chunks.put(found)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        finally:
            putting.close()  # if the loop has ended, the coroutine never began, and Python would warn of it

    def read() -> None:
        with suppress(RuntimeError, CancelledError):  # the loop has ended
            try:
                while chunk := os.read(descriptor, _AT_ONCE):
                    hand_over(chunk)
                hand_over(b"")
            except OSError as error:
                hand_over(error)

    threading.Thread(target=read, name="standard input", daemon=True).start()
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise ClientError(f"standard input can't be read: {chunk.strerror}")
        yield chunk


# -- line readers


class ParsedLine(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers


class LineReader:
    """The reader of lines as records. Raises ClientError if a line lacks a part, and `ignore.error` is not set."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._keys = _is_true(properties, "parse.key")
        self._headers = _is_true(properties, "parse.headers")
        self._lenient = _is_true(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._delimiter = properties.get("headers.delimiter", "\t")
        self._separator = properties.get("headers.separator", ",")  # a regular expression
        self._pair_separator = properties.get("headers.key.separator", ":")
        self._null = properties.get("null.marker")
        self._number = 0
        self._check()

    def _check(self) -> None:
        """Check for ambiguous separators. Raises ClientError."""
        named = {
            "headers.delimiter": self._delimiter,
            "headers.separator": self._separator,
            "headers.key.separator": self._pair_separator,
        }
        for first, second in (
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ):
            if named[first] == named[second]:
                raise ClientError(f"{first} and {second} may not be equal")
        if self._null is not None:
            for name, separator in {"key.separator": self._key_separator, **named}.items():
                if self._null == separator:
                    raise ClientError(f"null.marker and {name} may not be equal")
        try:
            self._between_pairs = compile_java(self._separator)
        except JavaRegexError as error:
            raise ClientError(f"headers.separator {self._separator} makes no sense: {error}") from None

    def read(self, text: str) -> ParsedLine:
        self._number += 1
        headers, rest = self._cut(text, text, self._headers, self._delimiter, "headers delimiter")
        key, value = self._cut(text, rest, self._keys, self._key_separator, "key separator")
        found = [] if headers is None or headers == self._null else self._pairs(headers)
        return ParsedLine(None if key is None else self._bytes(key), self._bytes(value), found)

    def _cut(self, line: str, text: str, wanted: bool, separator: str, what: str) -> tuple[str | None, str]:
        if not wanted:
            return None, text
        if not separator:  # Java's String.indexOf finds an empty text at the start
            return "", text
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self._lenient:
            return None, text
        raise ClientError(f"No {what} found on line number {self._number}: '{line}'")

    def _pairs(self, text: str) -> Headers:
        found: Headers = []
        for pair in java_split(self._between_pairs, text):
            # An empty pair separator leaves the name empty, as in Java.
            name, separator, value = pair.partition(self._pair_separator) if self._pair_separator else ("", "at", pair)
            if not separator and not self._lenient:
                raise ClientError(f"No header key separator found in pair '{pair}' on line number {self._number}")
            if separator and name == self._null:
                raise ClientError(f"Header keys should not be equal to the null marker '{name}' as they can't be null")
            found.append((name, self._bytes(value) if separator else None))
        return found

    def _bytes(self, text: str) -> bytes | None:
        return None if text == self._null else text.encode("utf-8", "surrogateescape")


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


# -- the tool


_WARNING = "Warning: --{} is deprecated and will be removed in a future version. Use --{} instead."
_UNTIL_5 = "Warning: --{} is deprecated and will be removed in Apache Kafka 5.0. Use --{} instead."
_OLD = Old("producer.config", "producer-property", _WARNING)
_READER = "org.apache.kafka.tools.LineMessageReader"
_NUMBERS = {  # flag: property and the tool's default
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
_PROPERTIES = (
    "parse.key=false, parse.headers=false, ignore.error=false, key.separator=\\t, headers.delimiter=\\t, "
    "headers.separator=, headers.key.separator=: null.marker= (what stands for null)"
)
_INTEGERS = ("batch_size", "message_send_max_retries", "request_timeout_ms", "socket_buffer_size")


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.add_properties(_OLD, "producer")
    parser.option("--topic TOPIC", "send records to this topic")
    parser.option("--sync", "wait for each acknowledgement before the next line is read")
    codecs = "none, gzip (without a value), snappy, lz4 or zstd"
    parser.option("--compression-codec CODEC", codecs, nargs="?", const="gzip")
    parser.option("--request-required-acks ACKS", "0, 1 or all (default)")
    for name, (key, default) in _NUMBERS.items():
        text = f"property {key} of the producer (default: {default})"
        parser.option(f"--{name.replace('_', '-')} NUMBER", text, type=integer if name in _INTEGERS else long)
    parser.option("--max-partition-memory-bytes NUMBER", "batch.size (deprecated)", type=integer)
    parser.option("--line-reader CLASS", f"only {_READER}", default=_READER)
    parser.option("--reader-config FILE", "properties of the reader")
    parser.option("--reader-property NAME=VALUE ...", _PROPERTIES)
    parser.option("--property NAME=VALUE ...", "the same (deprecated)")


async def run(tool: Tool) -> int:
    tool.required("bootstrap_server", "topic")
    properties = _properties(tool)
    if tool.options.line_reader != _READER:
        raise ToolUsageError(f"{tool.options.line_reader} is not known, only {_READER}")
    reader = LineReader(tool.properties("reader_config", pairs=("reader_property", "property")))
    tool.deprecated("property", "reader-property", _WARNING)
    async with Client(tool.options.bootstrap_server, properties) as client, Producer(client) as producer:
        sender = _Sender(tool, producer)
        try:
            if (size := size_of(tool.stdin)) is None:
                status = await sender.send_all(reader, INVISIBLE)
            else:
                with tool.progress("sending", size, "B") as shown:
                    status = await sender.send_all(reader, shown)
        finally:  # after Ctrl-C too: lines that were read are sent, as by Kafka's script
            await producer.flush()
    tool.result = sender.delivered
    return status


def _properties(tool: Tool) -> dict[str, str]:
    """Return the producer's properties: flags win over the file, and the file over the tool's defaults."""
    found, options = tool.properties_of(_OLD), vars(tool.options)
    texts = {"compression_codec": ("compression.type", "none"), "request_required_acks": ("acks", "-1")}
    for flag, (key, default) in (_NUMBERS | texts).items():
        if options[flag] is not None:
            found[key] = str(options[flag])
        else:
            found.setdefault(key, str(default))
    tool.deprecated("max-partition-memory-bytes", "batch-size", _UNTIL_5)
    if options["max_partition_memory_bytes"] is not None:
        found["batch.size"] = str(options["max_partition_memory_bytes"])
    if not found["compression.type"]:  # an empty codec is the flag without a value, an empty property is none
        found["compression.type"] = "none" if options["compression_codec"] is None else "gzip"
    found.setdefault("client.id", "console-producer")
    return found


class _Sender:
    """The way of lines to the producer, with the reports on their deliveries."""

    def __init__(self, tool: Tool, producer: Producer) -> None:
        self.delivered: list[dict[str, Any]] = []
        self._tool = tool
        self._producer = producer
        self._prompt = tool.stdin.isatty() and not tool.options.json

    async def send_all(self, reader: LineReader, shown: Bar) -> int:
        self._show_prompt()
        async for texts in lines_of(self._tool.stdin):
            for text in texts:
                try:
                    line = reader.read(text.decode("utf-8", "surrogateescape"))
                except ClientError as error:
                    self._tool.warn(str(error))
                    return FAILED
                await self._send(line)
                shown.update(len(text) + 1)
            self._show_prompt()
        return 0

    def _show_prompt(self) -> None:
        if self._prompt:
            print(">", end="", flush=True)

    async def _send(self, line: ParsedLine) -> None:
        """Send a line. Raises ClientError with `--sync`."""
        topic, send = self._tool.options.topic, self._producer.send
        if self._tool.options.sync:
            self._on_delivery(await self._producer.deliver(topic, line.value, line.key, headers=line.headers))
            return
        try:
            await send(topic, line.value, line.key, headers=line.headers, on_delivery=self._on_delivery)
        except ClientError as error:
            self._failed(topic, error)

    def _on_delivery(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            self._failed(delivery.topic, delivery.error)
        elif self._tool.options.json:
            self.delivered.append({"topic": delivery.topic, "partition": delivery.partition, "offset": delivery.offset})

    def _failed(self, topic: str, error: ClientError) -> None:
        self._tool.warn(f"a record for topic {topic} was not sent: {error}")
