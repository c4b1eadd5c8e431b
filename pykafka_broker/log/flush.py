"""Syncs of a log to disk.

Rule: everything below `recovery_point` outlives a power cut: the batches, and for complete segments also their indexes
and the producer snapshot after them. One sync runs at a time for a log; all callers that come meanwhile share the next
one (group commit). A failed sync is never tried again: the system may have dropped the pages that it could not write,
and would call the next sync a success. Only a failure before any sync, for want of a descriptor, is tried again.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from typing import NamedTuple

from pykafka_broker.log.filesystem import FileSystem, for_good, sync_file
from pykafka_broker.log.jobs import Submit, run_inline
from pykafka_broker.log.partition_log import PartitionLog

Waiter = Callable[[OSError | None], None]

_RETRY_MS = 1000


class FlushJob:
    """A sync of a log up to the present end; `closed`: including everything promised by a clean shutdown."""

    def __init__(self, flusher: Flusher, now: int, *, closed: bool = False) -> None:
        self._flusher = flusher
        self._now = now
        self._segments = flusher.log.segments
        self._fs = self._segments.files.fs
        self._files = flusher.log.unsynced.collect(flusher.log, closed=closed)

    def run(self) -> None:
        for handle in self._files.handles:
            sync_file(handle)
        for path in self._files.paths:
            with contextlib.suppress(FileNotFoundError):  # replaced by a newer file meanwhile, or never made
                sync_file(self._fs.open(path))
        for path in self._files.directories:
            _sync_directory(self._fs, path)

    def apply(self) -> None:
        # records appended after a truncation are not the synced ones
        same = self._flusher.log.truncations == self._files.truncations
        self._flusher.done(self._files.end_offset if same else 0, self._now)

    def failed(self, error: OSError) -> None:
        log = self._flusher.log
        if log.segments is not self._segments:  # moved to another directory, and synced there
            self._flusher.done(0, self._now)
            return
        log.unsynced.put_back(log, self._files)
        self._flusher.failed(error)


def _sync_directory(fs: FileSystem, path: str) -> None:
    try:
        fs.sync_directory(path)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # the directory could not be opened, so no sync has failed
        raise for_good(error) from error


def close_log(log: PartitionLog, now: int) -> None:
    """Leave a log's files synced, as after a clean shutdown."""
    unsynced = log.is_unsynced
    log.seal()
    if unsynced:
        job = FlushJob(Flusher(log, run_inline), now, closed=True)
        job.run()
        job.apply()
    log.close()


class _SyncWaiter(NamedTuple):
    offset: int  # the log's end at the request
    waiter: Waiter


class Flusher:
    """The syncs of a log, and the waiting callers."""

    __slots__ = ("_again", "_running", "_submit", "_syncing", "_target", "log")

    def __init__(self, log: PartitionLog, submit: Submit) -> None:
        self.log = log
        self._submit = submit
        self._running = False
        self._target = 0  # the log's end at the begin of the running sync
        self._again = False  # a request came for records that the running sync lacks
        self._syncing: list[_SyncWaiter] = []

    def request(self, now: int, waiter: Waiter | None = None) -> None:
        """Sync the records in the log by now; `waiter` is called at the end, with the error if the sync failed."""
        log = self.log
        if waiter is not None:
            if log.recovery_point >= log.log_end_offset:
                waiter(None)
                return
            self._syncing.append(_SyncWaiter(log.log_end_offset, waiter))
        if not self._running:
            self._start(now)
        elif log.log_end_offset > self._target or log.unsynced.has_segments:
            self._again = True

    def catch_up(self, now: int) -> None:
        """Start a sync if none runs: more records are unsynced than `flush.messages` allows."""
        if not self._running:
            self._start(now)

    def truncated(self, offset: int) -> None:
        """Fail the waiters for records beyond `offset`, where the log ends now."""
        cut = [one for one in self._syncing if one.offset > offset]
        self._syncing = [one for one in self._syncing if one.offset <= offset]
        for one in cut:
            one.waiter(OSError(errno.EIO, f"{self.log.topic}-{self.log.partition} was truncated to {offset}"))

    def _start(self, now: int) -> None:
        self._running, self._again, self._target = True, False, self.log.log_end_offset
        try:
            job = FlushJob(self, now)
        except OSError as error:
            self.failed(error)
        else:
            self._submit(job)

    def done(self, offset: int, now: int) -> None:
        self._running = False
        log = self.log
        log.synced_to(offset, now)
        ready = [one.waiter for one in self._syncing if one.offset <= log.recovery_point]
        self._syncing = [one for one in self._syncing if one.offset > log.recovery_point]
        # A sync during an interrupted cut moves nothing; the cut's end fails the waiters.
        if (self._again or self._syncing or log.overdue) and log.interrupted_cut is None:
            self._start(now)
        for waiter in ready:
            waiter(None)

    def failed(self, error: OSError) -> None:
        self._running = False
        log = self.log
        waiting, self._syncing = self._syncing, []
        log.keeper.sync_failed(log, error)
        for one in waiting:
            one.waiter(error)

    def fail_all(self, error: OSError) -> None:
        """Fail every waiter: nothing is synced any more."""
        waiting, self._syncing = self._syncing, []
        for one in waiting:
            one.waiter(error)


class Flushers:
    """The flushers of all logs of a manager."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._flushers: dict[tuple[str, int], Flusher] = {}
        self._retry_at: int | None = None  # when logs are synced again that a passing error has stopped

    def of(self, log: PartitionLog) -> Flusher:
        key = log.topic, log.partition
        flusher = self._flushers.get(key)
        if flusher is None or flusher.log is not log:
            flusher = self._flushers[key] = Flusher(log, self._submit)
        return flusher

    def forget(self, key: tuple[str, int]) -> None:
        self._flushers.pop(key, None)

    def fail_all(self, error: OSError) -> None:
        """Fail every waiter of every log: nothing is synced any more."""
        flushers, self._flushers = self._flushers, {}
        for flusher in flushers.values():
            flusher.fail_all(error)

    def retry(self, now: int) -> None:
        """Sync overdue logs again in a second: without a descriptor or room now, no later request may start a sync."""
        self._retry_at = now + _RETRY_MS

    def next_deadline(self) -> int | None:
        return self._retry_at

    def on_deadline(self, now: int) -> None:
        if self._retry_at is not None and self._retry_at <= now:
            self._retry_at = None
            for flusher in list(self._flushers.values()):
                if flusher.log.overdue:
                    flusher.catch_up(now)
