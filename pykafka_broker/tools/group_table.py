"""Tables in columns, as Kafka's scripts about groups print them.

Rule: a column is as wide as its widest cell, and has at least the width that Kafka gives it; nothing is `-`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka_broker.tools.frame import Tool

Column = tuple[str, int]  # its title, and how wide it is at least


def print_table(tool: Tool, columns: Sequence[Column], rows: Sequence[Sequence[object]], *, apart: bool = True) -> None:
    """With its titles. apart: a blank line comes first."""
    cells = [[_cell(each) for each in row] for row in rows]
    widths = [max(width, *(len(row[at]) for row in cells), 0) for at, (_, width) in enumerate(columns)]
    if apart:
        tool.print()
    for row in ([title for title, _ in columns], *cells):
        tool.print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
