"""Tables as some of Kafka's tools print them: each column as wide as its widest cell, with a tab behind it.

Rule: the headings are printed also where nothing is below them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka_broker.tools.frame import Tool


def print_columns(tool: Tool, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """The rows in their order."""
    lines = [list(headings), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        tool.print("".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)))
