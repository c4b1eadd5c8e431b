"""A page with plots of a run: throughput, lag, what became of the records, and the windows' results.

Rule: the page is one file that needs nothing else, and it is made from what the jobs published (the metrics topic, the
windows table), so it can be made of a run on another machine.
"""

from __future__ import annotations

import io
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from pipeline.aggregate import TABLE
from pipeline.database import SQLITE_URL, open_database
from pipeline.errors import SettingsError, StoreError
from pipeline.kafka import Kafka
from pipeline.settings import Settings, is_local

Batches = list[dict[str, Any]]
Windows = list[tuple[str, str, int, float]]  # start, group, events, total
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "td,th{padding:.25rem .5rem;text-align:right;white-space:nowrap;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}figure{margin:0}svg{max-width:100%;height:auto}h1,h2{line-height:1.2}"
)
SPAN = "event time (without the sparse windows at either end)"
UNITS_S = {"days": 86400, "hours": 3600, "minutes": 60}
FEW_BATCHES = 6
FEW_WINDOWS = 4
FEW_BARS = 12
Colours = Mapping[str, str]  # by job, fate of a record, or group: a colour means one thing on the whole page
SUMS = ("rows", "accepted", "late", "duplicates", "rejected")
NEEDED = {"job", "output", "run_id", "timestamp", "duration_ms", "rows_per_second", "lag", "null_rates", *SUMS}


def reads(settings: Settings) -> list[str]:
    if not settings.metrics_topic:
        raise SettingsError("metrics_topic is not set: the report is made from the metrics that the jobs published")
    return [settings.metrics_topic]


def figure(draw: Callable[[Any], None], title: str, y: str, x: str | None = None) -> str:
    """Return a plot as SVG; the same numbers give the same bytes. x: the axis' label, where `draw` sets none.

    Names are the data's: a dollar in them is no formula.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    text = io.StringIO()
    with rc_context({"svg.hashsalt": title, "text.parse_math": False}):
        plot = Figure(figsize=(9, 3.2), layout="constrained")
        axes = plot.subplots()
        axes.yaxis.set_major_formatter("{x:,.10g}")
        draw(axes)
        axes.set(title=title, ylabel=y, **({} if x is None else {"xlabel": x}))
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        plot.savefig(text, format="svg", metadata={"Date": None})
    drawing = text.getvalue()[text.getvalue().index("<svg") :]
    return f'<figure role="img" aria-label="{escape(title)}">{drawing}</figure>'


def colours_of(names: Iterable[str]) -> Colours:
    """Return a colour for each name; twenty are told apart, and then they begin again."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    palette = [to_hex(colormaps["tab20"](number)) for number in (*range(0, 20, 2), *range(1, 20, 2))]
    return {name: palette[number % len(palette)] for number, name in enumerate(dict.fromkeys(names))}


def by_job(batches: Batches) -> dict[str, Batches]:
    """Return the batches of each job; where a job wrote several tables, of each of them."""
    outputs: dict[str, set[str]] = defaultdict(set)
    for batch in batches:
        outputs[batch["job"]].add(batch["output"])
    found: dict[str, Batches] = defaultdict(list)
    for batch in batches:
        job = batch["job"]
        found[f"{job} {batch['output']}" if len(outputs[job]) > 1 else job].append(batch)
    return dict(found)


def points(batches: Batches, name: str) -> tuple[list[datetime], list[float]]:
    """Return when the batches that had rows have begun, and their heights; a gap, so no line, between two runs."""
    times: list[datetime] = []
    heights: list[float] = []
    run = None
    for batch in batches:
        if not batch["rows"]:
            continue
        begun = datetime.fromisoformat(batch["timestamp"])
        if run not in (None, batch["run_id"]):
            times.append(begun)
            heights.append(math.nan)
        run = batch["run_id"]
        times.append(begun)
        heights.append(batch[name])
    return times, heights


def bars(axes: Any, labels: list[str], series: dict[str, dict[str, float]], colours: Colours) -> None:
    """Draw for each label a bar of every series that has something there, side by side, with its number where there is
    room for it."""
    width = min(0.2, 0.8 / max(1, len(series)))
    for number, (name, heights) in enumerate(series.items()):
        places = [labels.index(label) + (number + 0.5 - len(series) / 2) * width for label in heights]
        drawn = axes.bar(places, list(heights.values()), 0.9 * width, label=name, color=colours.get(name))
        if len(labels) * len(series) <= FEW_BARS:
            axes.bar_label(drawn, [f"{height:,.0f}" for height in heights.values()], fontsize="small")
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.margins(y=0.15)


def from_zero(axes: Any, whole: bool) -> None:
    """Begin the y-axis at 0, also where there is nothing else."""
    from matplotlib.ticker import MaxNLocator

    low, high = axes.dataLim.ymin, axes.dataLim.ymax
    axes.set_ylim(None if low < 0 else 0, None if high > 0 else 1)
    if whole:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def per_batch(jobs: dict[str, Batches], name: str, colours: Colours) -> Callable[[Any], None]:
    """Bars by number for a short run, of which lines would be dots; lines over the time of day for a long one."""
    runs = {job: points(batches, name) for job, batches in jobs.items()}
    series = {job: heights_of(heights) for job, (_, heights) in runs.items()}
    longest = max(map(len, series.values()))

    def draw(axes: Any) -> None:
        from matplotlib.dates import ConciseDateFormatter

        if longest <= FEW_BATCHES:
            bars(axes, [str(number) for number in range(1, longest + 1)], series, colours)
            axes.set_xlabel("batch")
        else:
            for number, (job, (times, heights)) in enumerate(runs.items()):
                # Lines that lie on each other stay visible: the later one is thinner.
                width = max(1.5, 5 - 1.5 * number)
                look = {"lw": width, "ms": width + 2, "alpha": 0.8, "color": colours.get(job)}
                axes.plot(times, heights, marker="o", label=job, **look)
            axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))
            axes.set_xlabel("begin of the batch, UTC")
        from_zero(axes, whole=True)

    return draw


def heights_of(heights: list[float]) -> dict[str, float]:
    """Return the heights by number, without the gaps between runs: bars stand apart anyway."""
    return {str(number): height for number, height in enumerate((h for h in heights if not math.isnan(h)), 1)}


def left_out(jobs: dict[str, Batches], colours: Colours) -> Callable[[Any], None]:
    """In percent, and without what was accepted in time: beside that, nobody would see the rest."""

    def draw(axes: Any) -> None:
        rows = [max(1, sum(batch["rows"] for batch in batches)) for batches in jobs.values()]
        left = [0.0] * len(jobs)
        for name in SUMS[2:]:
            counts = [sum(batch[name] for batch in batches) for batches in jobs.values()]
            widths = [100 * count / of for count, of in zip(counts, rows, strict=True)]
            bars = axes.barh(list(jobs), widths, left=left, label=name, color=colours.get(name))
            axes.bar_label(bars, [f"{count:,}" if count else "" for count in counts], label_type="center")
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_yticks(range(len(jobs)), list(jobs))
        axes.invert_yaxis()  # from top to bottom, as in the table

    return draw


def main_span(windows: Windows) -> tuple[datetime, datetime]:
    """From and to which window most events are: the sparse ones at either end would flatten the rest, and the last one
    may have only begun. Sparse is a quarter of the fullest, and no more than a twentieth of all events is left out at
    an end."""
    counts: dict[datetime, int] = defaultdict(int)
    for start, _, events, _ in windows:
        counts[datetime.fromisoformat(start)] += events
    most, allowed = max(counts.values()), sum(counts.values()) / 20

    def first_full(starts: list[datetime]) -> datetime:
        left = 0
        for start in starts:
            left += counts[start]
            if left > allowed or counts[start] * 4 >= most:
                return start
        return starts[-1]

    starts = sorted(counts)
    return first_full(starts), first_full(starts[::-1])


def shown(group: str) -> str:
    """Return a group's name in a legend, which leaves out names that begin with an underscore."""
    return f" {group}" if group.startswith("_") else group or "none"


def per_window(windows: Windows, column: int, whole: bool, colours: Colours) -> Callable[[Any], None]:
    """A line for each group; bars where there are few windows."""
    first, last = main_span(windows)
    groups: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for row in windows:
        if first <= (start := datetime.fromisoformat(row[0])) <= last:
            groups[shown(row[1])].append((start, float(row[column])))
    starts = sorted({start for points in groups.values() for start, _ in points})

    def draw(axes: Any) -> None:
        from matplotlib.dates import ConciseDateFormatter

        if len(starts) <= FEW_WINDOWS:
            names = {start: f"{start:%Y-%m-%d %H:%M}" for start in starts}
            series = {name: {names[start]: value for start, value in sorted(groups[name])} for name in sorted(groups)}
            bars(axes, list(names.values()), series, colours)
        else:
            for group in sorted(groups):
                times, values = zip(*sorted(groups[group]), strict=True)
                axes.plot(times, values, marker=".", label=group, color=colours.get(group))
            axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))
        from_zero(axes, whole)

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


def watermark_plot(jobs: dict[str, Batches], colours: Colours) -> list[str]:
    """Draw how far behind each batch's begin the watermark was, in the largest unit that there are two of; nothing
    where no job has a watermark."""
    known = {
        job: found for job, batches in jobs.items() if (found := [each for each in batches if each.get("watermark")])
    }
    if not known:
        return []
    longest_s = max(seconds_behind(batch) for batches in known.values() for batch in batches)
    unit, unit_s = next(((name, size) for name, size in UNITS_S.items() if longest_s >= 2 * size), ("seconds", 1))
    behind = {
        job: [{**batch, "behind": seconds_behind(batch) / unit_s} for batch in batches]
        for job, batches in known.items()
    }
    return [figure(per_batch(behind, "behind", colours), "Watermark behind the clock", unit)]


def seconds_behind(batch: dict[str, Any]) -> float:
    begun, watermark = (datetime.fromisoformat(batch[name]) for name in ("timestamp", "watermark"))
    return (begun - watermark).total_seconds()


def page(batches: Batches, windows: Windows) -> str:
    jobs, first, last = by_job(batches), batches[0]["timestamp"], batches[-1]["timestamp"]
    colours = colours_of([*jobs, *SUMS[2:], *sorted({shown(row[1]) for row in windows})])
    parts = [
        "<h1>Pipeline run</h1>",
        f"<p>{len(batches)} batches, begun between {escape(first)} and {escape(last)}.</p>",
        summary_table(jobs),
        figure(per_batch(jobs, "rows_per_second", colours), "Throughput", "records/s"),
        figure(per_batch(jobs, "lag", colours), "Lag after each batch", "records"),
        figure(per_batch(jobs, "late", colours), "Late events of each batch", "events"),
        *watermark_plot(jobs, colours),
        figure(
            left_out(jobs, colours),
            "Records that came late, came twice or were rejected",
            "",
            "% of the job's records",
        ),
        "<h2>Nulls</h2>",
        null_table(jobs),
    ]
    if windows:
        parts += [
            "<h2>Windows</h2>",
            figure(per_window(windows, 2, whole=True, colours=colours), "Events per window", "events", SPAN),
            figure(per_window(windows, 3, whole=False, colours=colours), "Sum per window", "sum", SPAN),
        ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Pipeline run</title>'
    return (
        f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def read_windows(settings: Settings) -> Windows:
    """Return the aggregation's results; none if it never ran here, or into a database that is not named."""
    if not settings.database and not is_local(settings.data_dir):
        return []
    url = settings.database_url
    if url.startswith(SQLITE_URL) and not Path(url.removeprefix(SQLITE_URL)).exists():  # opening would make the file
        return []
    database = open_database(url)
    try:
        if not database.columns(TABLE):
            return []
        return [
            (start, group, events, float(total))
            for start, group, events, total in database.execute(
                f'SELECT window_start, group_value, events, total FROM "{TABLE}"'
            )
        ]
    finally:
        database.close()


def batch_in(value: bytes | None) -> dict[str, Any] | None:
    """Return the metrics of a batch; None for a record of anybody else."""
    try:
        found = json.loads(value or b"")
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.keys() >= NEEDED else None


def write(settings: Settings, kafka: Kafka) -> dict[str, Any]:
    """Do the job: Spark is not needed."""
    records = sorted(kafka.read_all(settings.metrics_topic), key=lambda record: record.timestamp()[1])
    batches = [batch for record in records if (batch := batch_in(record.value())) is not None]
    if not batches:
        raise SettingsError(f"there are no metrics in {settings.metrics_topic} yet")
    path = Path(settings.output or settings.local_path("report.html", "output"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".unfinished")
        unfinished.write_text(page(batches, read_windows(settings)), encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise StoreError(f"the report {path} can't be written: {error.strerror}") from error
    return {"file": str(path), "batches": len(batches)}
