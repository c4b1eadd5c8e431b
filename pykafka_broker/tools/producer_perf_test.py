"""`kafka-producer-perf-test`.

Rule: a record's latency goes from its `send` to the broker's answer, as in Kafka's tool. `--print-metrics` prints the
figures of this client, which are few.
"""

from __future__ import annotations

import asyncio
import random
import re
import string
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pykafka_broker.client.batches import Delivery
from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.producer import Producer
from pykafka_broker.client.properties import double, integer, long
from pykafka_broker.config.java_regex import JavaRegexError, compile_java
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.progress import Bar
from pykafka_broker.tools.statistics import Stats, ThroughputThrottler, print_metrics

_LETTERS = string.ascii_uppercase.encode()
_SAID = "Option --{} has been deprecated and will be removed in a future version. Use --{} instead."
_TRANSACTION_MS = 3_000
_LARGEST = 2**31 - 1
_KEYS = ("none", "range", "random")
_MOST_BYTES = 16 << 20  # the most bytes of values made before the first send


def options(parser: ToolParser) -> None:
    parser.add_connection()
    parser.option("--topic TOPIC", "send records to this topic")
    parser.option("--num-records NUMBER", "how many records to send", type=long)
    parser.option("--throughput RECORDS/S", "at most this many records a second; -1: no limit", type=double)
    parser.option("--record-size BYTES", "size of values of random letters", type=integer)
    parser.option("--payload-file FILE", "take values from random lines of this file")
    parser.option("--payload-delimiter TEXT", "regular expression between values in the file", default="\\n")
    parser.option("--payload-monotonic", "values are rising numbers")
    for name in ("command-property", "producer-props"):
        parser.option(f"--{name} NAME=VALUE", "properties of the producer", nargs="+")
    parser.option("--producer.config FILE", "the same as --command-config", dest="producer_config")
    parser.option("--print-metrics", "print figures of the client at the end")
    parser.option("--transactional-id ID", "send in transactions of this id")
    parser.option("--transaction-duration-ms MS", "commit each transaction after this time", type=long)
    parser.option("--warmup-records NUMBER", "leave the first records out of the last line", type=long, default=0)
    parser.option("--reporting-interval MS", "time between two lines of figures", type=long, default=5_000)
    parser.option("--key-distribution KIND", "keys: none, in turn (range), or random", choices=_KEYS, default="none")
    parser.option("--record-key-range NUMBER", "keys are numbers below this one", type=integer)
    parser.option("--random-seed NUMBER", "seed of random keys and values", type=long, default=0)


async def run(tool: Tool) -> None:
    _check(tool)
    properties = _properties(tool)
    chance = random.Random(tool.options.random_seed)
    values, keys = _values(tool, chance), _keys(tool, chance)
    bootstrap = tool.options.bootstrap_server or properties.get("bootstrap.servers")
    if bootstrap is None:
        raise ToolUsageError("At least one of --bootstrap-server and bootstrap.servers in a property is required")
    async with Client(bootstrap, properties) as client, Producer(client) as producer:
        with tool.progress("sending", tool.options.num_records, "record") as shown:
            test = _Test(tool, client, producer, shown)
            await test.send(keys, values)
        test.report()


def _check(tool: Tool) -> None:
    options = tool.options
    tool.required("topic", "num_records", "throughput")
    if sum((tool.given("record_size"), tool.given("payload_file"), options.payload_monotonic)) != 1:
        raise ToolUsageError("exactly one of --record-size, --payload-file or --payload-monotonic is needed")
    if options.num_records <= 0:
        raise ToolUsageError("--num-records should be greater than zero")
    if options.record_size is not None and options.record_size <= 0:
        raise ToolUsageError("--record-size should be greater than zero")
    if options.record_size is not None and options.record_size > _LARGEST:
        raise ToolUsageError(f"--record-size should be at most {_LARGEST}")
    if not 0 <= options.warmup_records < options.num_records:
        raise ToolUsageError("--warmup-records must be at least 0 and fewer than --num-records")
    if options.reporting_interval <= 0:
        raise ToolUsageError("--reporting-interval should be greater than zero")
    if tool.given("transaction_duration_ms") and options.transaction_duration_ms <= 0:
        raise ToolUsageError("--transaction-duration-ms should be greater than zero")
    has_range = tool.given("record_key_range")
    if has_range and options.record_key_range <= 0:
        raise ToolUsageError("--record-key-range should be greater than zero.")
    if has_range == (options.key_distribution == "none"):
        raise ToolUsageError("--record-key-range and --key-distribution range or random go together")
    tool.never_with("command_property", "producer_props")
    tool.never_with("command_config", "producer_config")


def _properties(tool: Tool) -> dict[str, str]:
    options = tool.options
    tool.deprecated("producer-props", "command-property", _SAID)
    tool.deprecated("producer.config", "command-config", _SAID)
    found = tool.properties("command_config", "producer_config", pairs=("command_property", "producer_props"))
    found.setdefault("client.id", "perf-producer-client")
    if options.transactional_id is not None:
        found["transactional.id"] = options.transactional_id
    elif options.transaction_duration_ms is not None:
        found.setdefault("transactional.id", f"performance-producer-{uuid.uuid4()}")
    return found


def _keys(tool: Tool, chance: random.Random) -> Callable[[int], bytes | None]:
    """Return a function from a record's number to the key."""
    kind, below = tool.options.key_distribution, tool.options.record_key_range
    if kind == "none":
        return lambda _: None
    if kind == "range":
        return lambda number: b"%d" % (number % below)
    return lambda _: b"%d" % chance.randrange(below)


def _values(tool: Tool, chance: random.Random) -> Callable[[int], bytes]:
    """Return a function from a record's number to the value. Raises ClientError."""
    options = tool.options
    if options.payload_monotonic:
        return lambda number: b"%d" % number
    if options.record_size is not None:
        count = min(100, options.num_records, max(1, _MOST_BYTES // options.record_size))
        some = [bytes(chance.choices(_LETTERS, k=options.record_size)) for _ in range(count)]
        return lambda number: some[number % len(some)]
    tool.print(f"Reading payloads from: {Path(options.payload_file).absolute()}")
    try:
        delimiter = compile_java(options.payload_delimiter)
    except JavaRegexError as error:
        raise ToolUsageError(f"--payload-delimiter {options.payload_delimiter} makes no sense: {error}") from None
    try:
        lines = _tokens(delimiter, Path(options.payload_file).read_bytes().decode("utf-8", "replace"))
    except (OSError, ValueError):  # ValueError: no path can have this form
        lines = []
    if not lines:
        raise ClientError("File does not exist or empty file provided.")
    tool.print(f"Number of records read: {len(lines)}")
    found = [line.encode() for line in lines]
    return lambda _: chance.choice(found)


def _tokens(delimiter: re.Pattern[str], text: str) -> list[str]:
    """Return the values between delimiters, as Java's Scanner: nothing comes before a first one and behind a last."""
    spans = [each.span() for each in delimiter.finditer(text)]
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
    found = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    if not found[0]:
        del found[0]
    if found and not found[-1]:
        del found[-1]
    return found


class _Test:
    """A run of the test."""

    def __init__(self, tool: Tool, client: Client, producer: Producer, shown: Bar) -> None:
        self._tool = tool
        self._shown = shown
        self._producer = producer
        self._clock = client.clock
        self._start = now = client.deadline(0)
        self._all = Stats(tool.options.num_records, now)
        self._steady: Stats | None = None
        self._throttle = ThroughputThrottler(tool.options.throughput, now)
        self._report_at = now + tool.options.reporting_interval
        self._committed_at = now
        self._transactions = producer.settings.transactional_id is not None

    async def send(self, keys: Callable[[int], bytes | None], values: Callable[[int], bytes]) -> None:
        options, producer = self._tool.options, self._producer
        if options.warmup_records:
            which = f"Warmup first {options.warmup_records} records."
            self._tool.print(f"{which} Steady state results will print after the complete test summary.")
        open_transaction = False
        for number in range(options.num_records):
            if self._transactions and not open_transaction:
                await producer.begin_transaction()
                open_transaction, self._committed_at = True, self._clock.tick()
            key, value = keys(number), values(number)
            now = self._clock.tick()
            try:
                delivered = partial(self._delivered, number, now, len(value))
                await producer.send(options.topic, value, key, on_delivery=delivered)
            except ClientError as error:
                self._tool.warn(str(error))
            if open_transaction and now - self._committed_at >= (options.transaction_duration_ms or _TRANSACTION_MS):
                await producer.commit_transaction()
                open_transaction = False
            if pause_ms := self._throttle.pause_ms(number + 1, now):
                await asyncio.sleep(pause_ms / 1000)
        if open_transaction:
            await producer.commit_transaction()
        await producer.flush()

    def _delivered(self, number: int, sent: int, size: int, delivery: Delivery) -> None:
        now = self._clock.tick()
        self._shown.update()
        if delivery.error is not None:
            self._tool.warn(str(delivery.error))
            return
        self._all.note(now - sent, size)
        if 0 < self._tool.options.warmup_records <= number:
            if self._steady is None:
                self._steady = Stats(self._tool.options.num_records, sent, steady=True)
            self._steady.note(now - sent, size)
        if now >= self._report_at:
            self._tool.print((self._steady or self._all).window(now))
            self._report_at = now + self._tool.options.reporting_interval

    def report(self) -> None:
        now = self._clock.tick()
        self._tool.print(self._all.total_line(now))
        self._tool.result = self._all.figures(now)
        if self._steady is not None:
            self._tool.print(self._steady.total_line(now))
            self._tool.result["steady_state"] = self._steady.figures(now)
        if self._tool.options.print_metrics:
            print_metrics(self._tool, "producer", self._all.figures(now))
