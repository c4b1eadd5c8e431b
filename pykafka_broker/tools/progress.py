"""A bar for long work, where somebody looks on.

Rule: it stands on standard error, and only if that is a terminal and `tqdm` (the extra `tools`) is installed; else
there is none, and nothing is told. It is gone when the work is done.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Protocol


class Bar(Protocol):
    """`update(n)`: so much more is done. `clear`, `refresh`: away for a line on standard output, and back."""

    def update(self, n: int = 1) -> object: ...

    def clear(self) -> None: ...

    def refresh(self) -> object: ...


class Nothing:
    """A bar that nobody sees."""

    def update(self, n: int = 1) -> None: ...

    def clear(self) -> None: ...

    def refresh(self) -> None: ...


NOTHING = Nothing()


@contextmanager
def bar(what: str, total: int | None, unit: str) -> Iterator[Bar]:
    """total None: nobody knows how much it is. unit: of what is counted; bytes (`B`) are told in larger ones."""
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
