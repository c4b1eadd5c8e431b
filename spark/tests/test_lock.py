"""The lock of a table on a local disk: one process at a time commits, and a dead one holds nothing."""

import fcntl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import lock

pytestmark = pytest.mark.spark
HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""
LONG_ENOUGH_S = 0.5  # for a commit that does not wait


def test_the_others_wait(spark: SparkSession, tmp_path: Path) -> None:
    """Two threads of this JVM wait for another process, one of them by another path, and then for each other."""
    order: list[str] = []

    def commit(path: Path) -> None:
        with lock.held(spark, str(path)):
            order.append("in")
            time.sleep(0.1)
            order.append("out")

    table = tmp_path / "a table"
    table.mkdir()
    (tmp_path / "the same").symlink_to(table)
    with (table / lock.FILE).open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # this process is another one than Spark's JVM
        threads = [threading.Thread(target=commit, args=(path,)) for path in (table, tmp_path / "the same")]
        for thread in threads:
            thread.start()
        time.sleep(LONG_ENOUGH_S)
        order.append("released")
    for thread in threads:
        thread.join(60)
    assert order == ["released", "in", "out", "in", "out"]


def test_another_process_waits(spark: SparkSession, tmp_path: Path) -> None:
    with lock.held(spark, str(tmp_path)), (tmp_path / lock.FILE).open("r+") as file, pytest.raises(BlockingIOError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / lock.FILE).open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_dead_process_holds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / lock.FILE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        threading.Timer(LONG_ENOUGH_S, holder.kill).start()
        with lock.held(spark, str(tmp_path)):
            assert holder.wait(60) != 0


def test_a_failure_gives_the_lock_back(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="the plug"), lock.held(spark, str(tmp_path)):
            raise ValueError("the plug was pulled")


def test_elsewhere_nothing_is_locked(spark: SparkSession) -> None:
    with lock.held(spark, "http://127.0.0.1:9/table"):  # a file system that can't have the file
        pass
