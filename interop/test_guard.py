"""A guarded process ends with the process that started it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

STARTER = """
import subprocess, sys, time
from interop.guard import Guard

sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
guard = Guard(sleeper.pid)
if sys.argv[1] == "released":
    guard.release()
print(sleeper.pid, flush=True)
time.sleep(600)
"""
WITHIN_S = 20


@pytest.fixture
def killed(request: pytest.FixtureRequest) -> Iterator[psutil.Process]:
    """A sleeping process whose starter was killed."""
    with subprocess.Popen([sys.executable, "-c", STARTER, request.param], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        sleeper = psutil.Process(int(starter.stdout.readline()))
        starter.kill()
    yield sleeper
    if sleeper.is_running():
        os.kill(sleeper.pid, signal.SIGKILL)


def _has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("killed", ["guarded"], indirect=True)
def test_it_ends_with_a_process_that_is_killed(killed: psutil.Process) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not _has_ended(killed) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _has_ended(killed)


@pytest.mark.parametrize("killed", ["released"], indirect=True)
def test_what_was_released_does_not(killed: psutil.Process) -> None:
    time.sleep(0.5)
    assert not _has_ended(killed)
