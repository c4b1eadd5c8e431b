"""What is to be removed goes at its time, and what can't be removed keeps nothing else."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.jobs import run_inline
from pykafka_broker.log.removal import Remover
from tests.log.support import NOW, FailingFileSystem, batch, new_log


def test_one_that_fails_does_not_keep_the_others() -> None:
    done: list[int] = []
    errors: list[OSError] = []

    def refuse() -> None:
        raise OSError(errno.EACCES, "no")

    def missing() -> None:
        raise FileNotFoundError(errno.ENOENT, "gone")

    remover = Remover(OsFileSystem(), run_inline, errors.append)
    for due, removal in ((5, lambda: done.append(1)), (6, refuse), (7, missing), (8, lambda: done.append(2))):
        remover.later(due, removal)
    assert remover.next_deadline() == 5
    remover.on_deadline(4)
    assert done == []
    remover.on_deadline(10)
    assert (done, [error.errno for error in errors]) == ([1, 2], [errno.EACCES])
    assert remover.next_deadline() is None


def test_what_is_refused_for_the_moment_is_tried_again() -> None:
    done: list[int] = []
    errors: list[OSError] = []

    def refuse_once() -> None:
        if not errors:
            raise OSError(errno.EMFILE, "too many")
        done.append(1)

    remover = Remover(OsFileSystem(), run_inline, errors.append)
    remover.later(5, refuse_once)
    remover.on_deadline(6)
    assert (done, [error.errno for error in errors]) == ([], [errno.EMFILE])
    assert remover.next_deadline() == 10_006
    remover.on_deadline(10_006)
    assert done == [1]
    assert remover.next_deadline() is None


def test_a_log_that_goes_is_not_open_all_at_once(tmp_path: Path) -> None:
    class Counting(FailingFileSystem):
        most = 0

        def remove(self, path: str) -> None:
            self.most = max(self.most, len(os.listdir("/proc/self/fd")))
            super().remove(path)

    fs = Counting()
    log = new_log(tmp_path, fs, segment_bytes=200)
    for _ in range(30):
        log.append(batch(1, 100), NOW)
    log.close()
    remover = Remover(fs, run_inline, lambda error: pytest.fail(str(error)))
    fs.rename(log.directory, f"{log.directory}.gone")
    remover.log_later(5, f"{log.directory}.gone", log)
    del log
    before = len(os.listdir("/proc/self/fd"))
    remover.on_deadline(5)
    assert not list(tmp_path.iterdir())
    assert fs.most < before + 20
