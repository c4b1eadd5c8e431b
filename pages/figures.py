"""The tables of figures in README.md and docs/comparison.md, from `bench/results.json`.

Rule: a figure stands in that file alone, with the run that measured it; `python -m bench --keep` puts new ones there. A
table lies between two marks and is made anew as a whole, a line under it tells of the runs. Ratios are of the figures
as measured, not of the rounded ones.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pages.markdown import table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results.json"
FILES = (ROOT / "README.md", ROOT / "docs" / "comparison.md")
_OURS = "ours"
_PEERS = {"ours": "this broker", "kafka": "Kafka", "kfake": "kfake"}
_PLACE = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_LESS, _MORE = "↓", "↑"
Results = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of a table: one figure, or several beside each other."""

    title: str
    metrics: tuple[str, ...]
    better: str = _LESS


@dataclass(frozen=True)
class Table:
    """Rows in the order of the page, and the columns: peers, and what ours is divided by."""

    rows: tuple[Row, ...]
    peers: tuple[str, ...] = ("ours", "kafka", "kfake")
    ratios: tuple[str, ...] = ("kafka", "kfake")
    head: str = ""
    by_cpu: bool = False  # also a column with Kafka's CPU of a request at 100 connections divided by ours, once known
    first: tuple[str, ...] = ()  # a row of words above the figures
    runs: bool = True  # a mark at each row and a line that tells of the runs


def _small(title: str, name: str) -> Row:
    return Row(title, (f"small_{name}_8_per_s", f"small_{name}_100_per_s"), _MORE)


_KAFKA = ("ours", "kafka")
TABLES = {
    "readme": Table(
        (
            Row("start to the first answer, s", ("start_s",)),
            Row("idle memory, MB", ("idle_mb",)),
            Row("one 100-byte record in flight, p50 / p99, ms", ("latency_p50_ms", "latency_p99_ms")),
            Row("produce 1 KiB, MB/s", ("produce_1k_mb_s",), _MORE),
            Row("consume 1 KiB, MB/s", ("consume_1k_mb_s",), _MORE),
            Row("Produce of one record, 100 connections, requests/s", ("small_produce_100_per_s",), _MORE),
            Row("three brokers and a controller: start, s / memory, MB", ("cluster_start_s", "cluster_mb")),
        ),
        ratios=(),
        first=("needs", "Python", "Java", "a Go program around it"),
        runs=False,
    ),
    "single": Table(
        (
            Row("start to the first answer, s; 0.10 where Python keeps its byte code, as `pip` does", ("start_s",)),
            Row("idle memory, MB", ("idle_mb",)),
            Row("memory of an idle connection, KB", ("connection_kb",)),
            Row("one 100-byte record in flight, p50, ms", ("latency_p50_ms",)),
            Row("one 100-byte record in flight, p99, ms", ("latency_p99_ms",)),
            Row("produce 100 B, MB/s", ("produce_100b_mb_s",), _MORE),
            Row("produce 1 KiB, MB/s", ("produce_1k_mb_s",), _MORE),
            Row("produce 1 KiB with lz4, MB/s", ("produce_lz4_mb_s",), _MORE),
            Row("consume 100 B, MB/s", ("consume_100b_mb_s",), _MORE),
            Row("consume 1 KiB, MB/s", ("consume_1k_mb_s",), _MORE),
            Row("broker CPU in, 100 B / 1 KiB, s/GB", ("produce_100b_cpu_s_gb", "produce_1k_cpu_s_gb")),
            Row("broker CPU out, 100 B / 1 KiB, s/GB", ("consume_100b_cpu_s_gb", "consume_1k_cpu_s_gb")),
            Row("10,000 partitions created, s", ("create_partitions_s",)),
            Row("a first record into each of them, s", ("first_records_s",)),
            Row("10,000 partitions: start, s / memory, MB", ("partitions_start_s", "partitions_mb")),
            Row("first message of a new group, ms", ("first_message_ms",)),
            Row("transactions of 100 records, records/s", ("transactional_records_s",), _MORE),
            Row("1,000 group members at 3 s heartbeats, % of a core", ("heartbeats_core_pct",)),
        ),
    ),
    "small": Table(
        (
            _small("ApiVersions", "api_versions"),
            _small("Metadata of 3 topics", "metadata"),
            _small("ListOffsets of 8 partitions", "list_offsets"),
            _small("Fetch of one record", "fetch"),
            _small("Produce of one record", "produce"),
            _small("OffsetCommit", "offset_commit"),
        ),
        head="8 connections / 100 connections",
        by_cpu=True,
    ),
    "secured": Table(
        (
            Row("produce / consume 1 KiB over TLS, MB/s", ("produce_tls_mb_s", "consume_tls_mb_s"), _MORE),
            Row("broker CPU in / out over TLS, s/GB", ("produce_tls_cpu_s_gb", "consume_tls_cpu_s_gb")),
            Row("TLS handshakes a second, from one client", ("handshakes_per_s",), _MORE),
            Row(
                "produce / consume 1 KiB with 1,000 ACLs, to without",
                ("acls_produce_speed", "acls_consume_speed"),
                _MORE,
            ),
        ),
        _KAFKA,
        ("kafka",),
    ),
    "cluster": Table(
        (
            Row(
                "start of all four until clients have three brokers, s; 0.46 with byte code kept, as `pip` does",
                ("cluster_start_s",),
            ),
            Row("memory of all four, MB; 120 with byte code kept", ("cluster_mb",)),
            Row("produce / consume 1 KiB, MB/s", ("cluster_produce_mb_s", "cluster_consume_mb_s"), _MORE),
            Row("CPU of all nodes in, 1 KiB, s/GB", ("cluster_produce_cpu_s_gb",)),
            Row("one 100-byte record in flight, p50 / p99, ms", ("cluster_p50_ms", "cluster_p99_ms")),
            Row(
                "kill -9 of a leader to the next acknowledgement, session 3 s / default times, s",
                ("failover_short_s", "failover_default_s"),
            ),
            Row("a follower's way back, 1 GB, MB/s", ("catch_up_mb_s",), _MORE),
            Row("start with 5,000 partitions of three replicas, s", ("cluster_many_start_s",)),
        ),
        _KAFKA,
        ("kafka",),
    ),
    "log": Table(
        (
            Row("kill -9 with 4 GB unsynced in 100 partitions, until all tell their end, s", ("recovery_s",)),
            Row("of that, what recovery adds to a clean start, s", ("recovery_added_s",)),
            Row("compaction of 1 GB, every key twice, MB/s", ("compaction_mb_s",), _MORE),
            Row("p99 of a producer beside it, to that of an idle broker", ("compaction_p99_ratio",)),
            Row("memory of the broker while it compacts, MB", ("compaction_peak_mb",)),
            Row("`flush.messages=1`, 50 connections, one partition, commits/s", ("group_commit_per_s",), _MORE),
            Row("the same with a partition each, commits/s", ("group_commit_apart_per_s",), _MORE),
            Row("a fetch by offset / by time in a 10-GB log, ms", ("offset_large_ms", "time_large_ms")),
            Row("the same to one in a 10-MB log", ("offset_large_ratio", "time_large_ratio")),
            Row("Spark: acknowledged to `foreachBatch`, ms", ("spark_batch_ms",)),
            Row("Spark: a million records from topic to Parquet, MB/s", ("spark_pipeline_mb_s",), _MORE),
            Row(
                "Spark in real time: acknowledged to another topic's consumer, p50 / p99, ms",
                ("spark_realtime_p50_ms", "spark_realtime_p99_ms"),
            ),
            Row(
                "Spark: kill -9 of a leader, session 3 s, to the next acknowledgement / that record in a table, s",
                ("spark_failover_ack_s", "spark_failover_s"),
            ),
        ),
        _KAFKA,
        ("kafka",),
    ),
}


def read_results() -> Results:
    """Return the runs, and of each metric its run and the peers' figures."""
    found: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def filled(text: str, results: Results) -> str:
    """Return a page with the tables as the results have them."""
    return _PLACE.sub(lambda place: place[1] + _made(TABLES[place[2]], results) + place[3], text)


def outdated() -> list[str]:
    """Return the files whose tables are not what the results say."""
    results = read_results()
    texts = {path: path.read_text(encoding="utf-8") for path in FILES}
    return [str(path.relative_to(ROOT)) for path, text in texts.items() if text != filled(text, results)]


def write() -> None:
    results = read_results()
    for path in FILES:
        path.write_text(filled(path.read_text(encoding="utf-8"), results), encoding="utf-8")


def _made(shape: Table, results: Results) -> str:
    figures: dict[str, Results] = results["figures"]
    runs = list(dict.fromkeys(figures[row.metrics[0]]["run"] for row in shape.rows))
    heads = [shape.head, *(_PEERS[peer] for peer in shape.peers), *(f"to {_PEERS[peer]}" for peer in shape.ratios)]
    rows = [list(shape.first)] if shape.first else []
    for row in shape.rows:
        each = [figures[metric] for metric in row.metrics]
        mark = f" ({runs.index(each[0]['run']) + 1})" if shape.runs and len(runs) > 1 else ""
        cells = [" / ".join(_number(one[peer]) for one in each if peer in one) for peer in shape.peers]
        ratios = [" / ".join(_ratio(one, peer) for one in each if peer in one) for peer in shape.ratios]
        rows.append([f"{row.title} {row.better}{mark}", *cells, *ratios])
    if shape.by_cpu:
        cpu = [one for row in shape.rows if (one := figures.get(row.metrics[-1].replace("_per_s", "_cpu_us")))]
        if len(cpu) == len(rows):
            heads.append("to Kafka, by CPU")
            for cells, one in zip(rows, cpu, strict=True):
                cells.append(_ratio({_OURS: one["kafka"], "kafka": one[_OURS]}, "kafka"))
    return f"\n{table(heads, rows)}\n{_told([results['runs'][name] for name in runs]) if shape.runs else ''}"


def _told(runs: list[Results]) -> str:
    """Tell when and where figures were measured; of what holds for all runs, once."""
    places = list(dict.fromkeys(map(_place, runs)))
    told = [f"{run['date']}, {_rounds(run)}{run['note']}" for run in runs]
    if len(places) > 1:
        told = [f"{each}, {_place(run)}" for each, run in zip(told, runs, strict=True)]
    notes = told if len(told) == 1 else [f"({number}) {each}" for number, each in enumerate(told, 1)]
    return f"Measured on {'; '.join(notes)}{f'; {places[0]}' if len(places) == 1 else ''}.\n\n"


def _place(run: Results) -> str:
    built = "with" if run["profile_guided"] else "without"
    return f"{run['machine']}, Python {run['python']} built {built} profile guidance"


def _rounds(run: Results) -> str:
    return "one round" if run["rounds"] == 1 else f"{run['rounds']} rounds"


def _number(value: float) -> str:
    """Return a figure with the three digits that count."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.2f}"


def _ratio(figures: Results, peer: str) -> str:
    value = figures[_OURS] / figures[peer]
    return f"{value:.0f}" if value >= 10 else f"{value:.2f}"
