"""The log on standard error.

Rule: a log entry is one line, whatever names are in it: clients choose the names of groups, topics and users, and a
name with a line break could forge lines. Only a traceback has more lines.
"""

from __future__ import annotations

import logging
import sys


class OneLine(logging.Formatter):
    """A formatter with escapes for unprintable characters, as in a Python literal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(map(_printable, line))


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def log_to_stderr(level: str) -> None:
    """Log to standard error, from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=level, handlers=[handler])
