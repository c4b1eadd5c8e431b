"""Ports of test brokers: no two processes choose the same one (interop/real_kafka.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from interop.real_kafka import PORTS_EACH, free_port

ROOT = Path(__file__).parents[2]
OTHER = "from interop.real_kafka import free_port; print(free_port(), flush=True); input()"


def test_runs_at_the_same_time_choose_from_blocks_of_their_own() -> None:
    ours = free_port()
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    theirs = int(other.stdout.readline())
    other.communicate("end\n")
    assert other.returncode == 0
    assert theirs // PORTS_EACH != ours // PORTS_EACH


def test_a_port_is_not_given_twice() -> None:
    assert len({free_port() for _ in range(20)}) == 20
