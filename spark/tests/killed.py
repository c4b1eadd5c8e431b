"""A job as a process of its own, which a test kills: driver and JVM, with kill -9."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from pipeline.connector import connector_jars
from pipeline.session import QUICK
from pipeline.settings import Settings, fields_of

SPARK = Path(__file__).resolve().parents[1]
SHARED = ("bootstrap_servers", "data_dir", "bronze_topic", "dead_letter_topic", "max_offsets_per_trigger")


def stored_ids(settings: Settings) -> list[str]:
    """Return the ids of the events in the job's SQLite file, none before there is one."""
    path = Path(settings.path("pipeline.db"))
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchone():
            return []
        return [row[0] for row in connection.execute("SELECT event_id FROM events")]


def shared(job: str, settings: Settings) -> dict[str, Any]:
    """Return the settings of a job that tests change."""
    known = {field.name for field in fields_of(job)}
    return {name: getattr(settings, name) for name in SHARED if name in known}


def command(job: str, settings: Settings, **more: Any) -> list[str]:
    """Return the command line of a job with the settings that tests change; more: further ones, of a list each item."""
    options: Mapping[str, Any] = {
        **shared(job, settings), "master": "local[2]", "jars": ",".join(connector_jars()), "shuffle_partitions": 1,
        **more,
    }  # fmt: skip
    given = [
        f"--{name.replace('_', '-')}={value}"
        for name, values in options.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return [sys.executable, "-m", "pipeline", job, *given, *(f"--spark={key}={QUICK[key]}" for key in QUICK)]


def log_of(settings: Settings) -> Path:
    return Path(settings.data_dir).with_suffix(".log")


def start(job: str, settings: Settings, **more: Any) -> "subprocess.Popen[bytes]":
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SPARK), os.environ.get("PYTHONPATH", "")])}
    with log_of(settings).open("ab") as log:
        return subprocess.Popen(
            command(job, settings, **more), env=environment, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )


def start_flows(settings: Settings, flows: Mapping[str, dict[str, Any]]) -> "subprocess.Popen[bytes]":
    """Start jobs in one driver, by the names of their flows: every process more costs ten seconds of a core."""
    return start("flows", settings, flows=[f"{name}={json.dumps(table)}" for name, table in flows.items()])


def flow(job: str, settings: Settings, **more: Any) -> dict[str, Any]:
    """Return a flow with the settings that tests change; more: further ones."""
    return {"job": job, **shared(job, settings), **more}


def kill(job: "subprocess.Popen[bytes]") -> None:
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)  # the JVM is in its group
    job.wait(30)
    job.stdout and job.stdout.close()


def kill_at_random(
    job: "subprocess.Popen[bytes]",
    settings: Settings,
    draw: random.Random,
    progress: Sequence[Callable[[], Any]],
    eventually: Callable[..., None],
    longest_s: float = 0.6,
    may_end: bool = False,
) -> None:
    """Kill the job some time after each of `progress` has changed: they say how far its flows are. may_end: whether a
    job that is done before it is killed is right, too."""
    before = [far() for far in progress]
    try:
        eventually(
            lambda: all(far() != was for far, was in zip(progress, before, strict=True)) or job.poll() is not None
        )
        time.sleep(draw.uniform(0, longest_s))
        assert job.poll() is None or (may_end and job.returncode == 0), log_of(settings).read_text()[-3000:]
    finally:
        kill(job)
