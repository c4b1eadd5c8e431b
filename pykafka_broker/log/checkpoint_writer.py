"""Writing the offset checkpoints of the log directories.

Rule: a file is written by one thread at a time and never replaced by something older than it holds. What is known to be
on disk already is not written again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from pykafka_broker.log.checkpoints import write_offsets
from pykafka_broker.log.filesystem import FileSystem
from pykafka_broker.log.jobs import Submit
from pykafka_broker.log.log_directory import TopicPartition

Offsets = Mapping[TopicPartition, int]


class CheckpointWriter:
    def __init__(self, fs: FileSystem, submit: Submit, on_error: Callable[[str, OSError], object]) -> None:
        self.fs = fs
        self._submit = submit
        self._on_error = on_error
        self._lock = threading.Lock()
        self._pending: dict[str, Offsets] = {}
        self._known: dict[str, Offsets] = {}  # by path: what the file says, or is about to say
        self._written: dict[str, Offsets] = {}  # what it says, at least until the one that is pending is written

    def note(self, path: str, offsets: Offsets) -> None:
        """That is what the file says."""
        self._known[path] = self._written[path] = offsets

    def mentions(self, key: TopicPartition, paths: Sequence[str]) -> bool:
        """Whether one of the files says anything of this partition, or may do so."""
        return any(key in self._written.get(path, ()) or key in self._pending.get(path, ()) for path in paths)

    def later(self, path: str, offsets: Offsets, *, folder: str | None = None) -> None:
        """Write beside the loop if there is anything new; first of all sync `folder`, if the offsets depend on it."""
        if folder is None and self._known.get(path) == offsets:
            return
        self._known[path] = self._pending[path] = offsets
        self._submit(_WriteJob(self, path, folder))

    def now(self, path: str, offsets: Offsets) -> None:
        """Write before this returns."""
        with self._lock:
            self._pending.pop(path, None)
            write_offsets(self.fs, path, offsets)
            self._written[path] = offsets
        self._known[path] = offsets

    def write_pending(self, path: str) -> None:
        with self._lock:
            offsets = self._pending.get(path)
            if offsets is None:
                return  # another job has written what is newest
            try:
                write_offsets(self.fs, path, offsets)
                self._written[path] = offsets
            finally:
                if self._pending.get(path) is offsets:  # else something newer has come meanwhile
                    del self._pending[path]

    def failed(self, path: str, error: OSError) -> None:
        self._known.pop(path, None)  # so that it is tried again
        self._on_error(path, error)


class _WriteJob:
    def __init__(self, writer: CheckpointWriter, path: str, folder: str | None) -> None:
        self._writer = writer
        self._path = path
        self._folder = folder

    def run(self) -> None:
        if self._folder is not None:
            try:
                self._writer.fs.sync_directory(self._folder)
            except FileNotFoundError:
                return  # the partition was deleted or moved meanwhile
        self._writer.write_pending(self._path)

    def apply(self) -> None:
        """Nothing waits for it."""

    def failed(self, error: OSError) -> None:
        self._writer.failed(self._path, error)
