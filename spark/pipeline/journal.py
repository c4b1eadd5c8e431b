"""Journals of a Parquet table: which files take the place of which. Rule: what a journal says is done by whoever finds
it, as often as it is found; and a reader that has to see every row lists the table when no journal is there.

A swap adds files and then removes others, so a row is never gone; but a reader may list one folder before a file is
added there, and another folder after a file is removed there. `steadily` notices: every swap changes the table's
generation, after its journal is there and before the first file moves.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from pipeline.files import Files

FOLDER, FINISHED, GENERATION = "_compacting", ".json", "generation"
FILE_IS_GONE = re.compile(r"FILE_NOT_EXIST|FileNotFoundException|underlying files have been updated")
TRIES = 20
Found = TypeVar("Found")


def folder_of(table: str) -> str:
    return f"{table}/{FOLDER}"


def swap(files: Files, table: str, name: str, add: dict[str, str], remove: list[str]) -> None:
    """Put files into a table in the place of others.

    Args:
        files: of the driver.
        table: the table's folder, which all paths are in.
        name: of the journal, which no other swap of the table has: who is late with one removes it by its name.
        add: the paths of new files, and the paths that they get.
        remove: the paths of files that the new ones stand for.
    """
    files.write(f"{folder_of(table)}/{name}{FINISHED}", json.dumps({"add": add, "remove": remove}))
    finish(files, table)


def finish(files: Files, table: str) -> None:
    """Do what the journals of a table say."""
    for name in _journals(files, table):
        path = f"{folder_of(table)}/{name}"
        text = files.read(path)
        if text is None:  # somebody else has done it
            continue
        journal = json.loads(text)
        files.write(f"{folder_of(table)}/{GENERATION}", uuid.uuid4().hex)
        for unfinished, added in journal["add"].items():
            files.rename_once(f"{table}/{unfinished}", f"{table}/{added}")
        for removed in journal["remove"]:
            files.delete(f"{table}/{removed}")
        for folder in {removed.rpartition("/")[0] for removed in journal["remove"]}:
            files.delete_if_empty(f"{table}/{folder}")
        files.delete(path)


def clear(files: Files, table: str) -> None:
    """Finish the journals, and remove the files of swaps that were not decided."""
    finish(files, table)
    for name in files.names(folder_of(table)):
        if name != GENERATION:
            files.delete(f"{folder_of(table)}/{name}")


def generation(files: Files, table: str) -> str | None:
    """Return what the latest swap of the table has written, None before the first one."""
    return files.read(f"{folder_of(table)}/{GENERATION}")


def steadily(files: Files, table: str, look: Callable[[], Found]) -> Found:
    """Return what `look` finds in the table, which no swap has changed meanwhile."""
    while True:
        before = generation(files, table)
        finish(files, table)
        found = look()
        if not _journals(files, table) and generation(files, table) == before:
            return found


def despite_swaps(
    files: Files, table: str, do: Callable[[], Found], forget: Callable[[], None] = lambda: None
) -> Found:
    """Do something once more, if files of the table that it reads were compacted meanwhile.

    What is kept of the table may have been read before, from files that are gone now: then the error alone tells.

    Args:
        files: of the driver.
        table: the table's folder.
        do: reads the table, and can be done again.
        forget: drops what is kept of the table, before `do` is called again.
    """
    for left in reversed(range(TRIES)):
        before = generation(files, table)
        try:
            return do()
        except (PySparkException, Py4JJavaError) as error:
            is_swapped = generation(files, table) != before
            if not left or not (is_swapped or FILE_IS_GONE.search(str(error))):
                raise
            forget()
    raise AssertionError("a last try returns or raises")


def _journals(files: Files, table: str) -> list[str]:
    return [name for name in files.names(folder_of(table)) if name.endswith(FINISHED)]
