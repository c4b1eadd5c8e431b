"""A progress bar for long work on a terminal.

Rule: the bar is on standard error, only if that is a terminal and `tqdm` (the extra `tools`) is installed. The bar is
removed when the work is done.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from typing import Any, Protocol


class Bar(Protocol):
    """A progress bar. `clear` and `refresh` hide and show the bar around a line on standard output."""

    def update(self, n: int = 1) -> object: ...

    def clear(self) -> None: ...

    def refresh(self) -> object: ...


class InvisibleBar:
    """The bar without a terminal."""

    def update(self, n: int = 1) -> None: ...

    def clear(self) -> None: ...

    def refresh(self) -> None: ...


INVISIBLE = InvisibleBar()


def bar(what: str, total: int | None, unit: str) -> AbstractContextManager[Bar]:
    """Show a progress bar. total: None if unknown. unit: bytes (`B`) are shown in larger units."""
    tqdm: Any = None
    if sys.stderr.isatty():
        with suppress(ImportError):
            tqdm = import_module("tqdm").tqdm
    if tqdm is None:
        return nullcontext(INVISIBLE)
    tqdm.monitor_interval = 0  # no thread
    shown: AbstractContextManager[Bar] = tqdm(
        desc=what, total=total, unit=unit, unit_scale=unit == "B", file=sys.stderr, leave=False
    )
    return shown
