"""kill -9 of the whole job, driver and JVM, at random points, again and again: no record is lost, none doubled."""

import dataclasses
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pipeline import store
from pipeline.connector import connector_jars
from pipeline.session import QUICK
from pipeline.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
KILLS = {"checkpoint": 5, "kafka": 1, "store": 1}  # with --slow five of each
RECORDS = 6000
SPARK = Path(__file__).resolve().parents[1]


def command(settings: Settings, trigger: str) -> list[str]:
    options = {
        "bootstrap-servers": settings.bootstrap_servers, "data-dir": settings.data_dir, "trigger": trigger,
        "bronze-topic": settings.bronze_topic, "offsets": settings.offsets,
        "max-offsets-per-trigger": str(settings.max_offsets_per_trigger),
        "master": "local[2]", "jars": ",".join(connector_jars()), "shuffle-partitions": "1",
    }  # fmt: skip
    given = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "pipeline", "store", *given, *(f"--spark={key}={QUICK[key]}" for key in QUICK)]


def start(settings: Settings, trigger: str = "available-now") -> "subprocess.Popen[bytes]":
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SPARK), os.environ.get("PYTHONPATH", "")])}
    with Path(settings.data_dir).with_suffix(".log").open("ab") as log:
        return subprocess.Popen(
            command(settings, trigger), env=environment, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )


def ids(settings: Settings) -> list[str]:
    path = Path(settings.path("pipeline.db"))
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchone():
            return []
        return [row[0] for row in connection.execute("SELECT event_id FROM events")]


def kill_at_random(settings: Settings, draw: random.Random, eventually: Any) -> None:
    """Kills the job some time after it has stored something new."""
    before = len(ids(settings))
    job = start(settings)
    try:
        eventually(lambda: len(ids(settings)) > before or job.poll() is not None)
        time.sleep(draw.uniform(0, 0.6))
        assert job.poll() is None, Path(settings.data_dir).with_suffix(".log").read_text()[-3000:]
    finally:
        os.killpg(job.pid, signal.SIGKILL)  # the JVM is in its group
        job.wait(30)
        job.stdout and job.stdout.close()


@pytest.mark.parametrize("strategy", KILLS)
def test_killed_again_and_again(
    strategy: str, make_settings: Any, make_context: Any, make_topic: Any, put: Any, event: Any, eventually: Any,
    slow: bool,
) -> None:  # fmt: skip
    settings = make_settings(offsets=strategy, max_offsets_per_trigger=60)
    make_topic(settings.bronze_topic, 2)
    put(settings.bronze_topic, [{"value": event(n), "partition": n % 2} for n in range(RECORDS)])
    draw = random.Random(RECORDS)
    for _ in range(max(KILLS.values()) if slow else KILLS[strategy]):
        kill_at_random(settings, draw, eventually)
    left = RECORDS - len(ids(settings))
    assert left > 0  # otherwise the kills proved little
    store.run(make_context(dataclasses.replace(settings, max_offsets_per_trigger=0)))
    found = ids(settings)
    assert len(found) == len(set(found)) == RECORDS


def test_sigterm_ends_it_in_good_order(
    make_settings: Any, make_topic: Any, put: Any, event: Any, eventually: Any
) -> None:
    settings = make_settings()
    make_topic(settings.bronze_topic)
    put(settings.bronze_topic, [event(n) for n in range(600)])
    job = start(settings, trigger="asap")
    eventually(lambda: ids(settings))
    job.terminate()
    out, _ = job.communicate(timeout=60)
    assert job.returncode == 0
    summary = json.loads(out)
    assert summary["rows"] == len(ids(settings))
