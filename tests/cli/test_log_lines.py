"""The format of the lines of the program's log."""

from __future__ import annotations

import logging
import sys

from pykafka_broker.cli.log_lines import OneLine


def written(message: str, *values: object, error: bool = False) -> str:
    raised = sys.exc_info() if error else None
    return OneLine().format(logging.LogRecord("a.logger", logging.INFO, "", 0, message, values, raised))


def test_a_line_has_time_level_and_logger() -> None:
    assert written("group %s is stable", "größe €").endswith(" INFO a.logger: group größe € is stable")


def test_a_name_can_not_begin_a_line_of_its_own() -> None:
    line = written("group %s is denied", "g\n2026-01-01 00:00:00,000 INFO forged\r\x1b[2J\u2028x")
    assert line.splitlines() == [line]
    assert line.endswith(r"group g\n2026-01-01 00:00:00,000 INFO forged\r\x1b[2J\u2028x is denied")


def test_a_traceback_has_lines() -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        lines = written("a defect", error=True).splitlines()
    assert lines[0].endswith("a defect")
    assert lines[1] == "Traceback (most recent call last):"
