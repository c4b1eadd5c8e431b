"""What the console consumers have in common: formatters, their flags, and where records are printed.

Rule: a formatter is chosen by the name of Kafka's class; bytes go to standard output as they are.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.properties import integer, long
from pykafka_broker.tools.frame import Tool, ToolParser, UsageError
from pykafka_broker.tools.progress import NOTHING, Bar
from pykafka_broker.tools.properties_of import deprecated, merged
from pykafka_broker.tools.record_text import Consumed, Formatter

_TOOLS = "org.apache.kafka.tools.consumer."
DEFAULT = f"{_TOOLS}DefaultMessageFormatter"
_PROPERTIES = (
    "print.timestamp, print.key, print.offset, print.epoch, print.partition, print.headers, print.value (true or "
    "false), print.delivery, key.separator, line.separator, headers.separator, null.literal, key.deserializer, "
    "value.deserializer, headers.deserializer"
)
_FOR_EVER_MS = 2**31
Text = Callable[[Consumed], bytes]
Chunk = TypeVar("Chunk")


def add_formatter(parser: ToolParser) -> None:
    parser.add_argument("--formatter", default=DEFAULT, metavar="CLASS", help=f"one of {_TOOLS}")
    parser.add_argument("--formatter-config", metavar="FILE", help="properties of the formatter")
    parser.add_argument("--formatter-property", action="append", metavar="NAME=VALUE", help=_PROPERTIES)
    parser.add_argument("--property", action="append", metavar="NAME=VALUE", help="the same (deprecated)")
    parser.add_argument("--key-deserializer", metavar="CLASS", help="what keys mean")
    parser.add_argument("--value-deserializer", metavar="CLASS", help="what values mean")
    parser.add_argument("--max-messages", type=integer, metavar="NUMBER", help="end after so many")
    parser.add_argument("--timeout-ms", type=long, metavar="MS", help="end when none comes for so long")
    parser.add_argument("--enable-systest-events", action="store_true", help="tell of start and end, too")


def formatter_of(tool: Tool) -> Text:
    """Raises UsageError and ClientError."""
    properties = merged(tool, "formatter_config", "formatter_property", "property")
    deprecated(tool, "property", "formatter-property")
    for flag in ("key_deserializer", "value_deserializer"):
        if (name := getattr(tool.options, flag)) is not None:
            properties[flag.replace("_", ".")] = name
    before, package, name = tool.options.formatter.rpartition(_TOOLS)
    if before or not package:
        raise UsageError(f"there is no formatter {tool.options.formatter}")
    if name == "DefaultMessageFormatter":
        return Formatter(properties).text
    if name == "LoggingMessageFormatter":
        return Formatter(properties).text
    if name == "NoOpMessageFormatter":
        return lambda _: b""
    from pykafka_broker.tools.internal_records import FORMATTERS

    try:
        return FORMATTERS[name]
    except KeyError:
        raise UsageError(f"there is no formatter {tool.options.formatter}") from None


class Output:
    """Where records are printed, and how many were. Raises ClientError for one that can't be, unless they are skipped.

    `most` None: without end.
    """

    def __init__(self, tool: Tool, *, skip_errors: bool = False) -> None:
        self.count = 0
        self.most: int | None = tool.options.max_messages if (tool.options.max_messages or 0) >= 0 else None
        self._tool = tool
        self._text = formatter_of(tool)
        self._skip_errors = skip_errors
        self._bar: Bar = NOTHING
        if tool.options.json:
            tool.result = []

    @property
    def left(self) -> int:
        """How many may be polled for now."""
        return 500 if self.most is None else min(500, self.most - self.count)

    @property
    def full(self) -> bool:
        return self.most is not None and self.count >= self.most

    def print(self, consumed: Consumed) -> bool:
        """Whether the record could be printed; it counts anyway."""
        self.count += 1
        self._bar.update()
        if self._tool.options.json:
            self._tool.result.append(as_data(consumed))
            return True
        try:
            text = self._text(consumed)
        except ClientError as error:
            if not self._skip_errors:
                raise
            self._tool.warn(f"Error processing message, skipping this message: {error}")
            return False
        write(text)
        return True

    async def polled(self, poll: Callable[[int, int], Awaitable[list[Chunk]]], who: str) -> AsyncIterator[Chunk]:
        """What comes, until it is enough or --timeout-ms bring nothing. poll: is given how long to wait and how many to
        take at most; who: for what is said of an error that ends it.
        """
        timeout_ms = self._tool.options.timeout_ms
        wait_ms = _FOR_EVER_MS if timeout_ms is None or timeout_ms < 0 else timeout_ms
        while not self.full:
            try:
                found = await poll(wait_ms, self.left)
            except ClientError as error:
                self._tool.warn(f"Error processing message, terminating {who} process: {error}")
                return
            if not found and wait_ms != _FOR_EVER_MS:
                return
            for each in found:
                yield each

    @contextmanager
    def progress(self) -> Iterator[None]:
        """A bar, unless the records themselves are on the screen."""
        if sys.stdout.isatty():
            yield
            return
        with self._tool.progress("reading", self.most, "record") as self._bar:
            yield
        self._bar = NOTHING

    def event(self, name: str) -> None:
        """For Kafka's system tests."""
        if self._tool.options.enable_systest_events:
            self._tool.print(name)

    def end(self) -> None:
        if not self._tool.options.json:
            sys.stdout.flush()
        self._tool.warn(f"Processed a total of {self.count} messages")


def write(data: bytes) -> None:
    """To standard output, which takes text only when a test looks on."""
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(data.decode("utf-8", "replace"))
    else:
        binary.write(data)


def as_data(consumed: Consumed) -> dict[str, Any]:
    """A record as JSON has it; what is no text is told as `{"base64": ...}`."""
    record = consumed.record
    found: dict[str, Any] = {
        "topic": consumed.partition.topic,
        "partition": consumed.partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": ("CreateTime", "LogAppendTime")[consumed.timestamp_type],
        "leader_epoch": consumed.leader_epoch,
        "key": _told(record.key),
        "value": _told(record.value),
        "headers": [{"key": name, "value": _told(value)} for name, value in record.headers],
    }
    if consumed.deliveries is not None:
        found["delivery_count"] = consumed.deliveries
    return found


def _told(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
