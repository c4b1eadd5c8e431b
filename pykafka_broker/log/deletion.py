"""Deleted partitions, from the moment when they are gone to that when their folders have a name that says so.

Rule: a deletion never fails for whoever asks for it, and never takes long. The partition is gone at once. Some folders
get their other names at once too, those of a large topic some at a time, as soon as others were served. One that the
disk refuses is tried again every second. It is also tried before a log of that name is made, which is refused as long
as the old folder stands there: nobody is ever served an earlier topic's records.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from pykafka_broker.errors import ApiError
from pykafka_broker.log.fresh_folders import FreshFolders
from pykafka_broker.log.log_directory import LogDirectory, TopicPartition, deleted_name
from pykafka_broker.log.removal import Remover
from pykafka_broker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykafka_broker.log.manager import LogManager
    from pykafka_broker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

_RETRY_MS = 1000
_AT_ONCE = 100  # folders that are renamed in a millisecond of the clock


class _Folder(NamedTuple):
    """One that still has its old name."""

    key: TopicPartition
    directory: LogDirectory
    log: PartitionLog | None
    delay_ms: int  # `file.delete.delay.ms`


class Deletions:
    """Renames the folders of deleted partitions and hands them to the `Remover`."""

    def __init__(self, manager: LogManager, fresh: FreshFolders, remover: Remover) -> None:
        self._manager = manager
        self._fresh = fresh
        self._remover = remover
        self._waiting: dict[TopicPartition, list[_Folder]] = {}  # not tried yet
        self._waiting_since = 0
        self._refused: dict[TopicPartition, list[_Folder]] = {}
        self._retry_at: int | None = None
        self._tried = self._tried_at = 0
        self._unsynced: set[str] = set()  # directories whose renames wait for a sync

    def delete(
        self, key: TopicPartition, directory: LogDirectory, log: PartitionLog | None, delay_ms: int, now: int
    ) -> None:
        """Its folder in `directory` goes, now or soon, or when the disk allows it. `log`: what was loaded from it."""
        folder = _Folder(key, directory, log, delay_ms)
        if self._may_try(now):
            self._try(folder, now)
        else:
            self._waiting.setdefault(key, []).append(folder)
            self._waiting_since = now

    def _may_try(self, now: int) -> bool:
        if now != self._tried_at:
            self._tried, self._tried_at = 0, now
        self._tried += 1
        return self._tried <= _AT_ONCE

    def _try(self, folder: _Folder, now: int) -> None:
        error = self._rename(folder, now)
        if error is not None and folder.directory.online:
            logger.warning("%s-%d is deleted, its folder is renamed later: %s", *folder.key, error)

    def finish(self, key: TopicPartition, now: int) -> None:
        """Before a log of that name is made: its old folder must be out of the way.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR, the folder still stands there. The caller makes no log; it may ask again.
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
        """Try all that still have their old names."""
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
        """Why not, if the disk refuses it. One that refuses for good goes offline, and the next start looks again."""
        manager, (key, directory, log, delay_ms) = self._manager, folder
        if not directory.online:
            return None
        directory.forget(key)
        source, target = directory.partition_path(key), directory.file(deleted_name(key, manager.new_uuid()))
        missing = self._fresh.forget(source)
        manager.files.let_go(source)
        try:
            manager.fs.rename(source, target)
        except OSError as error:
            if missing and isinstance(error, FileNotFoundError):
                return None
            manager.directory_failed(directory, error)
            if directory.online:
                self._refused.setdefault(key, []).append(folder)
                self._retry_at = self._retry_at or now + _RETRY_MS
            return error
        self._remover.log_later(now + delay_ms, target, log)
        if directory.path not in self._unsynced:
            self._unsynced.add(directory.path)
            manager.submit(_SyncJob(manager, directory, self._unsynced))
        return None


class _SyncJob:
    """Makes the renames in a directory outlive a power cut, all of those that were made before it runs."""

    def __init__(self, manager: LogManager, directory: LogDirectory, unsynced: set[str]) -> None:
        self._manager = manager
        self._directory = directory
        self._unsynced = unsynced

    def run(self) -> None:
        self._unsynced.discard(self._directory.path)
        self._manager.fs.sync_directory(self._directory.path)

    def apply(self) -> None:
        """Nothing waits for it."""

    def failed(self, error: OSError) -> None:
        self._manager.directory_failed(self._directory, error)
