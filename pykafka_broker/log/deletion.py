"""Deleted partitions and segments, from their deletion until their files are removed.

Rule: a deletion never fails for its caller, and never takes long. The partition is gone at once. A few folders are
renamed to `-delete` at once too; the folders of a large topic are renamed some at a time, with other work in between. A
rename that the disk refuses is tried again every second, and before a log of that name is made; that log is refused as
long as the old folder stands there, so that no client is ever served an earlier topic's records.

Files are removed `file.delete.delay.ms` later. Until then their names say so on disk (`.deleted`, `-delete`), so that
after a crash the next start removes them.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.errors import ApiError
from pykafka_broker.log.filesystem import FileCache, FileSystem, is_passing
from pykafka_broker.log.jobs import Errand, Submit
from pykafka_broker.log.log_directory import LogDirectory, aside_name
from pykafka_broker.log.uncreated_logs import UncreatedLogs
from pykafka_broker.protocol.enums import PartitionKey
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

Removal = Callable[[], None]
_REMOVAL_RETRY_MS = 10_000
_REMOVALS_OF_A_JOB = 1000  # requests are served before the next job
_RENAME_RETRY_MS = 1000
_AT_ONCE = 100  # folders renamed within one millisecond of the clock


def removal_job(
    removals: list[Removal],
    on_error: Callable[[OSError], None],
    again: Callable[[list[Removal]], None] = lambda refused: None,
) -> Errand:
    """Return a job that does every removal, even if some fail.

    Each removal is dropped as soon as it is done: the object may hold a removed file open.

    Args:
        on_error: called with the first failure.
        again: called with the removals that a passing error refused.
    """
    refused: list[Removal] = []

    def run() -> None:
        first: OSError | None = None
        removals.reverse()
        while removals:
            removal = removals.pop()
            try:
                removal()
            except FileNotFoundError:
                continue
            except OSError as error:
                first = first or error
                if is_passing(error):
                    refused.append(removal)
        if first is not None:
            raise first

    def failed(error: OSError) -> None:
        on_error(error)
        again(refused)

    return Errand(run, failed)


class Remover:
    """A queue of removals, each with a due time."""

    def __init__(self, fs: FileSystem, submit: Submit, on_error: Callable[[OSError], None]) -> None:
        self._fs = fs
        self._submit = submit
        self._on_error = on_error
        self._queue: list[tuple[int, int, Removal]] = []
        self._count = 0  # keeps removals due at the same time in order
        self._now = 0

    def later(self, due: int, removal: Removal) -> None:
        self._count += 1
        heapq.heappush(self._queue, (due, self._count, removal))

    def folder_later(self, due: int, path: str) -> None:
        self.later(due, lambda: self._fs.remove_tree(path))

    def log_later(self, due: int, folder: str, log: PartitionLog | None) -> None:
        """Remove a renamed folder later, and before it the segments of the loaded log, whose files may be open."""
        if log is not None:
            log.folder_renamed(folder)
            for segment in log.segments:
                self.later(due, segment.remove)
        self.folder_later(due, folder)

    def next_deadline(self) -> int | None:
        return self._queue[0][0] if self._queue else None

    def on_deadline(self, now: int) -> None:
        self._now = now
        removals: list[Removal] = []
        while self._queue and self._queue[0][0] <= now and len(removals) < _REMOVALS_OF_A_JOB:
            removals.append(heapq.heappop(self._queue)[2])
        if removals:
            self._submit(removal_job(removals, self._on_error, self._try_again))

    def _try_again(self, refused: list[Removal]) -> None:
        """Queue removals again that failed for a passing reason, as without a free file descriptor."""
        for removal in refused:
            self.later(self._now + _REMOVAL_RETRY_MS, removal)


class _Folder(NamedTuple):
    """The folder of a deleted partition that is not renamed yet."""

    key: PartitionKey
    directory: LogDirectory
    log: PartitionLog | None
    delay_ms: int  # `file.delete.delay.ms`


class Deletions:
    """The folders of deleted partitions, renamed and handed to the `Remover`."""

    def __init__(
        self,
        files: FileCache,
        new_uuid: Callable[[], bytes],
        submit: Submit,
        directory_failed: Callable[[LogDirectory, OSError], object],
        uncreated: UncreatedLogs,
        remover: Remover,
    ) -> None:
        self._files = files
        self._new_uuid = new_uuid
        self._submit = submit
        self._directory_failed = directory_failed
        self._uncreated = uncreated
        self._remover = remover
        self._waiting: dict[PartitionKey, list[_Folder]] = {}  # folders not tried yet
        self._waiting_since = 0
        self._refused: dict[PartitionKey, list[_Folder]] = {}
        self._retry_at: int | None = None
        self._tried = self._tried_at = 0  # how many folders were tried in which millisecond
        self._unsynced: set[str] = set()  # directories whose renames wait for a sync

    def delete(
        self, key: PartitionKey, directory: LogDirectory, log: PartitionLog | None, delay_ms: int, now: int
    ) -> None:
        """Rename the partition's folder in `directory` now or soon, or when the disk allows the rename.

        Args:
            log: the log that was loaded from the folder, if any.
            delay_ms: how long the renamed folder stays (`file.delete.delay.ms`).
        """
        folder = _Folder(key, directory, log, delay_ms)
        if now != self._tried_at:
            self._tried, self._tried_at = 0, now
        self._tried += 1
        if self._tried <= _AT_ONCE:
            self._try(folder, now)
        else:
            self._waiting.setdefault(key, []).append(folder)
            self._waiting_since = now

    def _try(self, folder: _Folder, now: int) -> None:
        error = self._rename(folder, now)
        if error is not None and folder.directory.online:
            logger.warning("%s-%d is deleted, its folder is renamed later: %s", *folder.key, error)

    def finish(self, key: PartitionKey, now: int) -> None:
        """Rename the old folder of the partition now, before a new log of the same name is made.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR, the old folder is still in place. The caller makes no log; it may ask again.
        """
        for noted in (self._waiting, self._refused):
            while key in noted:
                folder = noted[key].pop(0)
                if not noted[key]:
                    del noted[key]
                error = self._rename(folder, now)
                if error is not None:
                    reason = f"An earlier {key[0]}-{key[1]} is still there: {error}"
                    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def complete(self, now: int) -> None:
        """Try to rename every folder that is not renamed yet."""
        while self._waiting:
            self._try_next(now)
        self._retry(now)

    def _try_next(self, now: int) -> None:
        for folder in self._waiting.pop(next(iter(self._waiting))):
            self._try(folder, now)

    def _retry(self, now: int) -> None:
        self._retry_at = None
        refused, self._refused = self._refused, {}
        for folders in refused.values():
            for folder in folders:
                self._rename(folder, now)

    def next_deadline(self) -> int | None:
        return self._waiting_since if self._waiting else self._retry_at

    def on_deadline(self, now: int) -> None:
        for _ in range(min(_AT_ONCE, len(self._waiting))):
            self._try_next(now)
        if self._retry_at is not None and self._retry_at <= now:
            self._retry(now)

    def _rename(self, folder: _Folder, now: int) -> OSError | None:
        """Rename the folder, or return the disk's error.

        A disk that refuses for good takes its directory offline, and the next start deletes the folder.
        """
        key, directory, log, delay_ms = folder
        if not directory.online:
            return None
        directory.forget(key)
        source, target = directory.partition_path(key), directory.file(aside_name(key, self._new_uuid()))
        was_uncreated = self._uncreated.forget(source)  # the folder may not be on disk yet
        self._files.release_folder(source)
        try:
            self._files.fs.rename(source, target)
        except OSError as error:
            if was_uncreated and isinstance(error, FileNotFoundError):
                return None
            self._directory_failed(directory, error)
            if directory.online:
                self._refused.setdefault(key, []).append(folder)
                self._retry_at = self._retry_at or now + _RENAME_RETRY_MS
            return error
        self._remover.log_later(now + delay_ms, target, log)
        if directory.path not in self._unsynced:
            self._unsynced.add(directory.path)
            self._submit(Errand(partial(self._sync, directory), partial(self._directory_failed, directory)))
        return None

    def _sync(self, directory: LogDirectory) -> None:
        """Make every rename so far outlive a power cut. Runs in a thread."""
        # First, so that a rename during the sync asks for another sync.
        self._unsynced.discard(directory.path)
        directory.fs.sync_directory(directory.path)
