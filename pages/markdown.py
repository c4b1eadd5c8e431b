"""Tables in Markdown, as GitHub and MkDocs both read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_line(heads), "|" + "---|" * len(heads), *map(_line, rows)]
    return "\n".join(line.replace("|  |", "| |").replace("|  |", "| |") for line in lines) + "\n"


def code(text: str) -> str:
    """Return the text as code, and nothing for none."""
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Return a sentence in which no character means anything to Markdown; what stands in `` `...` `` stays."""
    parts = " ".join(text.split()).split("`")
    for place in range(0, len(parts), 2):
        for character in "<*_":
            parts[place] = parts[place].replace(character, f"\\{character}")
    return "`".join(parts)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
