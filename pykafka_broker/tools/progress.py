"""A progress bar for long work on a terminal.

Rule: the bar is on standard error, only if that is a terminal and `tqdm` (the extra `tools`) is installed. The bar is
removed when the work is done.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Protocol


class Bar(Protocol):
    """A progress bar. `clear` and `refresh` hide and show the bar around a line on standard output."""

    def update(self, n: int = 1) -> object: ...

    def clear(self) -> None: ...

    def refresh(self) -> object: ...


class Nothing:
    """An invisible bar."""

    def update(self, n: int = 1) -> None: ...

    def clear(self) -> None: ...

    def refresh(self) -> None: ...


NOTHING = Nothing()


@contextmanager
def bar(what: str, total: int | None, unit: str) -> Iterator[Bar]:
    """Show a progress bar. total: None if unknown. unit: bytes (`B`) are shown in larger units."""
    if not sys.stderr.isatty():
        yield NOTHING
        return
    try:
        tqdm = import_module("tqdm").tqdm
    except ImportError:
        yield NOTHING
        return
    tqdm.monitor_interval = 0  # no thread
    with tqdm(desc=what, total=total, unit=unit, unit_scale=unit == "B", file=sys.stderr, leave=False) as shown:
        yield shown
