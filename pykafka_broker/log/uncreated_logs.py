"""Folders of partitions that were just created.

Rule: a creation notes the folder and touches no disk. A job makes the folders beside the loop, some at a time, each
with the id of its topic. A load of a log before its turn makes the folder at once, so a folder with its id is there
before any record is. A folder that a crash has prevented is made by the next start, which misses it. Where the job is
declined, a log's folder is made by its first use alone: temporary data have few folders then, and few to remove.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pykafka_broker.log.checkpoints import PARTITION_METADATA, partition_metadata
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.jobs import Errand, Submit

logger = logging.getLogger(__name__)

_MADE_AT_ONCE = 200


@dataclass(slots=True, eq=False, kw_only=True)
class CreateFoldersJob(Errand):
    """A job that makes some folders. decline: called instead of the job, leaves each folder to the log's first use."""

    decline: Callable[[], object]


class UncreatedLogs:
    """The folders of created partitions with logs never loaded, by path."""

    def __init__(self, fs: FileSystem, submit: Submit, on_error: Callable[[str, OSError], object]) -> None:
        self._fs = fs
        self._submit = submit
        self._on_error = on_error  # gets the path too, which the error of a write lacks
        self._topic_ids: dict[str, bytes] = {}
        self._job_submitted = self._declined = False
        self._condition = threading.Condition()  # guards the fields below, which the job's thread uses too
        self._waiting: dict[str, bytes] = {}  # folders to be made, in this order
        self._refused: dict[str, bytes] = {}  # folders for which room or a descriptor was missing
        self._in_hand: str | None = None  # the folder that the job is making

    def note(self, path: str, topic_id: bytes) -> None:
        """Have a created partition's folder made, in a job; no file of the name exists."""
        self._topic_ids[path] = topic_id
        with self._condition:
            self._waiting[path] = topic_id
        self._make_later()

    def __contains__(self, path: str) -> bool:
        return path in self._topic_ids

    def claim(self, path: str) -> bytes | None:
        """Return the topic id if no log has been loaded from the folder, which exists then and holds nothing else.

        Raises:
            OSError: the folder can't be made. The caller may ask again.
        """
        topic_id = self._topic_ids.get(path)
        if topic_id is None:
            return None
        if self._withdraw(path):
            self._make(path, topic_id)
        del self._topic_ids[path]
        return topic_id

    def forget(self, path: str) -> bool:
        """Forget a deleted partition, and return whether the folder may be missing or incomplete."""
        return self._topic_ids.pop(path, None) is not None and self._withdraw(path)

    def abandon(self, directory: str) -> None:
        """Make no more folders in the directory."""
        for path in [path for path in self._topic_ids if os.path.dirname(path) == directory]:
            del self._topic_ids[path]
            with self._condition:
                self._waiting.pop(path, None)
                self._refused.pop(path, None)

    def finish(self) -> None:
        """Make all waiting folders now, unless they are left to their first use."""
        if self._declined:
            return
        failed = []
        for path, topic_id in self._topic_ids.items():
            if self._withdraw(path):
                try:
                    self._make(path, topic_id)
                except OSError as error:
                    failed.append((path, error))
        self._report(failed)

    def _withdraw(self, path: str) -> bool:
        """Take a folder away from the job, and return whether the folder must still be made.

        A folder that the job is just making is waited for.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._in_hand != path)
            waiting, refused = self._waiting.pop(path, None), self._refused.pop(path, None)
            return waiting is not None or refused is not None

    def _make_later(self) -> None:
        if not (self._job_submitted or self._declined):
            self._job_submitted = True
            failed: list[tuple[str, OSError]] = []
            done = partial(self._made, failed)

            def run() -> None:  # errors of the disk are noted where a folder is made
                failed.extend(self._make_some())

            self._submit(CreateFoldersJob(run, lambda error: done(), done, decline=self._decline))

    def _decline(self) -> None:
        self._declined = True

    def _make_some(self) -> list[tuple[str, OSError]]:
        """Make some waiting folders in the job's thread, and return the failures."""
        failed = []
        for _ in range(_MADE_AT_ONCE):
            with self._condition:
                path = next(iter(self._waiting), None)
                if path is None:
                    break
                topic_id, self._in_hand = self._waiting.pop(path), path
            try:
                self._make(path, topic_id)
            except OSError as error:
                failed.append((path, error))
            finally:
                with self._condition:
                    self._in_hand = None
                    self._condition.notify_all()
        return failed

    def _made(self, failed: list[tuple[str, OSError]]) -> None:
        """Finish a job on the loop, and start the next."""
        self._job_submitted = False
        if self._waiting:
            self._make_later()
        self._report(failed)

    def _report(self, failed: list[tuple[str, OSError]]) -> None:
        if failed:
            path, error = failed[0]
            logger.warning("Could not make %s of a new partition yet, and %d others: %s", path, len(failed) - 1, error)
        for path, error in failed:
            self._on_error(path, error)

    def _make(self, path: str, topic_id: bytes) -> None:
        """Make a folder and the file with the topic id; after a failure a load of the log or the shutdown tries again.

        Nobody reads the file before it is whole, so there is nothing to replace. A failed write is removed: Kafka takes
        a directory offline for an empty file.
        """
        file = f"{path}/{PARTITION_METADATA}"
        try:
            self._fs.make_directory(path)
            self._fs.open(file, create=True).write_at(partition_metadata(topic_id), 0)
        except OSError:
            self._refused[path] = topic_id
            with contextlib.suppress(OSError):
                self._fs.remove(file)
            raise
