"""What is to be removed goes at its time, and what can't be removed keeps nothing else."""

from __future__ import annotations

import errno

from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.log.jobs import run_inline
from pykafka_broker.log.removal import Remover


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
