"""A test's waits and clean brokers: how long after the event a wait answers, and what isolation costs each test.

Rule: the event of a wait is one record, and it counts from before that is sent, so the way there and its own answer are
in the figure. Isolation is what pytest itself measures of a test that has a topic, a record and a reset: its set-up and
its end, from the second test on.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from interop.answers.requests import produce
from interop.batches import batch
from interop.raw import RawClient
from pykafka_broker.testing import KafkaBroker

_WAITS, _WRITE_VERSION = 200, 9
_RECORD = batch(bytes(100))
_BEFORE_S = 0.005  # from the wait's begin to the event
_TESTS = """
import pytest

@pytest.mark.parametrize("number", range(30))
def test_it(kafka_broker, number):
    assert kafka_broker.topics() == []
    kafka_broker.create_topic("t")
    kafka_broker.produce("t", ["v"])
"""
_PLUGIN = """
import json

took = {}

def pytest_runtest_logreport(report):
    if report.when != "call":
        took[report.nodeid] = took.get(report.nodeid, 0.0) + report.duration

def pytest_sessionfinish(session):
    with open("took.json", "w") as file:
        json.dump(list(took.values()), file)
"""


def waits() -> dict[str, float]:
    """Measure the milliseconds from an event to the answer of a wait for it."""
    took = []
    with KafkaBroker() as broker, RawClient(broker.bootstrap_servers) as client:
        broker.create_topic("awaited")
        for number in range(_WAITS):
            answered: list[float] = []

            def wait(n: int = number + 1, answered: list[float] = answered) -> None:
                broker.wait_for_records("awaited", n)
                answered.append(time.perf_counter())

            waiting = threading.Thread(target=wait)
            waiting.start()
            time.sleep(_BEFORE_S)
            begun = time.perf_counter()
            client.call(produce("awaited", _RECORD), _WRITE_VERSION)
            waiting.join()
            took.append((answered[0] - begun) * 1e3)
    took.sort()
    return {
        "wait_after_event_ms": statistics.median(took),
        "wait_after_event_p99_ms": took[int(len(took) * 0.99)],
    }


def isolation() -> dict[str, float]:
    """Measure the milliseconds that a clean broker costs each test after the first."""
    with tempfile.TemporaryDirectory(prefix="bench-isolation-") as directory:
        (Path(directory) / "test_it.py").write_text(_TESTS)
        (Path(directory) / "conftest.py").write_text(_PLUGIN)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_it.py"]
        subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
        took = json.loads((Path(directory) / "took.json").read_text())
    return {"isolated_test_ms": statistics.median(took[1:-1]) * 1e3}  # the last one ends with the broker
