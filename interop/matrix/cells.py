"""Runs one cell: a client's program, told a scenario, against a broker that is there.

Rule: the program's exit code is the verdict: 0 green, 77 grey with what it said, all else red, and so is one that does
not end in time. What it printed is kept where a red cell says.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from interop import ROOT
from interop.matrix.brokers import Broker
from interop.matrix.preparing import Prepared, reason, shortened
from interop.matrix.results import GREEN, GREY, RED, Cell

LOGS = ROOT / "build" / "matrix" / "logs"
NOT_SUPPORTED = 77
RESTART = "restart"
NOTE_LIMIT = 160


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M")


def run_cell(
    prepared: Prepared,
    scenario: str,
    broker: Broker,
    topic: str,
    environment: dict[str, str],
    log: Path,
    limit_s: float,
) -> Cell:
    """`topic` is there already."""
    command = [*prepared.command, scenario, broker.bootstrap_servers, topic]
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            env={**os.environ, **prepared.environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
            start_new_session=True,  # so that all that it has started ends with it
        )
        timer = threading.Timer(limit_s, _end, [process])
        timer.start()
        try:
            said = _listen(process, broker)
            status = process.wait()
        finally:
            timer.cancel()
            _end(process)
        errors.write(f"--- standard output\n{said}\n--- exit code {status}\n")
    seconds = round(time.monotonic() - began, 1)
    return _verdict(status, said, log, seconds, seconds >= limit_s)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _listen(process: subprocess.Popen[str], broker: Broker) -> str:
    """Its standard output; a line `restart` is answered when the broker is back."""
    assert process.stdout is not None
    assert process.stdin is not None
    said = []
    for line in process.stdout:
        if line.strip() != RESTART:
            said.append(line)
            continue
        broker.restart()
        try:
            process.stdin.write("\n")
            process.stdin.flush()
        except BrokenPipeError:
            said.append("it did not wait for the broker\n")
    return "".join(said)


def _verdict(status: int, said: str, log: Path, seconds: float, late: bool) -> Cell:
    last = shortened(said.strip().splitlines()[-1]) if said.strip() else ""
    if status == 0:
        return Cell(GREEN, now(), seconds, last)
    if status == NOT_SUPPORTED:
        return Cell(GREY, now(), seconds, last or "the client can't")
    what = (
        f"not within {seconds:.0f} s" if late else reason(log.read_text().partition("--- standard output")[0] or said)
    )
    place = log.relative_to(ROOT) if log.is_relative_to(ROOT) else log.name
    return Cell(RED, now(), seconds, f"{what} ({place})")
