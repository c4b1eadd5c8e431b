"""Syncing a log to disk.

Rule: what lies below `recovery_point` outlives a power cut: the batches, and for segments that are complete also their
indexes and the producer snapshot after them. One sync runs at a time for a log; everybody who asks meanwhile shares the
next one (group commit).
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

from pykafka_broker.log.checkpoints import PARTITION_METADATA
from pykafka_broker.log.filesystem import FileHandle, FileSystem
from pykafka_broker.log.jobs import Submit, run_inline
from pykafka_broker.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from pykafka_broker.log.partition_log import PartitionLog
from pykafka_broker.log.producer_snapshot import snapshot_name

Waiter = Callable[[OSError | None], None]


class FlushJob:
    """Syncs one log up to where it ends now; `closed`: with all that a clean shutdown promises."""

    def __init__(self, flusher: Flusher, now: int, *, closed: bool = False) -> None:
        log = flusher.log
        self._flusher = flusher
        self._now = now
        self._fs = log.files.fs
        self._offset = log.log_end_offset
        self._truncations = log.truncations
        self._handles, self._paths = _unsynced_files(log, closed)
        self._directories = [log.directory, os.path.dirname(log.directory)] if log.directory_dirty else []
        log.directory_dirty = False

    def run(self) -> None:
        for handle in self._handles:
            handle.sync()
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):  # replaced by a newer one meanwhile, or never there
                self._fs.open(path).sync()
        for path in self._directories:
            self._fs.sync_directory(path)

    def apply(self) -> None:
        # what was written again after a truncation is not what this has synced
        same = self._flusher.log.truncations == self._truncations
        self._flusher.done(self._offset if same else 0, self._now)

    def failed(self, error: OSError) -> None:
        self._flusher.failed(error)


class DirectorySyncJob:
    """Makes the renames in a directory outlive a power cut."""

    def __init__(self, fs: FileSystem, path: str, on_error: Callable[[str, OSError], None]) -> None:
        self._fs = fs
        self._path = path
        self._on_error = on_error

    def run(self) -> None:
        self._fs.sync_directory(self._path)

    def apply(self) -> None:
        """Nothing waits for it."""

    def failed(self, error: OSError) -> None:
        self._on_error(self._path, error)


def _unsynced_files(log: PartitionLog, closed: bool) -> tuple[list[FileHandle], list[str]]:
    """Handles of segments and their indexes, and paths of the small files."""
    handles, paths = [], []
    for segment in log.segments.starting_from(log.recovery_point):
        handles.append(segment.log.create())
        if segment is not log.segments.active or closed:
            handles += [file.handle() for file in segment.files()[1:] if file.exists()]
        elif segment.transactions.entries:
            handles.append(segment.transactions.file.handle())
        if segment.base_offset > log.recovery_point:
            paths.append(f"{log.directory}/{snapshot_name(segment.base_offset)}")
    if closed:
        paths.append(f"{log.directory}/{snapshot_name(log.log_end_offset)}")
    if log.directory_dirty:
        paths += [f"{log.directory}/{PARTITION_METADATA}", f"{log.directory}/{EPOCHS_FILE}"]
    return handles, paths


def close_log(log: PartitionLog, now: int) -> None:
    """Leave a log's files as a clean shutdown leaves them, all of them synced."""
    unsynced = log.recovery_point < log.log_end_offset
    log.seal()
    if unsynced:
        job = FlushJob(Flusher(log, run_inline), now, closed=True)
        job.run()
        job.apply()
    log.close()


class Flusher:
    """The syncs of one log."""

    __slots__ = ("_running", "_submit", "_waiting", "log")

    def __init__(self, log: PartitionLog, submit: Submit) -> None:
        self.log = log
        self._submit = submit
        self._running = False
        self._waiting: list[tuple[int, Waiter]] = []

    def request(self, now: int, waiter: Waiter | None = None) -> None:
        """Sync what is in the log by now; `waiter` hears when that is done, or that it failed."""
        if waiter is not None:
            self._waiting.append((self.log.log_end_offset, waiter))
        if not self._running:
            self._start(now)

    def _start(self, now: int) -> None:
        self._running = True
        try:
            job = FlushJob(self, now)
        except OSError as error:
            self.failed(error)
        else:
            self._submit(job)

    def done(self, offset: int, now: int) -> None:
        self._running = False
        log = self.log
        log.recovery_point = max(log.recovery_point, min(offset, log.log_end_offset))
        log.last_flush_ms = now
        ready = [waiter for wanted, waiter in self._waiting if wanted <= offset]
        self._waiting = [(wanted, waiter) for wanted, waiter in self._waiting if wanted > offset]
        if self._waiting:
            self._start(now)
        for waiter in ready:
            waiter(None)

    def failed(self, error: OSError) -> None:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            # written pages found no room and may be dropped: unlike at a write, what is lost can't be known
            error = OSError(errno.EIO, f"sync failed: {error.strerror}", error.filename)
        self._running = False
        self.log.directory_dirty = True
        waiting, self._waiting = self._waiting, []
        self.log.listener.storage_failed(self.log, error)
        for _, waiter in waiting:
            waiter(error)
