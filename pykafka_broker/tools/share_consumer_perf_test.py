"""`kafka-share-consumer-perf-test`.

Rule: the members of the group (`--threads`) share the work in one event loop; each of them stops once the records of
all together are enough. A run that takes longer than `--timeout` fails, unless no record has come at all.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.errors import ClientError
from pykafka_broker.client.properties import integer
from pykafka_broker.client.share_consumer import ACCEPT, Delivered, ShareConsumer
from pykafka_broker.tools.frame import Tool, ToolParser, ToolUsageError
from pykafka_broker.tools.progress import INVISIBLE, Bar
from pykafka_broker.tools.statistics import LATE, MB, add_reading_flags, dates_of, print_metrics, wanted_records

_FIGURES = "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
_POLL_MS, _MOST_RECORDS = 100, 500


def options(parser: ToolParser) -> None:
    add_reading_flags(parser, "share consumers")
    parser.option("--group GROUP", "the group of the share consumers", default="perf-share-consumer")
    parser.option("--fetch-size BYTES", "most bytes in a fetch", type=integer, default=MB)
    parser.option("--threads NUMBER", "how many share consumers read", type=integer, default=1)
    parser.option("--show-consumer-stats", "print a line for each share consumer")


async def run(tool: Tool) -> None:
    options = tool.options
    tool.required("bootstrap_server", "topic")
    tool.one_of("messages", "num_records")
    properties = _properties(tool)
    wanted = wanted_records(tool)
    if options.threads < 1:
        raise ToolUsageError("--threads has to be at least 1")
    if not options.hide_header:
        tool.print(_FIGURES)
    async with AsyncExitStack() as stack:
        readers: list[_Reader] = []
        test = _Test(tool, wanted)
        for client_id in _client_ids(properties["client.id"], options.threads):
            client = Client(options.bootstrap_server, properties | {"client.id": client_id})
            await stack.enter_async_context(client)
            consumer = await stack.enter_async_context(ShareConsumer(client, [options.topic]))
            readers.append(_Reader(test, len(readers) + 1, client_id, client, consumer))
        with tool.progress("reading", test.wanted, "record") as shown:
            test.shown = shown
            await asyncio.gather(*(reader.read() for reader in readers))
        test.report(readers)


def _properties(tool: Tool) -> dict[str, str]:
    options = tool.options
    found = tool.properties("command_config", "consumer_config", pairs=("command_property",))
    found.setdefault("client.id", "perf-share-consumer-client")
    found |= {"group.id": options.group, "fetch.max.bytes": str(options.fetch_size), "check.crcs": "false"}
    return found


def _client_ids(client_id: str, threads: int) -> list[str]:
    return [client_id] if threads == 1 else [f"{client_id}-{number + 1}" for number in range(threads)]


class _TooLong(ClientError):
    """The time of the whole run is over."""


class _Test:
    """A run of all share consumers."""

    def __init__(self, tool: Tool, wanted: int) -> None:
        self.tool = tool
        self.wanted = wanted
        self.count = 0
        self.shown: Bar = INVISIBLE

    def line(self, start: int, end: int, data: int, count: int, window: tuple[int, int]) -> str:
        """Return a line of figures: all bytes and records so far, and their rates since the start of the line.

        window: the bytes and records since the start.
        """
        elapsed, dates = end - start, map(dates_of(self.tool), (start, end))
        new_bytes, new_records = window
        rates = [amount * 1000 / max(1, elapsed) for amount in (new_bytes / MB, new_records)]
        return f"{', '.join(dates)}, {data / MB:.4f}, {rates[0]:.4f}, {rates[1]:.4f}, {count}, {elapsed}"

    def report(self, readers: list[_Reader]) -> None:
        tool = self.tool
        for reader in readers if tool.options.show_consumer_stats else ():
            whose = f"Share consumer {reader.number} having client id {reader.client_id} consumption metrics-"
            figures = (reader.bytes, reader.count)
            tool.print(f"{whose} {self.line(reader.start, reader.end, *figures, figures)}")
        figures = sum(reader.bytes for reader in readers), self.count
        start, end = min(reader.start for reader in readers), max(reader.end for reader in readers)
        tool.print(self.line(start, end, *figures, figures))
        tool.result = {"records": self.count, "bytes": figures[0], "elapsed_ms": end - start}
        if tool.options.print_metrics:
            print_metrics(tool, "share-consumer", tool.result)


class _Reader:
    """A share consumer of the test. Times are milliseconds of the steady clock, which starts at the wall clock's."""

    def __init__(self, test: _Test, number: int, client_id: str, client: Client, consumer: ShareConsumer) -> None:
        self.number, self.client_id = number, client_id
        self.count = self.bytes = 0
        self.start = self.end = client.deadline(0)
        self._test, self._client, self._consumer = test, client, consumer
        self._last_line = (self.start, 0, 0)  # when, bytes, records

    async def read(self) -> None:
        options, test = self._test.tool.options, self._test
        heard = self.start
        while test.count < test.wanted:
            for each in await self._consumer.poll(_POLL_MS, _MOST_RECORDS):
                self._consumer.acknowledge(each, ACCEPT)
                heard = self._client.clock.tick()
                self._count(each)
            self.end = now = self._client.clock.tick()
            if options.show_detailed_stats and now - self._last_line[0] >= options.reporting_interval:
                self._detail(now)
            if now - heard > options.timeout and not self.count:
                test.tool.print(LATE.format(options.timeout))
                return
            if now - self.start > options.timeout and self.count and test.count < test.wanted:
                raise _TooLong("Timeout waiting for results from fetching records")

    def _count(self, delivered: Delivered) -> None:
        size = len(delivered.record.key or b"") + len(delivered.record.value or b"")
        self.bytes += size
        self.count += 1
        self._test.count += 1
        self._test.shown.update(1)

    def _detail(self, now: int) -> None:
        since, data, count = self._last_line
        self._last_line = now, self.bytes, self.count
        line = self._test.line(since, now, self.bytes, self.count, (self.bytes - data, self.count - count))
        self._test.tool.print(f"{line} for share consumer {self.number}")
