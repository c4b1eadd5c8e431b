"""Cleaning in a process of its own, so that it takes no time from the event loop.

Rule: a request goes in on standard input and a result comes out on standard output. Small jobs are not worth a process
and run in the thread that asked. Whoever stops the broker need not wait: what is half done is worth nothing. A worker
never outlives its broker, however that ends: it would write into files that the next broker has made.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time  # noqa: TID251  # the rate of a worker's own reads and writes; no state machine sees it
from collections.abc import Callable

from pykafka_broker.log.compaction.clean import PartitionCleaner
from pykafka_broker.log.compaction.request import CleanRequest, CleanResult
from pykafka_broker.log.filesystem import FileSystem, OsFileSystem
from pykafka_broker.records.errors import GrowsTooLarge
from pykafka_broker.system import CREATION_FLAGS, PROCESS_GROUP, give_way

_SMALL_BYTES = 1 << 20
_MOST_UNPACKED_HERE = 8 << 20
_UNLIMITED = 1e18
_NICENESS = 5


class CleaningStopped(Exception):
    """The cleaning was cancelled, or its process died; there is nothing wrong with the log."""


class CleaningProcesses:
    """Runs cleanings, large ones in processes of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._cancelled = False

    def __call__(self, fs: FileSystem, request: CleanRequest) -> CleanResult:
        """`ValueError` if the log can't be cleaned, `CleaningStopped` if there was no time for it."""
        may_be_beside = isinstance(fs, OsFileSystem)
        if may_be_beside and sum(size for _, size in request.segments) >= _SMALL_BYTES:
            return self._clean_beside(request)
        here = request._replace(most_unpacked_bytes=_MOST_UNPACKED_HERE) if may_be_beside else request
        try:
            return PartitionCleaner(fs, here, self._throttle(request.bytes_per_second)).run()
        except GrowsTooLarge:
            if not may_be_beside:
                raise
        return self._clean_beside(request)  # little on disk, and much when it is unpacked

    def cancel(self) -> None:
        """End what is going on, and start nothing more."""
        with self._lock:
            self._cancelled = True
            for worker in self._workers:
                worker.kill()

    def _throttle(self, bytes_per_second: float) -> Callable[[int], None]:
        wait = throttle(bytes_per_second)

        def check(count: int) -> None:
            if self._cancelled:
                raise CleaningStopped("cancelled")
            wait(count)

        return check

    def _clean_beside(self, request: CleanRequest) -> CleanResult:
        safe_path = ["-P"] if sys.flags.safe_path else []  # as this process was started
        command = [sys.executable, *safe_path, "-m", "pykafka_broker.log.compaction.clean_process"]
        with self._lock:
            if self._cancelled:
                raise CleaningStopped("cancelled")
            # a process group of its own: Ctrl-C in a terminal is for the broker, which then ends its workers
            worker = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                creationflags=CREATION_FLAGS,
                process_group=PROCESS_GROUP,
            )
            self._workers.add(worker)
        try:
            output = _exchange(worker, pickle.dumps(request))
        finally:
            with self._lock:
                self._workers.discard(worker)
        if worker.returncode:
            raise CleaningStopped(f"the process ended with status {worker.returncode}")
        outcome = pickle.loads(output)
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, CleanResult)
        return outcome


def _exchange(worker: subprocess.Popen[bytes], request: bytes) -> bytes:
    """Send the request and wait for all of the answer. The worker's input stays open until then, since its end means to
    the worker that the broker is gone.
    """
    assert worker.stdin is not None
    assert worker.stdout is not None
    with worker, worker.stdout:
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.write(request)
            worker.stdin.flush()
        return worker.stdout.read()


def throttle(bytes_per_second: float) -> Callable[[int], None]:
    """Waits so that what it is told of stays below that rate."""
    if bytes_per_second >= _UNLIMITED:
        return lambda count: None
    start = time.monotonic()
    done = 0

    def wait(count: int) -> None:
        nonlocal done
        done += count
        ahead = done / bytes_per_second - (time.monotonic() - start)
        if ahead > 0:
            time.sleep(ahead)

    return wait


def _end_with_parent() -> None:
    """The other end of standard input is closed when the broker has ended, by kill -9 too."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def main() -> None:
    give_way(_NICENESS)
    request = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    outcome: CleanResult | Exception
    try:
        outcome = PartitionCleaner(OsFileSystem(), request, throttle(request.bytes_per_second)).run()
    except OSError as error:
        outcome = OSError(error.errno, error.strerror, error.filename)
    except ValueError as error:
        outcome = ValueError(str(error))
    sys.stdout.buffer.write(pickle.dumps(outcome))


if __name__ == "__main__":
    main()
