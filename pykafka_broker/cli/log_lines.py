"""The log on stderr.

Rule: what is logged is one line, whatever it names: clients choose the names of groups, topics and users, and one with
a line break in it could write lines of its own. Only a traceback has more.
"""

from __future__ import annotations

import logging
import sys


class OneLine(logging.Formatter):
    """Writes what can't be printed as Python does in a literal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        return line if line.isprintable() else "".join(map(_printable, line))


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def log_to_stderr(level: str) -> None:
    """From now on, from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=level, handlers=[handler])
