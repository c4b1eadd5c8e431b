"""`kafka-consumer-perf-test`.

Rule: the time until the first partitions are assigned counts as the time of the rebalance, all other time as the time
of fetching.
"""

from __future__ import annotations

import random

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.group_consumer import GroupConsumer
from pykafka_broker.client.properties import integer
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError, subscribed
from pykafka_broker.tools.progress import Bar
from pykafka_broker.tools.statistics import LATE, MB, add_reading_flags, dates_of, print_metrics, wanted_records

_FIGURES = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, "
    "fetch.nMsg.sec"
)


def options(parser: ToolParser) -> None:
    add_reading_flags(parser, "consumer")
    parser.option("--include REGEX", "read all topics whose names match")
    parser.option("--group GROUP", "the group of the consumer")
    parser.option("--fetch-size BYTES", "most bytes of one partition in a fetch", type=integer, default=MB)
    parser.option("--from-latest", "begin at the end of the topic, unless the group has offsets")


async def run(tool: Tool) -> None:
    options = tool.options
    tool.required("bootstrap_server")
    tool.one_of("num_records", "messages")
    tool.one_of("topic", "include")
    if options.reporting_interval <= 0:
        raise ToolUsageError("Reporting interval must be greater than 0.")
    properties = _properties(tool)
    count = wanted_records(tool)
    wanted = [options.topic] if options.topic is not None else subscribed(options.include)
    async with Client(options.bootstrap_server, properties) as client:
        _print_header(tool)
        test = _Test(tool, client, count)
        async with GroupConsumer(client, {}, wanted, on_assigned=lambda _: test.assigned()) as consumer:
            await test.read(consumer)
        test.report()


def _properties(tool: Tool) -> dict[str, str]:
    options = tool.options
    found = tool.properties("command_config", "consumer_config", pairs=("command_property",))
    found.setdefault("client.id", "perf-consumer-client")
    found["group.id"] = options.group or f"perf-consumer-{random.randrange(100_000)}"
    found["max.partition.fetch.bytes"] = str(options.fetch_size)
    found["auto.offset.reset"] = "latest" if options.from_latest else "earliest"
    return found


def _print_header(tool: Tool) -> None:
    if not tool.options.hide_header:
        first = "time, threadId, " if tool.options.show_detailed_stats else "start.time, end.time, "
        tool.print(first + _FIGURES)


class _Test:
    """A run of the test. Times are milliseconds of the steady clock, which starts at the wall clock's time."""

    def __init__(self, tool: Tool, client: Client, wanted: int) -> None:
        self._tool = tool
        self._wanted = wanted
        self._date = dates_of(tool)
        self._clock = client.clock
        self._start = client.deadline(0)
        self._joined_in = 0
        self._joining_since: int | None = self._start
        self._count = self._bytes = 0
        self._last = (self._start, 0, 0, 0)  # of the last line: when, count, bytes, time of joining

    def assigned(self) -> None:
        if self._joining_since is not None:
            self._joined_in += self._clock.tick() - self._joining_since
            self._joining_since = None

    async def read(self, consumer: GroupConsumer) -> None:
        with self._tool.progress("reading", self._wanted, "record") as shown:
            await self._read(consumer, shown)

    async def _read(self, consumer: GroupConsumer, shown: Bar) -> None:
        options, heard = self._tool.options, self._clock.tick()
        while self._count < self._wanted:
            for chunk in await consumer.poll(100):
                heard = self._clock.tick()
                shown.update(len(chunk.records))
                self._count += len(chunk.records)
                self._bytes += sum(len(each.key or b"") + len(each.value or b"") for each in chunk.records)
            now = self._clock.tick()
            if options.show_detailed_stats and now - self._last[0] >= options.reporting_interval:
                self._detail(now)
            if now - heard > options.timeout:
                self._tool.print(LATE.format(options.timeout))
                return

    def _detail(self, now: int) -> None:
        since, count, data, joined_in = self._last
        self._last = now, self._count, self._bytes, self._joined_in
        line = self._line(self._bytes - data, self._count - count, now - since, self._joined_in - joined_in)
        self._tool.print(f"{self._date(now)}, 0, {line}")

    def report(self) -> None:
        now, tool = self._clock.tick(), self._tool
        line = self._line(self._bytes, self._count, now - self._start, self._joined_in)
        if not tool.options.show_detailed_stats:
            tool.print(f"{self._date(self._start)}, {self._date(now)}, {line}")
        tool.result = {
            "records": self._count,
            "bytes": self._bytes,
            "elapsed_ms": now - self._start,
            "rebalance_ms": self._joined_in,
        }
        if tool.options.print_metrics:
            print_metrics(tool, "consumer", tool.result)

    def _line(self, data: int, count: int, elapsed: int, joined_in: int) -> str:
        total_mb, total, seconds = self._bytes / MB, self._count, max(1, elapsed) / 1000
        fetching = max(1, elapsed - joined_in)
        return (
            f"{total_mb:.4f}, {data / MB / seconds:.4f}, {total}, {count / seconds:.4f}, {joined_in}, {fetching}, "
            f"{data / MB / fetching * 1000:.4f}, {count / fetching * 1000:.4f}"
        )
