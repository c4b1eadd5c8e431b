"""The results of the cells, and their file. Rule: the file has one line for each row and target, sorted, so that two
runs can be merged as text. A cell that runs again replaces its earlier result.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import NamedTuple

STORE = Path(__file__).with_name("results.json")
GREEN, RED, GREY = "green", "red", "grey"


class Cell(NamedTuple):
    state: str
    when: str  # "2026-11-22 22:50", UTC
    seconds: float = 0.0
    note: str = ""  # why a grey cell was not tried, what failed, or what a green cell adds


Key = tuple[str, str, str]  # row, target, column


class Results:
    """All cells that are known, kept in a file."""

    def __init__(self, path: Path = STORE) -> None:
        self.path = path
        self.cells: dict[Key, Cell] = {}
        self.with_what: dict[str, str] = {}  # by row, what its client ran with
        self._lock = threading.Lock()
        if path.exists():
            self._read(json.loads(path.read_text()))

    def _read(self, stored: dict[str, dict[str, dict[str, list[object]]]]) -> None:
        self.with_what = {row: str(said["with"]) for row, said in stored["rows"].items()}
        for place, columns in stored["cells"].items():
            row, _, target = place.rpartition(" | ")
            for column, (state, when, seconds, *note) in columns.items():
                self.cells[row, target, column] = Cell(str(state), str(when), float(str(seconds)), *map(str, note))

    def put(self, key: Key, cell: Cell) -> None:
        with self._lock:
            self.cells[key] = cell

    def take_over(self, other: Results) -> None:
        """Take over the cells of another run that are not older than those here."""
        for key, cell in other.cells.items():
            if key not in self.cells or self.cells[key].when <= cell.when:
                self.cells[key] = cell
        self.with_what |= other.with_what

    def ran_with(self, row: str, what: str) -> None:
        with self._lock:
            self.with_what[row] = what

    def save(self) -> None:
        with self._lock:
            places: dict[str, dict[str, list[object]]] = {}
            for (row, target, column), cell in sorted(self.cells.items()):
                stored: list[object] = [cell.state, cell.when, cell.seconds]
                places.setdefault(f"{row} | {target}", {})[column] = [*stored, cell.note] if cell.note else stored
            rows = {row: {"with": what} for row, what in sorted(self.with_what.items())}
            text = '{\n"rows": ' + _lines(rows) + ',\n"cells": ' + _lines(places) + "\n}\n"
            unfinished = self.path.with_suffix(".unfinished")
            unfinished.write_text(text)
            unfinished.replace(self.path)


def _lines(entries: dict[str, object] | dict[str, dict[str, str]] | dict[str, dict[str, list[object]]]) -> str:
    lines = (f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in entries.items())
    return "{\n" + ",\n".join(lines) + "\n}"
