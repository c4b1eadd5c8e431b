"""Tables of figures are made from the file of results, and what a run has measured gets there."""

from __future__ import annotations

import json
from pathlib import Path

from bench.__main__ import keep
from bench.report import METRICS
from pages.figures import FILES, TABLES, filled, outdated, read_results


def test_pages_hold_what_the_results_say() -> None:
    assert outdated() == []


def test_every_table_is_on_a_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in FILES)
    assert [name for name in TABLES if f"<!-- figures: {name} -->" not in text] == []


def test_every_figure_is_one_that_the_bench_measures() -> None:
    results = read_results()
    assert results["figures"].keys() - METRICS.keys() == set()
    assert {figure["run"] for figure in results["figures"].values()} == results["runs"].keys()


def test_a_kept_run_changes_its_rows_alone(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps(read_results()), encoding="utf-8")
    keep(
        "tonight",
        {
            "ours": [{"small_offset_commit_8_per_s": 30_000.4}, {"small_offset_commit_8_per_s": 10_000}],
            "kafka": [{"small_offset_commit_8_per_s": 10_000}],
        },
        results,
    )
    kept = json.loads(results.read_text(encoding="utf-8"))
    page = "<!-- figures: small -->\n<!-- end of figures -->\n"
    before, after = (filled(page, each).splitlines() for each in (read_results(), kept))
    changed = [line for line in after if line not in before]
    assert [line.partition(" (2)")[0] for line in changed if line.startswith("| OffsetCommit")] == ["| OffsetCommit ↑"]
    (row,) = (line for line in changed if "OffsetCommit" in line)
    assert [cell.split(" / ")[0] for cell in row.split(" | ")[1:3]] == ["20,000", "10,000"]
    assert kept["runs"]["tonight"]["rounds"] == 2


def test_runs_without_figures_are_forgotten(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    old = {"figures": {"start_s": {"run": "old", "ours": 1}}, "runs": {"old": {}}}
    results.write_text(json.dumps(old), encoding="utf-8")
    keep("new", {"ours": [{"start_s": 0.2}]}, results)
    assert list(json.loads(results.read_text(encoding="utf-8"))["runs"]) == ["new"]
