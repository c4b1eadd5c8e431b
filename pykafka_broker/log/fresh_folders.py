"""Folders of partitions that were just created.

Rule: a creation makes the folder and nothing else. The topic id is written beside the loop, and at the latest before
the log is loaded, so it is there before any record is. What comes with the first record is made then.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka_broker.log.checkpoints import PARTITION_METADATA, partition_metadata, write_partition_metadata
from pykafka_broker.log.filesystem import PASSING, FileSystem
from pykafka_broker.log.jobs import Submit

if TYPE_CHECKING:
    from pykafka_broker.log.partition_log import PartitionLog


class FreshFolders:
    def __init__(self, fs: FileSystem, submit: Submit, on_error: Callable[[str, OSError], object]) -> None:
        self._fs = fs
        self._submit = submit
        self._on_error = on_error
        self._lock = threading.Lock()  # a folder that is renamed or loaded is not being written to
        self._unnamed: dict[str, bytes] = {}

    def make(self, path: str, topic_id: bytes) -> None:
        self._fs.make_directory(path)
        self._unnamed[path] = topic_id

    def name_later(self) -> None:
        """Write the ids of those made so far."""
        if self._unnamed:
            self._submit(_NameJob(self))

    def name(self, path: str) -> None:
        """Write the id of this one, if that is still to be done; or wait until it is, if it is being done."""
        if self._unnamed or self._lock.locked():  # in this order: one is taken out only after the lock
            with self._lock:
                topic_id = self._unnamed.pop(path, None)
                if topic_id is not None:
                    self._write(path, topic_id)

    def forget(self, path: str) -> None:
        """The folder goes."""
        if self._unnamed or self._lock.locked():
            with self._lock:
                self._unnamed.pop(path, None)

    def name_all(self) -> None:
        """Every one that can be written; then the last error is raised."""
        failed: OSError | None = None
        for path in list(self._unnamed):
            with self._lock:
                topic_id = self._unnamed.get(path)
                if topic_id is None:
                    continue
                try:
                    self._write(path, topic_id)
                except OSError as error:
                    failed = error
                    if error.errno in PASSING:
                        continue  # it waits for room
                del self._unnamed[path]
        if failed is not None:
            raise failed

    def failed(self, error: OSError) -> None:
        """A log that has no id gets it when it is loaded."""
        self._on_error(str(error.filename), error)

    def _write(self, path: str, topic_id: bytes) -> None:
        """Nobody reads it before it is whole, so there is nothing to replace. Kafka takes a directory offline for one
        that is empty.
        """
        file = f"{path}/{PARTITION_METADATA}"
        try:
            self._fs.open(file, create=True).write_at(partition_metadata(topic_id), 0)
        except OSError:
            with contextlib.suppress(OSError):
                self._fs.remove(file)
            raise


def name_log(log: PartitionLog, topic_id: bytes) -> None:
    """Its `partition.metadata` is missing, as with logs older than topic ids: it gets the id it is known by."""
    write_partition_metadata(log.files.fs, f"{log.directory}/{PARTITION_METADATA}", topic_id)
    log.topic_id = topic_id
    log.directory_dirty = True  # a sync that is under way may be past that file


class _NameJob:
    def __init__(self, folders: FreshFolders) -> None:
        self._folders = folders

    def run(self) -> None:
        self._folders.name_all()

    def apply(self) -> None:
        """Nothing waits for it."""

    def failed(self, error: OSError) -> None:
        self._folders.failed(error)
