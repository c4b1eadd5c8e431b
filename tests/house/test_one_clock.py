"""The broker's time comes from its `Clock`, which one module of the server sets; nobody else asks the system, neither
for the time nor for being woken after some.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import Source, sources

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pykafka_broker"
CLOCKS = {"time", "datetime"}
READS = re.compile(r"\b(time\.(time|time_ns|monotonic)|(datetime|date)\.(now|utcnow|today))\(")
FILE_TIMES = {"st_mtime", "st_mtime_ns", "st_ctime", "st_ctime_ns", "st_atime", "getmtime", "getctime"}
MAY_READ = {
    "pykafka_broker.server.event_loop": "sets the broker's clock",
    "pykafka_broker.cli": "the time for a command of its own, without a broker",
    "pykafka_broker.cli.format": "a command of its own, without a broker",
    "pykafka_broker.tools.statistics": "writes times as the user of a test wants them",
    "pykafka_broker.log.compaction.clean": "another process, which slows down its own reads and writes",
    "pykafka_broker.testing.controlled": "takes dates and durations from tests and asks no clock",
    "pykafka_broker.control.observed_router": "how long a request took, which is nothing that the broker goes by",
    "pykafka_broker.control.traffic.recorder": "when a request came and was answered, which the broker does not go by",
    "pykafka_broker.control.history.noting": "how long a request took, as observed_router",
    "pykafka_broker.control.history.findings": "shows times that a history has, and asks no clock",
    "pykafka_broker.testing.data": "takes a time that a test has, waits for brokers in other processes",
    "pykafka_broker.testing.cluster_data": "takes a time that a test has",
    "pykafka_broker.testing.traffic": "takes a time that a test has",
    "pykafka_broker.testing.arguments": "takes a time that a test has, and asks no clock",
    "pykafka_broker.testing.record": "takes a time that a test has, and asks no clock",
    "pykafka_broker.testing.client_settings": "how long a client's token is good",
    "pykafka_broker.testing.simulation.loop": "puts virtual time in the place of the system's, and reads neither",
    "pykafka_broker.testing.security_spec": "how long certificates are good; a file's timestamp",
    "pykafka_broker.testing.cluster": "the timestamp of a file that a broker begins with",
    "pykafka_broker.testing.broker_recording": "when its process was ended, as the recording of a broker tells",
    "pykafka_broker.testing.process": "waits for a broker in another process",
    "pykafka_broker.testing.trouble": "lets trouble come to brokers in other processes at its time",
    "pykafka_broker.security.sasl.aws_msk_iam": "reads the date that a client has signed, and asks no clock",
    "pykafka_broker.registry.avro": "shows times that a record has, and asks no clock",
    "pykafka_broker.tools.delegation_tokens": "shows times that a broker has told, and asks no clock",
    "pykafka_broker.tools.java_time": "reads times that a user has written, and asks no clock",
    "pykafka_broker.log.filesystem": "the age of a segment that was found on disk and whose records have no timestamps",
}

TIMERS = {"call_later", "call_at", "timeout", "timeout_at", "wait_for", "setitimer", "alarm", "Timer"}
ROOMS_OF_REAL_TIME = (
    "pykafka_broker.testing",
    "pykafka_broker.cli",
    "pykafka_broker.pytest_plugin",
    "pykafka_broker.client",
    "pykafka_broker.tools",
)
MAY_WAIT = {
    "pykafka_broker.server.server": "the timer of the broker's clock, for as long as that runs; the end of a process",
    "pykafka_broker.server.accepting": "until other processes have given back descriptors or memory",
    "pykafka_broker.server.tls_listener": "CPU time of what nothing else can end",
    "pykafka_broker.server.link": "what another process does takes real time",
    "pykafka_broker.control.api.recording": "what a broker may still carry out before it is killed",
    "pykafka_broker.control.control": "how long a test waits for the broker, and for a coordinator",
    "pykafka_broker.control.http": "how long a client of the control API, or another node, may be silent",
    "pykafka_broker.control.observed_router": "a fault whose delay is meant to be real",
    "pykafka_broker.zookeeper.extension": "what ZooKeeper does takes real time",
    "pykafka_broker.registry.topic": "until another node of the cluster has told something",
    "pykafka_broker.log.uncreated_logs": "until a thread has done something, without a limit",
}


def waits(source: Source) -> set[str]:
    """Return the module's calls that wait for real time; `sleep(0)` does not count."""
    found = set()
    for node in source.nodes(ast.Call):
        if isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name in TIMERS or (name == "sleep" and [ast.unparse(each) for each in node.args] != ["0"]):
                found.add(name)
    return found


def times_read(source: Source) -> set[str]:
    """Return the imports and attributes of a module that tell the time."""
    found = {alias.name for node in source.nodes(ast.Import) for alias in node.names} & CLOCKS
    found |= {node.module or "" for node in source.nodes(ast.ImportFrom)} & CLOCKS
    return found | {node.attr for node in source.nodes(ast.Attribute)} & FILE_TIMES


def test_only_the_modules_of_the_table_read_a_clock() -> None:
    readers = {name for name, source in sources(ROOT, PACKAGE).items() if times_read(source)}
    assert readers == set(MAY_READ)


def test_nobody_else_waits_for_real_time() -> None:
    found = sources(ROOT, PACKAGE)
    waiting = {name for name, source in found.items() if not name.startswith(ROOMS_OF_REAL_TIME) and waits(source)}
    waiting -= {name for name in MAY_READ if name.startswith("pykafka_broker.log.compaction")}
    assert waiting == set(MAY_WAIT)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("loop.call_later(1, f)", {"call_later"}),
        ("async with asyncio.timeout(3): pass", {"timeout"}),
        ("await asyncio.sleep(pause)", {"sleep"}),
        ("await asyncio.sleep(0)", set()),
        ("purgatory.park(parked)", set()),
    ],
)
def test_what_counts_as_waiting(source: str, found: set[str]) -> None:
    assert waits(Source(f"async def f():\n    {source}")) == found


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
    assert times_read(Source(source)) == found


def read_at_import(node: ast.AST) -> Iterator[str]:
    """Yield the calls of a clock that are made as the module is imported."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for early in (*child.decorator_list, child.args):
                yield from read_at_import(early)
        elif not isinstance(child, ast.Lambda):
            if isinstance(child, ast.Call) and READS.search(ast.unparse(child.func) + "("):
                yield ast.unparse(child)
            yield from read_at_import(child)


def test_no_test_takes_the_time_of_its_import_for_the_present() -> None:
    """No test reads a clock at import: a suite may run for an hour between import and test."""
    paths = [path for suite in ("tests", "interop", "spark/tests") for path in (ROOT / suite).rglob("*.py")]
    texts = {path: path.read_text() for path in paths}
    early = {path: [*read_at_import(ast.parse(text))] for path, text in texts.items() if READS.search(text)}
    assert {path: calls for path, calls in early.items() if calls} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("SOON = int(time.time()) + 1000", ["time.time()"]),
        ("@mark(datetime.datetime.now())\ndef f(): pass", ["datetime.datetime.now()"]),
        ("def f(now=time.monotonic()): pass", ["time.monotonic()"]),
        ("def f(): return time.time()", []),
        ("NOW = lambda: time.time()", []),
    ],
)
def test_what_counts_as_reading_at_import(source: str, found: list[str]) -> None:
    assert [*read_at_import(ast.parse(source))] == found
