"""Deleted partitions, from the moment when they are gone to that when their folders have a name that says so.

Rule: a deletion never fails for whoever asks for it. The partition is gone at once. If the disk refuses its folder the
other name, that is noted here and tried again every second. It is also tried before a log of that name is made, which
is refused as long as the old folder stands there: nobody is ever served an earlier topic's records.
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


class _Refused(NamedTuple):
    """A folder that still has its old name."""

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
        self._refused: list[_Refused] = []
        self._retry_at: int | None = None
        self._unsynced: set[str] = set()  # directories whose renames wait for a sync

    def delete(
        self, key: TopicPartition, directory: LogDirectory, log: PartitionLog | None, delay_ms: int, now: int
    ) -> None:
        """Its folder in `directory` goes, now or as soon as the disk allows it. `log`: what was loaded from it."""
        directory.forget(key)
        error = self._rename(_Refused(key, directory, log, delay_ms), now)
        if error is not None and directory.online:
            logger.warning("%s-%d is deleted, its folder is renamed later: %s", *key, error)

    def finish(self, key: TopicPartition, now: int) -> None:
        """Before a log of that name is made: its old folder must be out of the way.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR, the folder still stands there. The caller makes no log; it may ask again.
        """
        for refused in [each for each in self._refused if each.key == key]:
            self._refused.remove(refused)
            error = self._rename(refused, now)
            if error is not None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"An earlier {key[0]}-{key[1]} is still there: {error}")

    def retry(self, now: int) -> None:
        """Try every one again that was refused."""
        self._retry_at = None
        refused, self._refused = self._refused, []
        for each in refused:
            self._rename(each, now)

    def next_deadline(self) -> int | None:
        return self._retry_at

    def on_deadline(self, now: int) -> None:
        if self._retry_at is not None and self._retry_at <= now:
            self.retry(now)

    def _rename(self, folder: _Refused, now: int) -> OSError | None:
        """Why not, if the disk refuses it. One that refuses for good goes offline, and the next start looks again."""
        manager, (key, directory, log, delay_ms) = self._manager, folder
        if not directory.online:
            return None
        source, target = directory.partition_path(key), directory.file(deleted_name(key, manager.new_uuid()))
        missing = self._fresh.forget(source)
        try:
            manager.fs.rename(source, target)
        except OSError as error:
            if missing and isinstance(error, FileNotFoundError):
                return None
            manager.directory_failed(directory, error)
            if directory.online:
                self._refused.append(folder)
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
