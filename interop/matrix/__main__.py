"""The command: chooses cells, runs them, writes `interop/MATRIX.md` and `build/matrix/index.html`.

Rule: it ends by itself: each cell has its time-out, and after `--minutes` none is begun. The exit code is 1 if a cell
of `ours` is red that is green against a real Kafka.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from interop.matrix.brokers import TARGETS
from interop.matrix.columns import COLUMNS
from interop.matrix.publishing import MARKDOWN, PAGE, publish, red_here
from interop.matrix.results import GREEN, RED, Results
from interop.matrix.rows import ROWS, Row, RowError, load
from interop.matrix.runs import Run, Wanted


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m interop.matrix", description="Runs and writes the matrix.")
    parser.add_argument("--rows", default="*", help='rows by name: "kafka-python*", "Java 3.*", several with commas')
    parser.add_argument("--columns", default="*", help="columns by name, several with commas")
    parser.add_argument("--targets", default=",".join(TARGETS), help="of ours, kafka, older")
    parser.add_argument("--resume", action="store_true", help="leaves cells that a run has found within --hours")
    parser.add_argument("--hours", type=float, default=24, help="how old a found cell may be that is left (24)")
    parser.add_argument("--red", action="store_true", help="only cells that are red by now")
    parser.add_argument("--jobs", type=int, default=3, help="cells at a time (3)")
    parser.add_argument("--minutes", type=float, default=360, help="after so long no cell is begun (360)")
    parser.add_argument("--folder", type=Path, default=ROWS, help="where the rows are: one TOML file for each client")
    parser.add_argument("--results", type=Path, default=None, help="where results are kept")
    parser.add_argument("--join", type=Path, nargs="*", default=[], help="takes over what other runs have kept")
    parser.add_argument(
        "--out", type=Path, default=None, help="a folder for MATRIX.md and index.html, if not their own"
    )
    parser.add_argument("--render", action="store_true", help="writes the pages anew and runs nothing")
    return parser.parse_args(words)


def chosen(rows: Sequence[Row], options: argparse.Namespace, results: Results) -> list[Wanted]:
    targets = options.targets.split(",")
    unknown = set(targets) - set(TARGETS)
    if unknown:
        raise RowError(f"no such target: {', '.join(sorted(unknown))}")
    since = (datetime.now(UTC) - timedelta(hours=options.hours)).strftime("%Y-%m-%d %H:%M")
    found = []
    for target in targets:
        for row in rows:
            for column in COLUMNS:
                each = Wanted(row, target, column)
                known = results.cells.get(each.key)
                if not (_among(row.name, options.rows) and _among(column.name, options.columns)):
                    continue
                if options.red and (known is None or known.state != RED):
                    continue
                if options.resume and known is not None and known.when >= since:
                    continue
                found.append(each)
    return found


def _among(name: str, globs: str) -> bool:
    return any(fnmatch.fnmatch(name.lower(), glob.strip().lower()) for glob in globs.split(","))


def main(words: Sequence[str] | None = None) -> int:
    options = arguments(words)
    results = Results(options.results) if options.results else Results()
    try:
        rows = load(options.folder)
        wanted = [] if options.render else chosen(rows, options, results)
    except RowError as error:
        print(error, file=sys.stderr)
        return 2
    for other in options.join:
        results.take_over(Results(other))
    if wanted:
        print(f"{len(wanted)} cells", flush=True)
        Run(results, jobs=options.jobs, until=time.monotonic() + options.minutes * 60).all(wanted)
    results.save()
    out = options.out
    publish(rows, results, out / "MATRIX.md" if out else MARKDOWN, out / "index.html" if out else PAGE)
    defects = red_here(results, GREEN)
    for key in defects:
        print(f"red, and green against Kafka: {' | '.join(key)}")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
