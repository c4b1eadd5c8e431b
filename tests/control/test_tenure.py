"""What a broker has begun when another one takes its place."""

from __future__ import annotations

import errno

import pytest

from pykafka_broker.control.state import DataDirLease
from pykafka_broker.log.jobs import Job


class Recorded:
    """Notes what was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def run(self) -> None:
        self.calls.append("run")

    def apply(self) -> None:
        self.calls.append("apply")

    def failed(self, error: OSError) -> None:
        self.calls.append("failed")


def test_while_it_lasts_jobs_are_done() -> None:
    submitted: list[Job] = []
    job = Recorded()
    DataDirLease(submitted.append).share.submit(job)
    (waiting,) = submitted
    waiting.run()
    waiting.apply()
    waiting.failed(OSError())
    assert job.calls == ["run", "apply", "failed"]


def test_after_it_they_do_nothing_and_are_not_heard_of() -> None:
    submitted: list[Job] = []
    tenure, begun, waiting = DataDirLease(submitted.append), Recorded(), Recorded()
    tenure.share.submit(begun)
    tenure.share.submit(waiting)
    submitted[0].run()
    tenure.end()
    submitted[0].apply()
    submitted[1].run()
    submitted[1].failed(OSError())
    assert (begun.calls, waiting.calls) == (["run"], [])


def test_its_files_are_no_concern_of_the_next_one() -> None:
    tenure = DataDirLease(lambda job: None)
    later = tenure.next()
    tenure.end()
    with pytest.raises(OSError, match="another broker") as refused:
        tenure.files.make_directory("/nowhere/at/all")
    assert refused.value.errno == errno.ESTALE
    assert not later.over
