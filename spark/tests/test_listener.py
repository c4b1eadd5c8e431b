"""Metrics: what is made of a progress, and where it goes."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.figure import Figure

from pipeline import report, silver
from pipeline.errors import SettingsError
from pipeline.kafka import Kafka
from pipeline.listener import KEPT_BATCHES, MetricsListener, Totals, metrics_of, offsets_of
from pipeline.settings import Settings

PROGRESS = {
    "id": "q", "runId": "r", "batchId": 3, "timestamp": "2024-05-01T00:00:00Z", "numInputRows": 10,
    "processedRowsPerSecond": 5.0, "durationMs": {"triggerExecution": 2000},
    "sources": [
        {"startOffset": None, "endOffset": '{"t": {"0": 10, "1": 5}}', "latestOffset": {"t": {"0": 12, "1": 9}}},
    ],
    "observedMetrics": {"read": {"rows": 10, "rejected": 2, "null_amount": 4}},
}  # fmt: skip
METRIC = re.compile(r"pipeline_\w+")
COUNTS = {"accepted": 5, "late": 2, "duplicates": 3, "watermark": "2024-05-01T00:00:00+00:00"}


def test_a_progress_in_one_object() -> None:
    metrics = metrics_of(PROGRESS, "silver", "table", COUNTS)
    assert (metrics["job"], metrics["output"]) == ("silver", "table")
    assert metrics["lag"] == 6
    assert metrics["null_rates"] == {"amount": 0.5}
    assert metrics["end_offsets"] == {"t": {"0": 10, "1": 5}}
    counts = [metrics[name] for name in ("rows", "accepted", "rejected", "late", "duplicates", "watermark")]
    assert counts == [10, 5, 2, 2, 3, "2024-05-01T00:00:00+00:00"]
    assert metrics_of(PROGRESS, "store", "table")["accepted"] == 8, "a job that counts nothing takes every event"


def test_a_progress_without_anything() -> None:
    bare = {"id": "q", "runId": "r", "batchId": 0, "timestamp": "t", "numInputRows": 0}
    metrics = metrics_of(bare, "store", "table")
    assert (metrics["lag"], metrics["late"], metrics["null_rates"], metrics["end_offsets"]) == (0, 0, {}, {})
    assert offsets_of("null") == {}


def test_counters_add_up_and_gauges_do_not() -> None:
    totals, metrics = Totals("silver"), metrics_of(PROGRESS, "silver", "table")
    for _ in range(2):
        totals.add(metrics)
    lines = totals.text(metrics).splitlines()
    assert 'pipeline_rows_total{job="silver"} 20' in lines
    assert 'pipeline_lag{job="silver"} 6' in lines
    assert 'pipeline_null_rate{job="silver",column="amount"} 0.5' in lines
    for line in lines:
        assert line.startswith(("# HELP ", "# TYPE ")) or len(line.rsplit(" ", 1)) == 2


def test_the_board_of_grafana_shows_every_metric() -> None:
    """A name that nobody publishes would be an empty panel, and a new metric would be nowhere to be seen."""
    board = json.loads((Path(report.__file__).parents[1] / "template" / "grafana.json").read_text())
    panels = board["panels"]
    shown = {name for panel in panels for target in panel["targets"] for name in METRIC.findall(target["expr"])}
    totals, metrics = Totals("silver"), metrics_of(PROGRESS, "silver", "table", COUNTS) | {"rules": {"r": 1}}
    totals.add(metrics)
    text = totals.text(metrics)
    assert shown == {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    places = sorted((panel["gridPos"]["y"], panel["gridPos"]["x"]) for panel in panels)
    assert places == [(y, x) for y in range(0, 8 * len(panels) // 2, 8) for x in (0, 12)]
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_a_long_stream_counts_all_batches_and_keeps_the_last(settings: Settings) -> None:
    """All were kept, hundreds of megabytes a day."""
    listener = MetricsListener(settings, Kafka(settings), "silver", "table")
    for number in range(KEPT_BATCHES + 1):
        told = json.dumps({**PROGRESS, "name": listener.query_name, "batchId": number})
        listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=told)))
    assert (len(listener.batches), listener.batches[0]["batch_id"]) == (KEPT_BATCHES, 1)
    assert listener.totals.summary()["batches"] == KEPT_BATCHES + 1


@pytest.mark.spark
def test_topic_file_group_and_report(
    settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, tmp_path: Path, consumer_groups: Any
) -> None:
    topic = make_topic(settings.bronze_topic, 2)
    put(topic, [{"value": event(n), "partition": n % 2} for n in range(40)])
    own = dataclasses.replace(
        settings, metrics_topic=f"{topic}.metrics", prometheus_file=str(tmp_path / "m.prom"), group=f"{topic}-lag",
        max_offsets_per_trigger=20,
    )  # fmt: skip
    context = make_context(own)
    context.kafka.ensure_topic(own.metrics_topic)
    done = silver.run(context)
    published = [json.loads(record.value()) for record in context.kafka.read_all(own.metrics_topic)]
    assert published == done["batches_metrics"] == [report.batch_in(json.dumps(each).encode()) for each in published]
    assert [batch["lag"] for batch in published if batch["rows"]] == [20, 0]
    assert context.kafka.committed(own.group, topic) == {0: 20, 1: 20}
    put(topic, [{"value": event(n), "partition": 1} for n in range(40, 47)])
    head, *lines = consumer_groups("--describe", "--group", own.group)
    lag = {line[head.index("PARTITION")]: line[head.index("LAG")] for line in lines if topic in line}
    assert lag == {"0": "0", "1": "7"}
    assert 'pipeline_rows_total{job="silver"} 40' in (tmp_path / "m.prom").read_text()
    summary = report.write(dataclasses.replace(own, output=str(tmp_path / "report.html")), context.kafka)
    page = (tmp_path / "report.html").read_text()
    assert summary["batches"] == len(published)
    assert page.count("<svg") == 5
    assert "<td>silver</td><td>" in page
    assert "amount</td><td>100.00%" in page


@pytest.mark.spark
def test_metrics_that_reach_nobody_hold_up_nothing(
    settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    put(make_topic(settings.bronze_topic), [event(n) for n in range(4)])
    small = make_topic(f"{settings.bronze_topic}.metrics", max_message_bytes="100")
    own = dataclasses.replace(
        settings, prometheus_file="/nowhere/at/all", metrics_topic=small, max_offsets_per_trigger=2
    )
    assert silver.run(make_context(own))["rows"] == 4
    told = capsys.readouterr().err
    assert told.count("metrics don't reach the Prometheus file") == 1
    assert told.count("metrics don't reach the metrics topic: Broker: Message size too large") == 1


def test_the_plots_of_a_report() -> None:
    batches = [metrics_of(PROGRESS, job, "table") for job in ("silver", "aggregate")]
    early = [("2024-04-30T09:00:00Z", "fr", 1, 0.5)]
    windows = early + [(f"2024-05-01T{hour:02}:00:00Z", "de", 100, 2.0) for hour in range(5)]
    page = report.page(batches, windows)
    assert page == report.page(batches, windows)
    _, throughput, lag, _, left_out, events, _ = page.split("<figure")
    for plot in (throughput, lag, left_out):
        assert "<!-- silver -->" in plot
        assert "<!-- aggregate -->" in plot
    assert "<!-- de -->" in events
    colours = report.colours_of(["silver", "aggregate", *report.SUMS[2:], "de", "fr"])
    assert len(set(colours.values())) == 7
    for plot, names in ((lag, ["silver", "aggregate"]), (left_out, report.SUMS[2:]), (events, ["de"])):
        assert {name for name in colours if colours[name] in plot} == set(names)
    assert [time.hour for time in report.main_span(windows)] == [0, 4]


@pytest.mark.parametrize("group", ["$\\frac$", "_hidden", "$a$"])
def test_any_name_of_a_group_can_be_drawn(group: str) -> None:
    """No name is a formula, or left out of the legend."""
    windows = [(f"2024-05-01T{hour:02}:00:00Z", group, 100, 2.0) for hour in range(5)]
    page = report.page([metrics_of(PROGRESS, "aggregate", "table")], windows)
    assert page.count(f"{group} -->") == 2


@pytest.mark.parametrize("value", [None, b"", b"no JSON", b"[1]", b'{"job": "silver"}'])
def test_records_of_others_are_no_metrics(value: bytes | None) -> None:
    assert report.batch_in(value) is None


def run_of(job: str, output: str, run_id: str, *rows: int) -> list[dict[str, Any]]:
    """Return a batch a minute, the first of run 1 at 10:00, of run 2 at 11:00."""
    times = [f"2024-05-01T{9 + int(run_id):02}:{minute:02}:00.000Z" for minute in range(len(rows))]
    seen = [PROGRESS | {"runId": run_id, "numInputRows": n, "timestamp": at} for n, at in zip(rows, times, strict=True)]
    batches = [metrics_of(progress, job, output) for progress in seen]
    return [{**batch, "rows_per_second": float(count)} for batch, count in zip(batches, rows, strict=True)]


def test_every_run_has_a_line_of_its_own() -> None:
    """Tables of the same job have lines of their own; a later run into the same table goes on after a gap."""
    batches = run_of("store", "a", "1", 10, 20) + run_of("store", "b", "2", 30) + run_of("silver", "c", "3", 5)
    batches += run_of("store", "a", "4", 0, 40, 50, 60, 70, 80)
    jobs = report.by_job(batches)
    assert list(jobs) == ["store a", "store b", "silver"]
    times, heights = report.points(jobs["store a"], "rows_per_second")
    assert " ".join(f"{time:%H:%M}" for time in times) == "10:00 10:01 13:01 13:01 13:02 13:03 13:04 13:05"
    assert [None if math.isnan(height) else height for height in heights] == [10, 20, None, 40, 50, 60, 70, 80]
    assert report.points(jobs["store b"], "rows_per_second")[1] == [30]
    page = report.page(batches, [])
    assert "<td>store a</td><td>2</td><td>8</td><td>330</td>" in page
    throughput = page.split("<figure")[1]
    assert all(f"<!-- {name} -->" in throughput for name in jobs)
    assert "<!-- begin of the batch, UTC -->" in throughput
    drawn = [path for path in throughput.split("<path") if "stroke-width: 5" in path]
    assert (2, 5) in [(path.count("M "), path.count("L ")) for path in drawn]  # two points, a gap, five points


def axes_of(draw: Callable[[Any], None]) -> Any:
    axes = Figure().subplots()
    draw(axes)
    return axes


def test_a_short_run_has_bars_on_whole_numbers() -> None:
    """A dot of a line that has one point says nothing, and batch 1.015 there is not."""
    jobs = report.by_job(run_of("silver", "s", "1", 20, 10) + run_of("store", "t", "2", 30))
    axes = axes_of(report.per_batch(jobs, "rows_per_second", {}))
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2"]
    assert [bar.get_height() for bar in axes.patches] == [20, 10, 30]
    silver, store = axes.patches[0], axes.patches[2]
    assert silver.get_x() + silver.get_width() < store.get_x(), "they stand side by side"
    assert [text.get_text() for text in axes.texts] == ["20", "10", "30"]
    idle = {job: [{**batch, "lag": 0} for batch in batches] for job, batches in jobs.items()}
    nothing_left = axes_of(report.per_batch(idle, "lag", {}))
    assert nothing_left.get_ylim() == (0, 1)
    assert list(nothing_left.get_yticks()) == [0, 1]


@pytest.mark.parametrize(
    ("watermark", "unit"),
    [
        ("2024-04-28", "days"),
        ("2024-05-01T05:00", "hours"),
        ("2024-05-01T09:50", "minutes"),
        ("2024-05-01T10:00", "seconds"),
    ],
)
def test_the_watermark_has_a_unit_that_can_be_read(watermark: str, unit: str) -> None:
    behind = f"{watermark}Z" if "T" in watermark else f"{watermark}T10:00Z"
    jobs = {"silver": [{**batch, "watermark": behind} for batch in run_of("silver", "s", "1", 20)]}
    (plot,) = report.watermark_plot(jobs, {})
    assert f"<!-- {unit} -->" in plot
    assert report.watermark_plot(report.by_job(run_of("silver", "s", "1", 20)), {}) == []


def test_jobs_stand_in_the_order_of_the_table() -> None:
    jobs = report.by_job(run_of("silver", "s", "1", 20) + run_of("store", "t", "2", 30))
    below, above = axes_of(report.left_out(jobs, {})).get_ylim()
    assert below > above


def test_few_windows_are_bars_and_many_are_lines() -> None:
    few = [(f"2024-05-01T0{hour}:00:00Z", group, 10, -2.5) for hour in range(2) for group in ("de", "fr")]
    axes = axes_of(report.per_window(few, 2, whole=True, colours={}))
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2024-05-01 00:00", "2024-05-01 01:00"]
    assert [bar.get_height() for bar in axes.patches] == [10, 10, 10, 10]
    assert axes_of(report.per_window(few, 3, whole=False, colours={})).get_ylim()[0] < -2.5
    many = [(f"2024-05-01T{hour:02}:00:00Z", "de", 10, 2.5) for hour in range(9)]
    assert [
        len(line.get_xdata()) for line in axes_of(report.per_window(many, 2, whole=True, colours={})).get_lines()
    ] == [9]


def test_sparse_windows_at_either_end_are_left_out() -> None:
    """Late events lie far back, and the last window has only begun; what is sparse in between stays."""
    counts = [1, 0, 1, 100, 10, 100, 100, 20]
    windows = [(f"2024-05-01T{hour:02}:00:00Z", "de", events, 1.0) for hour, events in enumerate(counts)]
    assert [time.hour for time in report.main_span(windows)] == [3, 7], "20 of 332 events are more than a twentieth"
    windows[-1] = ("2024-05-01T07:00:00Z", "de", 15, 1.0)
    assert [time.hour for time in report.main_span(windows)] == [3, 6]
    assert [time.hour for time in report.main_span(windows[:1])] == [0, 0]


def test_a_report_of_nothing(settings: Any, make_topic: Any, tmp_path: Path) -> None:
    from pipeline.kafka import Kafka

    own = dataclasses.replace(settings, metrics_topic=make_topic(f"{settings.bronze_topic}.metrics"))
    with pytest.raises(SettingsError, match="there are no metrics"):
        report.write(own, Kafka(own))
    nowhere = tmp_path / "none.db"
    assert report.read_windows(dataclasses.replace(own, database=f"sqlite:///{nowhere}")) == []
    assert not nowhere.exists()
    assert report.read_windows(own) == report.read_windows(dataclasses.replace(own, data_dir="s3a://lake")) == []
    assert not Path(own.data_dir).exists()
