"""Work that a broker had begun when another broker took over its data directory."""

from __future__ import annotations

import errno

import pytest

from pykafka_broker.control.state import DataDirLease
from pykafka_broker.log.flush import FlushJob
from pykafka_broker.log.jobs import Job
from pykafka_broker.log.uncreated_logs import CreateFoldersJob


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
    lease, begun, waiting = DataDirLease(submitted.append), Recorded(), Recorded()
    lease.share.submit(begun)
    lease.share.submit(waiting)
    submitted[0].run()
    lease.end()
    submitted[0].apply()
    submitted[1].run()
    submitted[1].failed(OSError())
    assert (begun.calls, waiting.calls) == (["run"], [])


def test_its_files_are_no_concern_of_the_next_one() -> None:
    lease = DataDirLease(lambda job: None)
    later = lease.next()
    lease.end()
    with pytest.raises(OSError, match="another broker") as refused:
        lease.files.make_directory("/nowhere/at/all")
    assert refused.value.errno == errno.ESTALE
    assert not later.over


class Sync(FlushJob):
    """A sync with a note of its calls."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def run(self) -> None:
        self.called.append("run")

    def apply(self) -> None:
        self.called.append("apply")


def test_data_that_end_with_the_process_are_not_synced() -> None:
    submitted: list[Job] = []
    lasting, temporary = DataDirLease(submitted.append), DataDirLease(submitted.append, syncs=False)
    first, second, late, other = Sync(), Sync(), Sync(), Recorded()
    lasting.share.submit(first)
    temporary.share.submit(other)
    assert len(submitted) == 2
    temporary.share.submit(second)
    temporary.end()
    temporary.share.submit(late)
    assert len(submitted) == 2
    assert (first.called, second.called, late.called) == ([], ["apply"], [])


def test_data_that_end_with_the_process_have_no_folder_before_its_first_use() -> None:
    submitted: list[Job] = []
    called: list[str] = []
    job = CreateFoldersJob(lambda: called.append("run"), lambda error: None, decline=lambda: called.append("decline"))
    DataDirLease(submitted.append).share.submit(job)
    DataDirLease(submitted.append, syncs=False).share.submit(job)
    assert len(submitted) == 1
    assert called == ["decline"]
