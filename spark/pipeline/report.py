"""A page with plots of a run: throughput, lag, what became of the records, and the windows' results.

Rule: the page is one file that needs nothing else, and it is made from what the jobs published (the metrics topic, the
windows table), so it can be made of a run on another machine.
"""

from __future__ import annotations

import io
import json
import math
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from pipeline.aggregate import TABLE
from pipeline.database import open_database
from pipeline.errors import SettingsError, StoreError
from pipeline.kafka import Kafka
from pipeline.settings import Settings, is_local

Batches = list[dict[str, Any]]
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "td,th{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}figure{margin:0}svg{max-width:100%;height:auto}h1,h2{line-height:1.2}"
)
SPAN = "event time (of all but the outermost 1% of the events at either end)"
SUMS = ("rows", "accepted", "duplicates", "late", "rejected")


def reads(settings: Settings) -> list[str]:
    if not settings.metrics_topic:
        raise SettingsError("metrics_topic is not set: the report is made from the metrics that the jobs published")
    return [settings.metrics_topic]


def figure(draw: Callable[[Any], None], title: str, x: str, y: str) -> str:
    """One plot as SVG; the same numbers give the same bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    plot = Figure(figsize=(9, 3.2), layout="constrained")
    axes = plot.subplots()
    axes.yaxis.set_major_formatter("{x:,.10g}")
    draw(axes)
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    text = io.StringIO()
    with rc_context({"svg.hashsalt": title}):
        plot.savefig(text, format="svg", metadata={"Date": None})
    drawing = text.getvalue()[text.getvalue().index("<svg") :]
    return f'<figure role="img" aria-label="{escape(title)}">{drawing}</figure>'


def by_job(batches: Batches) -> dict[str, Batches]:
    """The batches of each job; where a job wrote several tables, of each of them."""
    outputs: dict[str, set[str]] = defaultdict(set)
    for batch in batches:
        outputs[batch["job"]].add(batch["output"])
    found: dict[str, Batches] = defaultdict(list)
    for batch in batches:
        job = batch["job"]
        found[f"{job} {batch['output']}" if len(outputs[job]) > 1 else job].append(batch)
    return dict(found)


def points(batches: Batches, name: str) -> tuple[list[int], list[float]]:
    """Numbers of the batches that had rows, and their heights; a gap, so no line, between two runs."""
    numbers: list[int] = []
    heights: list[float] = []
    run = None
    for number, batch in enumerate((batch for batch in batches if batch["rows"]), 1):
        if run not in (None, batch["run_id"]):
            numbers.append(number)
            heights.append(math.nan)
        run = batch["run_id"]
        numbers.append(number)
        heights.append(batch[name])
    return numbers, heights


def line_per_job(jobs: dict[str, Batches], name: str) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        for number, (job, batches) in enumerate(jobs.items()):
            # Lines that lie on each other stay visible: the later one is thinner.
            width = max(1.5, 5 - 1.5 * number)
            axes.plot(*points(batches, name), marker="o", lw=width, ms=width + 2, alpha=0.8, label=job)
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))

    return draw


def left_out(jobs: dict[str, Batches]) -> Callable[[Any], None]:
    """In percent, and without what was accepted: beside that, nobody would see the rest."""

    def draw(axes: Any) -> None:
        rows = [max(1, sum(batch["rows"] for batch in batches)) for batches in jobs.values()]
        left = [0.0] * len(jobs)
        for name in SUMS[2:]:
            counts = [sum(batch[name] for batch in batches) for batches in jobs.values()]
            widths = [100 * count / of for count, of in zip(counts, rows, strict=True)]
            bars = axes.barh(list(jobs), widths, left=left, label=name)
            axes.bar_label(bars, [f"{count:,}" if count else "" for count in counts], label_type="center")
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_yticks(range(len(jobs)), list(jobs))

    return draw


def main_span(windows: list[tuple[str, str, int, float]]) -> tuple[datetime, datetime]:
    """From and to where all but one in a hundred events at either end are: a few late ones would flatten the rest."""
    counts = sorted((datetime.fromisoformat(start), events) for start, _, events, _ in windows)
    before, total = 0, sum(events for _, events in counts)
    first, last = counts[0][0], counts[-1][0]
    for start, events in counts:
        if before <= total // 100:
            first = start
        if before <= total - total // 100:
            last = start
        before += events
    return first, last


def window_lines(windows: list[tuple[str, str, int, float]], column: int) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        from matplotlib.dates import ConciseDateFormatter

        groups: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
        for row in windows:
            groups[row[1]].append((datetime.fromisoformat(row[0]), float(row[column])))
        for group, points in sorted(groups.items()):
            times, values = zip(*sorted(points), strict=True)
            axes.plot(times, values, marker=".", label=group or "none")
        first, last = main_span(windows)
        if first < last:
            axes.set_xlim(first, last)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))

    return draw


def summary_table(jobs: dict[str, Batches]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("job", "runs", "batches", *SUMS, "records/s", "lag at the end"))
    rows = []
    for job, batches in jobs.items():
        took_s = sum(batch["duration_ms"] for batch in batches) / 1000
        total = {name: sum(batch[name] for batch in batches) for name in SUMS}
        runs, speed = len({batch["run_id"] for batch in batches}), round(total["rows"] / took_s) if took_s else 0
        cells = [runs, len(batches), *total.values(), speed, batches[-1]["lag"]]
        rows.append(f"<tr><td>{escape(job)}</td>" + "".join(f"<td>{cell:,}</td>" for cell in cells) + "</tr>")
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def null_table(jobs: dict[str, Batches]) -> str:
    rows = []
    for job, batches in jobs.items():
        worst: dict[str, float] = defaultdict(float)
        for batch in batches:
            for column, rate in batch["null_rates"].items():
                worst[column] = max(worst[column], rate)
        rows += [f"<tr><td>{escape(job)}</td><td>{escape(c)}</td><td>{r:.2%}</td></tr>" for c, r in worst.items() if r]
    return (
        "<table><tr><th>job</th><th>column</th><th>highest share of nulls in a batch</th></tr>"
        + "".join(rows)
        + "</table>"
    )


def page(batches: Batches, windows: list[tuple[str, str, int, float]]) -> str:
    jobs, first, last = by_job(batches), batches[0]["timestamp"], batches[-1]["timestamp"]
    parts = [
        "<h1>Pipeline run</h1>",
        f"<p>{len(batches)} batches, begun between {escape(first)} and {escape(last)}.</p>",
        summary_table(jobs),
        figure(line_per_job(jobs, "rows_per_second"), "Throughput", "batch", "records/s"),
        figure(line_per_job(jobs, "lag"), "Lag after each batch", "batch", "records"),
        figure(left_out(jobs), "Records that were not accepted", "% of the job's records", ""),
        "<h2>Nulls</h2>",
        null_table(jobs),
    ]
    if windows:
        parts += [
            "<h2>Windows</h2>",
            figure(window_lines(windows, 2), "Events per window", SPAN, "events"),
            figure(window_lines(windows, 3), "Sum per window", SPAN, "sum"),
        ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Pipeline run</title>'
    return (
        f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def local_database(settings: Settings) -> Path:
    return Path(settings.database_url.removeprefix("sqlite:///"))


def read_windows(settings: Settings) -> list[tuple[str, str, int, float]]:
    """The aggregation's results; none if it never ran here, or into a database that is not named."""
    if not settings.database and not (is_local(settings.data_dir) and local_database(settings).exists()):
        return []
    database = open_database(settings.database_url)
    try:
        if not database.columns(TABLE):
            return []
        return [
            tuple(row) for row in database.execute(f'SELECT window_start, group_value, events, total FROM "{TABLE}"')
        ]
    finally:
        database.close()


def write(settings: Settings, kafka: Kafka) -> dict[str, Any]:
    """The job: Spark is not needed."""
    records = sorted(kafka.read_all(settings.metrics_topic), key=lambda record: record.timestamp()[1])
    batches = [json.loads(record.value()) for record in records]
    if not batches:
        raise SettingsError(f"there are no metrics in {settings.metrics_topic} yet")
    path = Path(settings.output or settings.local_path("report.html", "output"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_text(page(batches, read_windows(settings)))
        unfinished.replace(path)
    except OSError as error:
        raise StoreError(f"the report {path} can't be written: {error.strerror}") from error
    return {"file": str(path), "batches": len(batches)}
