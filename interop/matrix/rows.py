"""The rows: each is a release of a client, from a file in `rows/` (`interop/README.md` explains it).

Rule: a file that is wrong says so by its name before anything runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROWS = Path(__file__).with_name("rows")
DEFAULT_OLDER = "2.8"
DEFAULT_TIMEOUT_S = 60
FIELDS = {"client", "language", "releases", "command", "prepare", "lacks", "explains", "timeout_s", "order", "older"}
RELEASE_FIELDS = {"versions", "prepare", "lacks", "explains", "older"}


class RowError(ValueError):
    """A file of rows that can't be used, and why."""


class Row(NamedTuple):
    client: str
    language: str
    version: str
    here: str  # the folder of its file
    command: list[str]  # with placeholders: `{python}`, `{version}` and others that the preparation fills
    prepare: dict[str, Any]
    older: str  # the release that ours passes for in the third target
    lacks: dict[str, str]  # columns that are grey without being tried, and why
    explains: dict[str, str]  # columns and targets that may be red, and what is known of it
    timeout_s: float

    @property
    def name(self) -> str:
        return f"{self.client} {self.version}"

    def why(self, target: str, column: str, note: str) -> str:
        """Return a red cell's note, after what the row says is known of its column or target."""
        known = "; ".join(self.explains[each] for each in (column, target) if each in self.explains)
        return note if not known or note.startswith(known) else f"{known}: {note}"


def load(folder: Path = ROWS) -> list[Row]:
    """Return the rows in the order of the page: files by their `order`, releases as they are written."""
    files = [(path, _parsed(path)) for path in sorted(folder.glob("*.toml"))]
    files.sort(key=lambda file: file[1].get("order", 1000))
    rows = [row for path, content in files for row in _rows_of(path, content)]
    names = [row.name for row in rows]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RowError(f"rows that are there twice: {', '.join(twice)}")
    return rows


def _parsed(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise RowError(f"{path.name}: {error}") from error
    missing = {"client", "language", "releases", "command"} - content.keys()
    unknown = content.keys() - FIELDS
    for each in content.get("releases", ()):
        unknown |= each.keys() - RELEASE_FIELDS
    if missing or unknown:
        raise RowError(f"{path.name}: missing {sorted(missing)}, unknown {sorted(unknown)}")
    return content


def _rows_of(path: Path, content: dict[str, Any]) -> Iterator[Row]:
    for release in content["releases"]:
        for version in release["versions"]:
            yield Row(
                client=content["client"],
                language=content["language"],
                version=version,
                here=str(path.parent),
                command=content["command"],
                prepare=content.get("prepare", {}) | release.get("prepare", {}),
                older=release.get("older", content.get("older", DEFAULT_OLDER)),
                lacks=content.get("lacks", {}) | release.get("lacks", {}),
                explains=content.get("explains", {}) | release.get("explains", {}),
                timeout_s=float(content.get("timeout_s", DEFAULT_TIMEOUT_S)),
            )
