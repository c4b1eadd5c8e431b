"""The pages of the matrix: `interop/MATRIX.md` and `build/matrix/index.html`.

Rule: they say what the results say, and nothing of the machine that wrote them; a cell that never ran is a dot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from interop import ROOT
from interop.matrix.brokers import KAFKA, OURS, TARGETS
from interop.matrix.columns import COLUMNS
from interop.matrix.page import MARKS, html
from interop.matrix.results import GREEN, GREY, RED, Cell, Key, Results
from interop.matrix.rows import Row

PAGE = ROOT / "build" / "matrix" / "index.html"
MARKDOWN = ROOT / "interop" / "MATRIX.md"
HEAD = """\
# The matrix

What real clients do against this broker, as `make matrix` found it. Each cell has three marks: **ours**, this broker;
**Kafka**, Apache Kafka of the same release, to compare with; **older**, ours as an older release (`--emulate`), that of
the second column. `●` it works, `✗` it fails, `○` it can't be tried (why stands below each table), `·` it was not run.

"""
TAIL = """
`make matrix` runs what a run of the last day has not; it also writes `build/matrix/index.html`, where each cell says
what it ran, when and how long. [README.md](README.md) says how to add a client of your own.
"""


def publish(rows: Sequence[Row], results: Results, markdown: Path = MARKDOWN, page: Path = PAGE) -> None:
    markdown.write_text(as_markdown(rows, results))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(html(rows, results))


def red_here(results: Results, kafka: str | None) -> list[Key]:
    """Return the cells that are red with this broker and in the state `kafka` with a real Kafka; None is not run.

    If the state is green, the fault is this broker's.
    """
    found = []
    for key, cell in sorted(results.cells.items()):
        theirs = results.cells.get((key[0], KAFKA, key[2]))
        if key[1] == OURS and cell.state == RED and (theirs.state if theirs else None) == kafka:
            found.append(key)
    return found


def as_markdown(rows: Sequence[Row], results: Results) -> str:
    known = {row for row, _, _ in results.cells}
    run = [row for row in rows if row.name in known]
    parts = [HEAD, _summary(results), "\n| column | what is checked |\n|---|---|\n"]
    parts += [f"| {column.title} | {column.says} |\n" for column in COLUMNS]
    for client, group in groupby(run, key=lambda row: row.client):
        parts.append(_table(client, list(group), results))
    return "".join(parts) + TAIL


def _summary(results: Results) -> str:
    lines = []
    for target in TARGETS:
        cells = [cell for (_, where, _), cell in results.cells.items() if where == target]
        if cells:
            counts = {state: sum(cell.state == state for cell in cells) for state in (GREEN, RED, GREY)}
            days = sorted({cell.when[:10] for cell in cells})
            lines.append(f"| {target} | {counts[GREEN]:,} | {counts[RED]:,} | {counts[GREY]:,} | {_between(days)} |\n")
    said = "\n".join(
        f"Red here and {what}: {len(found)}{_named(found)}."
        for what, found in (
            ("green against Kafka", red_here(results, GREEN)),
            ("not run against Kafka", red_here(results, None)),
        )
    )
    return "| target | ● | ✗ | ○ | run on |\n|---|---|---|---|---|\n" + "".join(lines) + f"\n{said}\n"


def _named(found: Sequence[Key]) -> str:
    return f" ({'; '.join(f'{row}: {column}' for row, _, column in found)})" if found else ""


def _between(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _table(client: str, rows: Sequence[Row], results: Results) -> str:
    titles = " | ".join(column.title for column in COLUMNS)
    lines = [f"\n## {client}\n\n| release | older | {titles} |\n|---|---|{'---|' * len(COLUMNS)}\n"]
    for row in rows:
        cells = " | ".join(_marks(row, column.name, results) for column in COLUMNS)
        lines.append(f"| {row.version} | {row.older} | {cells} |\n")
    reasons = list(_reasons(rows, results))
    if reasons:
        lines += ["\n<details><summary>Why not</summary>\n\n", *(f"- {each}\n" for each in reasons), "\n</details>\n"]
    return "".join(lines)


def _marks(row: Row, column: str, results: Results) -> str:
    cells = [results.cells.get((row.name, target, column)) for target in TARGETS]
    return "".join(MARKS[cell.state if cell else "none"] for cell in cells)


def _reasons(rows: Sequence[Row], results: Results) -> Iterable[str]:
    """Yield the reasons of cells that are not green, each once for all its releases and targets."""
    found: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for column in COLUMNS:
        for target in TARGETS:
            for row in rows:
                cell = results.cells.get((row.name, target, column.name))
                if cell is not None and cell.state != GREEN:
                    note = _without_its_release(cell, row)
                    note = row.why(target, column.name, note) if cell.state == RED else note
                    found.setdefault((column.title, cell.state, note), {}).setdefault(row.version, []).append(target)
    order = [row.version for row in rows]
    for (title, state, note), releases in found.items():
        for targets, versions in groupby(releases, key=lambda version: releases[version]):
            where = "" if len(targets) == len(TARGETS) else f" ({', '.join(targets)})"
            yield f"{MARKS[state]} {title}, {ranges(list(versions), order)}{where}: {_plain(note)}"


def _without_its_release(cell: Cell, row: Row) -> str:
    """Return a cell's note with RELEASE for the release in folder names, so that releases share the note."""
    return cell.note.replace(row.name.replace(" ", "-"), f"{row.client}-RELEASE".replace(" ", "-"))


def ranges(versions: Sequence[str], order: Sequence[str]) -> str:
    """Return versions as text, in the order of the table: `1.0 to 1.3, 2.0`."""
    places = sorted(order.index(version) for version in versions)
    said = []
    for _, group in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        run = [order[place] for _, place in group]
        said.append(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}")
    return ", ".join(said)


def _plain(text: str) -> str:
    """Return a client's text on one line, with the characters escaped that Markdown reads."""
    escaped = "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in text)
    return escaped.replace("\n", " ")
