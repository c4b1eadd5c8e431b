"""What one broker of the process has while no other has its place.

Rule: when it is over, nothing that the broker has begun touches a directory any more, and nobody hears of it.
"""

from __future__ import annotations

from pykafka_broker.log.filesystem import DisposableFiles
from pykafka_broker.log.jobs import Job, Submit
from pykafka_broker.server.serving import Share


class Tenure:
    """From the broker's start to `end`. Jobs go to `submit`."""

    def __init__(self, submit: Submit) -> None:
        self.files = DisposableFiles()
        self.over = False
        self._submit = submit

    @property
    def share(self) -> Share:
        """What its broker is given."""
        return Share(self.files, lambda job: self._submit(_Job(job, self)))

    def next(self) -> Tenure:
        """One for the broker that comes after."""
        return Tenure(self._submit)

    def end(self) -> None:
        self.over = True
        self.files.revoke()


class _Job:
    """A job of a broker; none any more when its time is over."""

    __slots__ = ("_job", "_tenure")

    def __init__(self, job: Job, tenure: Tenure) -> None:
        self._job = job
        self._tenure = tenure

    def run(self) -> None:
        if not self._tenure.over:
            self._job.run()

    def apply(self) -> None:
        if not self._tenure.over:
            self._job.apply()

    def failed(self, error: OSError) -> None:
        if not self._tenure.over:
            self._job.failed(error)
