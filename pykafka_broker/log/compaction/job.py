"""The parts of a cleaning that run beside the event loop."""

from __future__ import annotations

from collections.abc import Callable

from pykafka_broker.log.compaction.clean_process import CleaningStopped
from pykafka_broker.log.compaction.cleaner import Candidate, Cleaner
from pykafka_broker.log.compaction.request import CleanRequest, CleanResult
from pykafka_broker.log.filesystem import FileSystem

Runner = Callable[[FileSystem, CleanRequest], CleanResult]  # as `CleaningProcesses`


class CleanJob:
    """Cleans one partition beside the loop, then puts the result in place."""

    def __init__(
        self, cleaner: Cleaner, found: Candidate, request: CleanRequest, runner: Runner, fs: FileSystem
    ) -> None:
        self._cleaner = cleaner
        self._found = found
        self._request = request
        self._runner = runner
        self._fs = fs
        self._result: CleanResult | None = None
        self._problem: ValueError | CleaningStopped | None = None

    def run(self) -> None:
        try:
            self._result = self._runner(self._fs, self._request)
        except (ValueError, CleaningStopped) as problem:
            self._problem = problem

    def apply(self) -> None:
        if self._result is not None:
            self._cleaner.cleaned(self._found, self._request.wall, self._result)
        else:
            self._cleaner.failed(self._found, self._request, self._problem)

    def failed(self, error: OSError) -> None:
        self._cleaner.failed(self._found, self._request, error)
