"""Figures of performance tests and events of verifiable clients, as Kafka's tools compute and print them.

Rule: a latency is in milliseconds; percentiles are those of an even sample of a limited number of latencies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from pykafka_broker.client.cluster import Client
from pykafka_broker.client.properties import integer, long
from pykafka_broker.tools.frame import Tool, ToolParser
from pykafka_broker.tools.java_time import date_form

# -- figures


_SAMPLES = 500_000
_SHARES = (0.5, 0.95, 0.99, 0.999)
MB = 1 << 20


def percentiles(latencies: list[int], shares: tuple[float, ...] = _SHARES) -> list[int]:
    """Return percentiles of latencies, or zeros for none."""
    ordered = sorted(latencies)
    return [ordered[int(share * len(ordered))] if ordered else 0 for share in shares]


class Stats:
    """Figures of sent records, from `start` (ms) on."""

    def __init__(self, records: int, start: int, *, steady: bool = False) -> None:
        self.count = self.bytes = self.total = self.most = 0
        self.start = start
        self._steady = "steady state " if steady else ""
        self._each = max(1, -(-records // _SAMPLES))
        self._samples: list[int] = []
        self._window = (0, 0, 0, 0, start)  # count, bytes, total, most, since when

    def note(self, latency: int, size: int) -> None:
        self.count += 1
        self.bytes += size
        self.total += latency
        self.most = max(self.most, latency)
        if self.count % self._each == 0:
            self._samples.append(latency)
        count, data, total, most, since = self._window
        self._window = count + 1, data + size, total + latency, max(most, latency), since

    def window(self, now: int) -> str:
        """Return a line with the figures since the last call."""
        count, data, total, most, since = self._window
        self._window = 0, 0, 0, 0, now
        seconds = max(1, now - since) / 1000
        speed = f"{count / seconds:.1f} records/sec ({data / seconds / MB:.2f} MB/sec)"
        return (
            f"{count} {self._steady}records sent, {speed}, "
            f"{total / max(1, count):.1f} ms avg latency, {most:.1f} ms max latency."
        )

    def figures(self, now: int) -> dict[str, float]:
        """Return the figures of all records."""
        seconds = max(1, now - self.start) / 1000
        names = ("p50_ms", "p95_ms", "p99_ms", "p999_ms")
        return {
            "records": self.count,
            "records_per_sec": self.count / seconds,
            "mb_per_sec": self.bytes / seconds / MB,
            "avg_latency_ms": self.total / max(1, self.count),
            "max_latency_ms": self.most,
            **dict(zip(names, percentiles(self._samples), strict=True)),
        }

    def total_line(self, now: int) -> str:
        each = self.figures(now)
        mean = f"{each['avg_latency_ms']:.2f}" if self.count else "NaN"
        return (
            f"{self.count} {self._steady}records sent, {each['records_per_sec']:f} records/sec "
            f"({each['mb_per_sec']:.2f} MB/sec), {mean} ms avg latency, "
            f"{self.most:.2f} ms max latency, {each['p50_ms']} ms 50th, {each['p95_ms']} ms 95th, "
            f"{each['p99_ms']} ms 99th, {each['p999_ms']} ms 99.9th."
        )


def print_metrics(tool: Tool, role: str, figures: Mapping[str, float]) -> None:
    """Print the figures of a producer or consumer as Kafka's tools print metrics of the client."""
    tool.print()
    tool.print(f"{'Metric Name':<60}  Value")
    for name, value in figures.items():
        tool.print(f"{f'{role}-metrics:{name}:{{client-id=perf-{role}-client}}':<60}: {value:.3f}")


class ThroughputThrottler:
    """A limit of records a second; below zero: no limit (Kafka: ThroughputThrottler)."""

    def __init__(self, per_second: float, start: int) -> None:
        self._per_second = per_second
        self._start = start

    def pause_ms(self, count: int, now: int) -> int:
        if not self._per_second > 0:  # NaN is no limit either, as in Java
            return 0
        return max(0, int(count * 1000 / self._per_second) - (now - self._start))


# -- tests that read


LATE = (
    "WARNING: Exiting before consuming the expected number of records: timeout ({} ms) exceeded. You can use the "
    "--timeout option to increase the timeout."
)


def add_reading_flags(parser: ToolParser, who: str) -> None:
    """Add the flags of both tests that read. who: the readers."""
    parser.add_connection()
    parser.option("--topic TOPIC", "read the records of this topic")
    parser.option("--num-records NUMBER", "how many records to read", type=long)
    parser.option("--messages NUMBER", "the same (deprecated)", type=long)
    parser.option("--command-property NAME=VALUE ...", f"property of the {who}")
    parser.option("--consumer.config FILE", "the same as --command-config", dest="consumer_config")
    parser.option("--socket-buffer-size BYTES", "has no effect here", type=integer)
    parser.option("--timeout MS", "end when no record comes for this time", type=long, default=10_000)
    parser.option("--date-format FORMAT", "form of times, in Java's letters", default="yyyy-MM-dd HH:mm:ss:SSS")
    parser.option("--hide-header", "leave out the names of the columns")
    parser.option("--show-detailed-stats", "print a line for each --reporting-interval")
    parser.option("--reporting-interval MS", "time between two lines of figures", type=long, default=5_000)
    parser.option("--print-metrics", f"print figures of the {who} at the end")


def wanted_records(tool: Tool) -> int:
    """Return how many records to read, and warn of deprecated flags."""
    if tool.given("messages"):
        tool.print("Warning: --messages is deprecated. Use --num-records instead.")
    if tool.given("consumer_config"):
        tool.print("Warning: --consumer.config is deprecated. Use --command-config instead.")
    options = tool.options
    return int(options.num_records if options.num_records is not None else options.messages)


def dates_of(tool: Tool) -> Callable[[int], str]:
    """Return the function from milliseconds to a time in the form of `--date-format`. Raises ClientError."""
    form = date_form(tool.options.date_format)
    return lambda moment: form(datetime.fromtimestamp(moment / 1000).astimezone())


# -- events


class Events:
    """The events of a verifiable client: a JSON object on each line, or a list for `--json`."""

    def __init__(self, tool: Tool, client: Client) -> None:
        self._tool = tool
        self._clock = client.clock
        if tool.options.json:
            tool.result = []

    def report(self, name: str, **fields: Any) -> None:
        self._clock.tick()
        event = {"timestamp": self._clock.wall, "name": name, **fields}
        if self._tool.options.json:
            self._tool.result.append(event)
        else:
            print(json.dumps(event, separators=(",", ":"), ensure_ascii=False))


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
