"""The broker's time comes from its `Clock`, which one module of the server sets; nobody else asks the system."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.house.imports import modules

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pykafka_broker"
CLOCKS = {"time", "datetime"}
FILE_TIMES = {"st_mtime", "st_mtime_ns", "st_ctime", "st_ctime_ns", "st_atime", "getmtime", "getctime"}
MAY_READ = {
    "pykafka_broker.server.system_clock": "sets the broker's clock",
    "pykafka_broker.cli.log": "a command of its own, without a broker",
    "pykafka_broker.log.compaction.clean_process": "another process, which slows down its own reads and writes",
    "pykafka_broker.testing.clock": "takes dates and durations from tests and asks no clock",
    "pykafka_broker.control.observed_router": "how long a request took, which is nothing that the broker goes by",
    "pykafka_broker.testing.traffic": "takes a time that a test has",
    "pykafka_broker.testing.process": "waits for a broker in another process",
    "pykafka_broker.log.filesystem": "the one door to the disk: the age of a segment that has no timestamps of its own",
}


def times_read(source: str) -> set[str]:
    """What a module imports or asks that tells the time."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & CLOCKS
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} & CLOCKS
        elif isinstance(node, ast.Attribute):
            found |= {node.attr} & FILE_TIMES
    return found


def test_nobody_else_reads_a_clock() -> None:
    readers = {name for name, path in modules(ROOT, PACKAGE).items() if times_read(path.read_text())}
    assert readers <= set(MAY_READ)


def test_the_table_names_only_those_that_do() -> None:
    found = modules(ROOT, PACKAGE)
    assert {name for name in MAY_READ if not times_read(found[name].read_text())} == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time", {"time"}),
        ("from datetime import datetime", {"datetime"}),
        ("def f(s):\n    return s.st_mtime_ns", {"st_mtime_ns"}),
        ("clock.now", set()),
    ],
)
def test_what_counts_as_reading_one(source: str, found: set[str]) -> None:
    assert times_read(source) == found
